import { checkFunction, checkInteger, checkSignal, checkText, checkWord } from "../contract/arguments.js";
import { checkKeys, keysOf } from "../contract/keys.js";
import { checkSaveOptions, tokenOf } from "../manager/save-options.js";
import type { RunOptions, RunSaveOptions, StepOptions, StepRetry } from "./run.js";

const RUN_KEYS = keysOf<RunOptions>({
  input: true,
  initialState: true,
  version: true,
  onChange: true,
  restart: true,
  waitForLease: true,
  lease: true,
  signal: true,
  pauseOnSignal: true,
});
const STEP_KEYS = keysOf<StepOptions>({ retry: true, timeoutMs: true, schema: true, input: true, atMostOnce: true });
const RETRY_KEYS = keysOf<StepRetry>({ times: true, backoffMs: true, factor: true, maxMs: true, if: true });
const SAVE_KEYS = keysOf<RunSaveOptions>({ stage: true, label: true, metadata: true });
/** The longest delay of a Node timer; a longer one would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** @throws {TypeError | RangeError} An option is misspelled or out of range. */
export function checkRunOptions(taskId: string, options: RunOptions): void {
  checkKeys("RunOptions", options, RUN_KEYS);
  const { version, onChange, restart, waitForLease, lease, signal, pauseOnSignal } = options;
  if (typeof version !== "number") checkText("RunOptions.version", version ?? "");
  else if (!Number.isFinite(version)) throw new RangeError(`RunOptions.version must be finite; it is ${version}.`);
  checkWord("RunOptions.onChange", onChange, ["refuse", "restart", "resume"]);
  checkFlag("RunOptions.restart", restart);
  checkFlag("RunOptions.pauseOnSignal", pauseOnSignal);
  checkInteger("RunOptions.waitForLease", waitForLease, 0);
  checkSignal("RunOptions.signal", signal);
  tokenOf(taskId, lease);
}

/** @throws {TypeError | RangeError} An option is misspelled or out of range. */
export function checkStepOptions(name: string, options: StepOptions): void {
  checkKeys(`StepOptions of step ${JSON.stringify(name)}`, options, STEP_KEYS);
  const { retry, timeoutMs, schema, atMostOnce } = options;
  checkMs("StepOptions.timeoutMs", timeoutMs);
  checkFlag("StepOptions.atMostOnce", atMostOnce);
  if (schema !== undefined && typeof schema["~standard"]?.validate !== "function") {
    throw new TypeError("StepOptions.schema must be a Standard Schema: Zod 3.24 or newer, Valibot or ArkType.");
  }
  if (retry === undefined) return;
  checkKeys("StepOptions.retry", retry, RETRY_KEYS);
  const { times, backoffMs, factor, maxMs, if: condition } = retry;
  if (times === undefined) throw new TypeError("StepOptions.retry needs `times`: how often to try the step again.");
  checkInteger("StepOptions.retry.times", times, 0);
  checkMs("StepOptions.retry.backoffMs", backoffMs);
  checkMs("StepOptions.retry.maxMs", maxMs);
  checkFunction("StepOptions.retry.if", condition);
  if (factor !== undefined && !(factor >= 1 && factor < Number.POSITIVE_INFINITY)) {
    throw new RangeError(`StepOptions.retry.factor must be a number from 1, not ${factor}.`);
  }
  if (atMostOnce === true && times > 0) throw new TypeError("A step with atMostOnce can't have a retry.");
}

/** @throws {TypeError | RangeError} An option is misspelled or out of range. */
export function checkRunSaveOptions(options: RunSaveOptions): void {
  checkKeys("RunSaveOptions", options, SAVE_KEYS);
  checkSaveOptions(options);
}

function checkFlag(what: string, flag: boolean | undefined): void {
  if (flag !== undefined && typeof flag !== "boolean") throw new TypeError(`${what} must be true or false.`);
}

function checkMs(what: string, ms: number | undefined): void {
  checkInteger(what, ms, 0);
  if (ms !== undefined && ms > LONGEST_MS) throw new RangeError(`${what} must be at most ${LONGEST_MS} (24.8 days).`);
}
