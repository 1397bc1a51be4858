import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { nanoid } from "nanoid";
import { checkFunction, checkText, listKeys } from "../../src/contract/arguments.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { appendEventsIn, appendEventsTo, type LogPhaseCheckpointEvent } from "./event-log.js";
import type { InvalidCheckpointFile } from "./storage.js";

/** The options of every function of this system. An unknown one is ignored, and a warning is logged. */
export interface CheckpointOptions {
  /** The checkpoints' folder. The first checkpoint creates it. Default: `~/.pai/checkpoints`. */
  readonly checkpointsDir?: string | undefined;
  /**
   * The file whose `state.checkpointRef` names the newest checkpoint. It is changed only if it exists. Default:
   * `seed.json` beside the checkpoints' folder, so `~/.pai/seed.json`.
   */
  readonly seedPath?: string | undefined;
  /**
   * The session of a new checkpoint. Default: `PAI_SESSION_ID` of the environment, or a random id that is the same for
   * the whole process.
   */
  readonly sessionId?: string | undefined;
  /**
   * Called for each checkpoint that was created or completed. Default: appends a line of JSON to a file beside the
   * checkpoints' folder, named after the folder: `~/.pai/checkpoints.events.jsonl`.
   */
  readonly logEvent?: LogPhaseCheckpointEvent | undefined;
  /**
   * The folder in which the spec's program has its event log (F-008 there). Events go to a file per UTC day, such as
   * `events-2026-02-01.jsonl`, in that program's form. Ignored if `logEvent` is given.
   */
  readonly eventsDir?: string | undefined;
  /** Called for each checkpoint file that can't be read. Such files are skipped and left as they are. */
  readonly onInvalidFile?: ((file: InvalidCheckpointFile) => void) | undefined;
  /**
   * Gets the errors that a function's answer can't show, and warnings: an unknown option; `seed.json` or the event log
   * can't be written (the checkpoint itself is safe). Default: process warnings.
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

const OPTION_KEYS = listKeys<CheckpointOptions>({
  checkpointsDir: true,
  seedPath: true,
  sessionId: true,
  logEvent: true,
  eventsDir: true,
  onInvalidFile: true,
  logger: true,
});

/**
 * The absolute path of the checkpoints' folder: `dir`, or `~/.pai/checkpoints`.
 *
 * @throws {TypeError | RangeError} `dir` can't be a path.
 */
export function resolveCheckpointsDir(dir?: string): string {
  if (dir === undefined) return join(homedir(), ".pai", "checkpoints");
  checkPath("checkpointsDir", dir);
  return resolve(dir);
}

/**
 * @param more - The additional options of one function.
 * @throws {TypeError | RangeError} An option is wrong; the message names it.
 */
export function resolveCheckpointOptions(
  options: CheckpointOptions,
  ...more: readonly string[]
): ResolvedCheckpointOptions {
  if (typeof options !== "object" || options === null) throw new TypeError("The options must be an object.");
  const { seedPath, sessionId, logEvent, eventsDir, onInvalidFile, logger: chosenLogger = warningLogger } = options;
  if (seedPath !== undefined) checkPath("seedPath", seedPath);
  if (eventsDir !== undefined) checkPath("eventsDir", eventsDir);
  if (sessionId !== undefined) checkText("sessionId", sessionId, 1);
  checkFunction("logEvent", logEvent);
  checkFunction("onInvalidFile", onInvalidFile);
  for (const level of LEVELS) {
    if (!hasLevel(chosenLogger, level)) throw new TypeError(`logger must have the method ${level}, as pino's have.`);
  }
  const checkpointsDir = resolveCheckpointsDir(options.checkpointsDir);
  const beside = dirname(checkpointsDir);
  const logger = safeLogger(chosenLogger);
  // Callers rely on functions that never throw, so a misspelled option can't be an error here.
  const known: readonly string[] = [...OPTION_KEYS, ...more];
  const unknown = Object.keys(options).filter((key) => !known.includes(key));
  if (unknown.length > 0) {
    logger.warn({ unknown, known }, `Ignored: unknown option ${unknown.join(", ")}. Known: ${known.join(", ")}`);
  }
  const session = sessionId ?? process.env["PAI_SESSION_ID"];
  const ownLog = () =>
    eventsDir === undefined
      ? appendEventsTo(join(beside, `${basename(checkpointsDir)}.events.jsonl`))
      : appendEventsIn(resolve(eventsDir), session);
  return {
    checkpointsDir,
    seedPath: seedPath === undefined ? join(beside, "seed.json") : resolve(seedPath),
    sessionId: session || sessionOfThisProcess(),
    logEvent: logEvent ?? ownLog(),
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

const LEVELS = ["debug", "info", "warn", "error"] as const;

function hasLevel(logger: unknown, level: keyof Logger): boolean {
  return typeof logger === "object" && logger !== null && typeof Reflect.get(logger, level) === "function";
}

/** Where a failed call is logged: the caller's logger, if it is a valid one. */
export function readLogger(options: unknown): Logger {
  const logger: unknown = typeof options === "object" && options !== null ? Reflect.get(options, "logger") : undefined;
  return isLogger(logger) ? safeLogger(logger) : warningLogger;
}

function isLogger(value: unknown): value is Logger {
  return LEVELS.every((level) => hasLevel(value, level));
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
