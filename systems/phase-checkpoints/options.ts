import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { nanoid } from "nanoid";
import { checkKeys } from "../../src/contract/adapter.js";
import { checkFunction, checkText } from "../../src/manager/arguments.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { appendEventsTo, type LogPhaseCheckpointEvent } from "./event-log.js";
import type { InvalidCheckpointFile } from "./storage.js";

/** What every function of the system takes. A misspelled option is refused. */
export interface CheckpointOptions {
  /** The checkpoints' folder, made by the first checkpoint. Default: `~/.pai/checkpoints`. */
  readonly checkpointsDir?: string | undefined;
  /**
   * The file whose `state.checkpointRef` names the newest checkpoint, where there is such a file. Default: `seed.json`
   * beside the checkpoints' folder, so `~/.pai/seed.json`.
   */
  readonly seedPath?: string | undefined;
  /** The session that a new checkpoint belongs to. Default: an id that this process made up. */
  readonly sessionId?: string | undefined;
  /**
   * Is told of each checkpoint that was created or completed. Default: appends a line of JSON to a file beside the
   * checkpoints' folder, named after it: `~/.pai/checkpoints.events.jsonl`.
   */
  readonly logEvent?: LogPhaseCheckpointEvent | undefined;
  /** Is told of files among the checkpoints that can't be read. They are passed over and left as they are. */
  readonly onInvalidFile?: ((file: InvalidCheckpointFile) => void) | undefined;
  /**
   * Is told what failed beside the checkpoint itself, which is safe all the same: `seed.json` or the event log could not
   * be written. Default: process warnings.
   */
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

export const CHECKPOINT_OPTION_KEYS = [
  "checkpointsDir",
  "seedPath",
  "sessionId",
  "logEvent",
  "onInvalidFile",
  "logger",
] satisfies (keyof CheckpointOptions)[];

/**
 * The checkpoints' folder: `~/.pai/checkpoints`, or the one given as an absolute path.
 *
 * @throws {TypeError | RangeError} It is no path.
 */
export function resolveCheckpointsDir(dir?: string): string {
  if (dir === undefined) return join(homedir(), ".pai", "checkpoints");
  checkPath("checkpointsDir", dir);
  return resolve(dir);
}

/** @throws {TypeError | RangeError} An option is misspelled, or none that it can be; the message names it. */
export function resolveCheckpointOptions(
  options: CheckpointOptions,
  what = "CheckpointOptions",
  keys: readonly string[] = CHECKPOINT_OPTION_KEYS,
): ResolvedCheckpointOptions {
  checkKeys(what, options, keys);
  const { seedPath, sessionId, logEvent, onInvalidFile } = options;
  if (seedPath !== undefined) checkPath("seedPath", seedPath);
  if (sessionId !== undefined) checkText("sessionId", sessionId, 1);
  checkFunction("logEvent", logEvent);
  checkFunction("onInvalidFile", onInvalidFile);
  const checkpointsDir = resolveCheckpointsDir(options.checkpointsDir);
  const beside = dirname(checkpointsDir);
  const logger = safeLogger(checkedLogger(options.logger));
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

function checkedLogger(logger: Logger | undefined): Logger {
  if (logger === undefined) return warningLogger;
  for (const level of ["debug", "info", "warn", "error"] as const) checkLevel(logger, level);
  return logger;
}

function checkLevel(logger: Logger, level: keyof Logger): void {
  if (typeof logger?.[level] === "function") return;
  throw new TypeError(`CheckpointOptions.logger must have the method ${level}, as pino's loggers have.`);
}
