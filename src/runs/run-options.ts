import { types } from "node:util";
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkKeys,
  checkSignal,
  checkText,
  checkWord,
  formWith,
  listKeys,
  MAX_DELAY_MS,
} from "../contract/arguments.js";
import { checkSaveOptions, readToken } from "../manager/save-options.js";
import { checkSchema } from "../manager/schema.js";
import type { RunOptions, RunSaveOptions, StepOptions, StepRetry, WaitOptions } from "./run.js";
import { MAX_WAIT_MS } from "./waits.js";

const RUN_KEYS = listKeys<RunOptions>({
  input: true,
  initialState: true,
  version: true,
  ifVersionChanged: true,
  restart: true,
  waitForLeaseMs: true,
  lease: true,
  signal: true,
  pauseOnSignal: true,
});
const STEP_KEYS = listKeys<StepOptions>({ retry: true, timeoutMs: true, schema: true, input: true, atMostOnce: true });
const RETRY_KEYS = listKeys<StepRetry>({ times: true, backoffMs: true, factor: true, maxMs: true, if: true });
const WAIT_KEYS = listKeys<WaitOptions>({ timeoutMs: true, signal: true, schema: true, ask: true });
const SAVE_KEYS = listKeys<RunSaveOptions>({ stage: true, label: true, metadata: true });

/** The end of the year 9999. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

export function checkRunOptions(taskId: string, options: RunOptions): void {
  checkKeys("RunOptions", options, RUN_KEYS);
  const { version, ifVersionChanged, restart, waitForLeaseMs, lease, signal, pauseOnSignal } = options;
  if (typeof version !== "number") checkText("RunOptions.version", version ?? "");
  else if (!Number.isFinite(version)) throw new RangeError(`RunOptions.version must be finite; it is ${version}.`);
  checkWord("RunOptions.ifVersionChanged", ifVersionChanged, ["refuse", "restart", "resume"]);
  checkBoolean("RunOptions.restart", restart);
  checkBoolean("RunOptions.pauseOnSignal", pauseOnSignal);
  checkInteger("RunOptions.waitForLeaseMs", waitForLeaseMs, 0);
  checkSignal("RunOptions.signal", signal);
  readToken(taskId, lease);
}

export function checkStepOptions(name: string, options: StepOptions): void {
  const ofStep = ` of step ${JSON.stringify(name)}`;
  checkKeys(`StepOptions${ofStep}`, options, STEP_KEYS, "{ timeoutMs: 3000 }");
  const { retry, timeoutMs, schema, atMostOnce } = options;
  checkInteger(`StepOptions.timeoutMs${ofStep}`, timeoutMs, 0, MAX_DELAY_MS);
  checkBoolean(`StepOptions.atMostOnce${ofStep}`, atMostOnce);
  checkSchema(`StepOptions.schema${ofStep}`, schema);
  if (retry === undefined) return;
  checkKeys(`StepOptions.retry${ofStep}`, retry, RETRY_KEYS, formWith("times", retry));
  const { times, backoffMs, factor, maxMs, if: condition } = retry;
  if (times === undefined)
    throw new TypeError(`StepOptions.retry${ofStep} needs \`times\`: how many times to try the step again.`);
  checkInteger(`StepOptions.retry.times${ofStep}`, times, 0);
  checkInteger(`StepOptions.retry.backoffMs${ofStep}`, backoffMs, 0, MAX_DELAY_MS);
  checkInteger(`StepOptions.retry.maxMs${ofStep}`, maxMs, 0, MAX_DELAY_MS);
  checkFunction(`StepOptions.retry.if${ofStep}`, condition);
  if (factor !== undefined && !(factor >= 1 && factor < Number.POSITIVE_INFINITY)) {
    throw new RangeError(`StepOptions.retry.factor${ofStep} must be a number from 1, not ${factor}.`);
  }
  if (atMostOnce === true && times > 0)
    throw new TypeError(`Step ${JSON.stringify(name)} has atMostOnce, so it can't have a retry.`);
}

/** @throws {TypeError | RangeError} `date` isn't a Date, or is an invalid one. */
export function checkDate(what: string, date: Date): void {
  if (!types.isDate(date)) throw new TypeError(`${what} must be a Date, not ${date === null ? "null" : typeof date}.`);
  if (Number.isNaN(date.getTime())) throw new RangeError(`${what} is an invalid Date.`);
  if (Math.abs(date.getTime()) > LAST_MS) throw new RangeError(`${what} must be a time before the year 10000.`);
}

export function checkWaitOptions(name: string, options: WaitOptions): void {
  checkKeys(`WaitOptions of ${JSON.stringify(name)}`, options, WAIT_KEYS);
  checkInteger(`WaitOptions.timeoutMs of ${JSON.stringify(name)}`, options.timeoutMs, 0, MAX_WAIT_MS);
  checkSignal(`WaitOptions.signal of ${JSON.stringify(name)}`, options.signal);
  checkSchema(`WaitOptions.schema of ${JSON.stringify(name)}`, options.schema);
  if (options.ask !== undefined) checkText(`WaitOptions.ask of ${JSON.stringify(name)}`, options.ask, 1);
}

export function checkRunSaveOptions(options: RunSaveOptions): void {
  checkKeys("RunSaveOptions", options, SAVE_KEYS);
  checkSaveOptions(options);
}
