import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { nanoid } from "nanoid";
import { checkKeys } from "../../src/contract/adapter.js";
import { checkFunction, checkText } from "../../src/manager/arguments.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { appendEventsTo, type LogPhaseCheckpointEvent } from "./event-log.js";
import type { InvalidCheckpointFile } from "./storage.js";

/** The options of every function of this system. A misspelled option is refused. */
export interface CheckpointOptions {
  /** The checkpoints' folder; the first checkpoint makes it. Default: `~/.pai/checkpoints`. */
  readonly checkpointsDir?: string | undefined;
  /**
   * The file whose `state.checkpointRef` names the newest checkpoint, if that file exists. Default: `seed.json` beside
   * the checkpoints' folder, so `~/.pai/seed.json`.
   */
  readonly seedPath?: string | undefined;
  /** The session of a new checkpoint. Default: a random id, the same for the whole process. */
  readonly sessionId?: string | undefined;
  /**
   * Called for each checkpoint that was created or completed. Default: appends a line of JSON to a file beside the
   * checkpoints' folder, named after it: `~/.pai/checkpoints.events.jsonl`.
   */
  readonly logEvent?: LogPhaseCheckpointEvent | undefined;
  /** Called for each file among the checkpoints that can't be read. Such files are skipped and left as they are. */
  readonly onInvalidFile?: ((file: InvalidCheckpointFile) => void) | undefined;
  /** Told if `seed.json` or the event log can't be written; the checkpoint itself is safe. Default: process warnings. */
  readonly logger?: Logger | undefined;
}

/** The options with their defaults. */
export interface ResolvedCheckpointOptions {
  readonly checkpointsDir: string;
  readonly seedPath: string;
  readonly sessionId: string;
  readonly logEvent: LogPhaseCheckpointEvent;
  readonly onInvalidFile: (file: InvalidCheckpointFile) => void;
  readonly logger: Logger;
}

const OPTION_KEYS = [
  "checkpointsDir",
  "seedPath",
  "sessionId",
  "logEvent",
  "onInvalidFile",
  "logger",
] satisfies (keyof CheckpointOptions)[];

/**
 * The checkpoints' folder: `~/.pai/checkpoints`, or `dir` as an absolute path.
 *
 * @throws {TypeError | RangeError} `dir` can't be a path.
 */
export function resolveCheckpointsDir(dir?: string): string {
  if (dir === undefined) return join(homedir(), ".pai", "checkpoints");
  checkPath("checkpointsDir", dir);
  return resolve(dir);
}

/**
 * @param more - The options of one function alone.
 * @throws {TypeError | RangeError} An option is misspelled or wrong; the message names it.
 */
export function resolveCheckpointOptions(
  options: CheckpointOptions,
  what = "CheckpointOptions",
  ...more: readonly string[]
): ResolvedCheckpointOptions {
  checkKeys(what, options, [...OPTION_KEYS, ...more]);
  const { seedPath, sessionId, logEvent, onInvalidFile, logger: given = warningLogger } = options;
  if (seedPath !== undefined) checkPath("seedPath", seedPath);
  if (sessionId !== undefined) checkText("sessionId", sessionId, 1);
  checkFunction("logEvent", logEvent);
  checkFunction("onInvalidFile", onInvalidFile);
  for (const level of ["debug", "info", "warn", "error"] as const) {
    if (typeof given?.[level] !== "function")
      throw new TypeError(`logger must have the method ${level}, as pino's have.`);
  }
  const checkpointsDir = resolveCheckpointsDir(options.checkpointsDir);
  const beside = dirname(checkpointsDir);
  const logger = safeLogger(given);
  return {
    checkpointsDir,
    seedPath: seedPath === undefined ? join(beside, "seed.json") : resolve(seedPath),
    sessionId: sessionId ?? sessionOfThisProcess(),
    logEvent: logEvent ?? appendEventsTo(join(beside, `${basename(checkpointsDir)}.events.jsonl`)),
    onInvalidFile: (file) => {
      try {
        onInvalidFile?.(file);
      } catch (error) {
        logger.error({ error, ...file }, "onInvalidFile threw");
      }
    },
    logger,
  };
}

let ownSession: string | undefined;

function sessionOfThisProcess(): string {
  ownSession ??= nanoid();
  return ownSession;
}

function checkPath(what: string, path: string): void {
  checkText(what, path, 1);
  if (path.includes("\0")) throw new TypeError(`${what} must be a path; it holds a NUL character.`);
}
