import { resolve } from "node:path";
import { type Logger, UnsupportedOperationError } from "waymark";
import {
  checkFunction,
  checkInteger,
  checkKeys,
  checkMaxAge,
  checkSignal,
  checkText,
  DEFAULT_MAX_AGE_MS,
  listKeys,
  MAX_DELAY_MS,
  warningLogger,
} from "waymark/kit";
import type { OneshotListener } from "./events.js";
import type { RunSettings } from "./feature-run.js";
import type { OneshotPlan, WorkstreamFolder } from "./plan.js";

export interface OneshotOptions {
  /**
   * The plan, or the path of its file (YAML or JSON). Default: with `resume`, the plan of the previous run; otherwise
   * `<baseDir>/.sdp/plans/<feature>.yaml`, `.yml` or `.json`.
   */
  readonly plan?: OneshotPlan | WorkstreamFolder | string | undefined;
  /** The project's folder. Checkpoints are in its `.sdp/checkpoints`. Default: the current folder. */
  readonly baseDir?: string | undefined;
  /** The folder of the checkpoints. Set it if other programs use the default, `<baseDir>/.sdp/checkpoints`. */
  readonly checkpointDir?: string | undefined;
  /** The folder where the commands run. Default: `baseDir`. */
  readonly cwd?: string | undefined;
  /** How many workstreams may run at a time, from 1. Default 1. */
  readonly jobs?: number | undefined;
  /** Continues from the feature's checkpoint: runs the workstreams that it doesn't list as completed. Default false. */
  readonly resume?: boolean | undefined;
  /** Starts from the beginning and ignores the feature's checkpoint. A damaged one is set aside. Default false. */
  readonly restart?: boolean | undefined;
  /** With `resume`: the maximum age of a checkpoint, in milliseconds since its last update. Default 7 days. */
  readonly maxAgeMs?: number | undefined;
  /** With `resume`: accepts a stale checkpoint. Default false. */
  readonly force?: boolean | undefined;
  /**
   * The agent that works on the feature, for the checkpoint. Default: the agent of the previous run, or a random id.
   */
  readonly agentId?: string | undefined;
  /** The time between SIGTERM and SIGKILL for a process group, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** How many of the last output lines a workstream's failure contains, from 0. Default 20. */
  readonly tailLines?: number | undefined;
  /** Pauses the run: ends the running commands, saves `paused`, and rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called for each event of the run. If it throws, the error is logged and the run continues. */
  readonly onEvent?: OneshotListener | undefined;
  /** Default: warnings and errors become process warnings. */
  readonly logger?: Logger | undefined;
  /** Returns milliseconds since 1970. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
}

/** The options with their defaults. */
export interface Settings
  extends RunSettings,
    Pick<OneshotOptions, "checkpointDir" | "agentId" | "signal" | "onEvent"> {
  readonly baseDir: string;
  readonly resume: boolean;
  readonly restart: boolean;
  readonly maxAgeMs: number;
  readonly logger: Logger;
  readonly clock: () => number;
}

/**
 * @throws {TypeError | RangeError} An option is misspelled or out of range; the message names it.
 * @throws {UnsupportedOperationError} On Windows, which has no process groups.
 */
export function resolveOptions(options: OneshotOptions): Settings {
  checkKeys("OneshotOptions", options, OPTION_KEYS);
  const {
    plan,
    baseDir = ".",
    cwd = baseDir,
    checkpointDir,
    jobs,
    agentId,
    maxAgeMs,
    killGraceMs,
    tailLines,
  } = options;
  const { signal } = options;
  if (plan !== undefined && typeof plan !== "string" && (typeof plan !== "object" || plan === null)) {
    throw new TypeError("OneshotOptions.plan must be a plan, or the path of its file.");
  }
  if (typeof plan === "string") checkText("OneshotOptions.plan", plan, 1);
  checkText("OneshotOptions.baseDir", baseDir, 1);
  checkText("OneshotOptions.cwd", cwd, 1);
  if (checkpointDir !== undefined) checkText("OneshotOptions.checkpointDir", checkpointDir, 1);
  if (agentId !== undefined) checkText("OneshotOptions.agentId", agentId);
  checkInteger("OneshotOptions.jobs", jobs, 1);
  checkInteger("OneshotOptions.tailLines", tailLines, 0);
  checkInteger("OneshotOptions.killGraceMs", killGraceMs, 0);
  if (killGraceMs !== undefined && killGraceMs > MAX_DELAY_MS) {
    throw new RangeError(`OneshotOptions.killGraceMs can be at most ${MAX_DELAY_MS} ms; it is ${killGraceMs}.`);
  }
  checkMaxAge("OneshotOptions.maxAgeMs", maxAgeMs);
  checkFunction("OneshotOptions.onEvent", options.onEvent);
  checkFunction("OneshotOptions.clock", options.clock);
  checkSignal("OneshotOptions.signal", signal);
  const [resume, restart, force] = (["resume", "restart", "force"] as const).map((name) => {
    const value = options[name] ?? false;
    if (typeof value !== "boolean") throw new TypeError(`OneshotOptions.${name} must be true or false.`);
    return value;
  });
  if (resume && restart) throw new TypeError("OneshotOptions.resume and restart exclude each other.");
  if (process.platform === "win32") {
    throw new UnsupportedOperationError("Workstreams need process groups, which Windows doesn't have.");
  }
  return {
    baseDir: resolve(baseDir),
    cwd: resolve(cwd),
    checkpointDir,
    jobs: jobs ?? 1,
    resume: resume ?? false,
    restart: restart ?? false,
    maxAgeMs: force ? Number.POSITIVE_INFINITY : (maxAgeMs ?? DEFAULT_MAX_AGE_MS),
    agentId,
    killGraceMs: killGraceMs ?? 5_000,
    tailLines: tailLines ?? 20,
    signal,
    onEvent: options.onEvent,
    logger: options.logger ?? warningLogger,
    clock: options.clock ?? Date.now,
  };
}

const OPTION_KEYS = listKeys<OneshotOptions>({
  plan: true,
  baseDir: true,
  cwd: true,
  checkpointDir: true,
  jobs: true,
  resume: true,
  restart: true,
  maxAgeMs: true,
  force: true,
  agentId: true,
  killGraceMs: true,
  tailLines: true,
  signal: true,
  onEvent: true,
  logger: true,
  clock: true,
});
