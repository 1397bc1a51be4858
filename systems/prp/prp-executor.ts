import { resolve } from "node:path";
import type { SetAside } from "../../adapters/files/set-aside.js";
import { checkKeys } from "../../src/contract/adapter.js";
import type { Checkpoint } from "../../src/contract/checkpoint.js";
import {
  CheckpointConflictError,
  CheckpointNotFoundError,
  UnsupportedOperationError,
} from "../../src/contract/errors.js";
import { checkInteger, checkTaskId, checkText } from "../../src/manager/arguments.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { interruptibly } from "../processes/interruption.js";
import { ProcessStuckError } from "../processes/process-group.js";
import { type CheckpointConfig, PrpCheckpointManager } from "./checkpoint-manager.js";
import type { Coder } from "./coder.js";
import { PrpError } from "./errors.js";
import type { PrpOutput } from "./output.js";
import { loadPrp, type PrpDocument } from "./prp-document.js";
import { type ExecutionResult, PrpRun, type RunSettings } from "./prp-run.js";
import { RunJournal } from "./run-journal.js";
import type { CheckpointExecutionState } from "./schema.js";
import { makeSessionFolder } from "./session-folder.js";

export interface PrpExecutorOptions {
  /** Who does the work: a function, or a shell command such as a coding agent's. See {@link Coder}. */
  readonly coder: Coder;
  /** How often the coder may try to fix what a gate has found, each round. Default 2. */
  readonly maxFixAttempts?: number | undefined;
  /** How long a gate may take, in milliseconds. Default 120,000. */
  readonly gateTimeoutMs?: number | undefined;
  /** How long the coder may take, in milliseconds. Default: for ever. */
  readonly coderTimeoutMs?: number | undefined;
  /** How long a process group has between SIGTERM and SIGKILL, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** How much of each gate's stdout, of its stderr, and of a response is kept, in bytes. Default 65,536. */
  readonly maxOutputBytes?: number | undefined;
  /**
   * While the coder or a gate runs as a command, what it has written is saved at this interval, in milliseconds, where
   * something new has come: the newest checkpoint then says how far it was when everything is killed. Default 30,000;
   * 0 or Infinity: never. A coder that is a function has nothing to save.
   */
  readonly autoSaveIntervalMs?: number | undefined;
  /** Where the coder and the gates run. Default: the session's folder. */
  readonly cwd?: string | undefined;
  /** What differs from the defaults of {@link CheckpointConfig}; or a manager, which then stays open after `close`. */
  readonly checkpoints?: Partial<CheckpointConfig> | PrpCheckpointManager | undefined;
  /** Where the coder's and the gates' output is shown while they run. Default: this process's stdout and stderr. */
  readonly output?: PrpOutput | undefined;
  /** Default: warnings and errors are process warnings. */
  readonly logger?: Logger | undefined;
}

export interface ExecuteOptions {
  /** Pauses the execution: what runs is ended, and `execute` rejects with the reason. Execute again to go on. */
  readonly signal?: AbortSignal | undefined;
  /** Begins anew, whatever checkpoints there are; a file of them that can't be written is set aside. Default false. */
  readonly restart?: boolean | undefined;
  /**
   * With true, there must be a checkpoint to go on from; with false, no unfinished work. Default: goes on from a
   * checkpoint if there is one.
   */
  readonly resume?: boolean | undefined;
  /** The task's name. Default: the PRP's own id, or else the name of its file. */
  readonly taskId?: string | undefined;
}

const OPTION_KEYS = [
  "coder",
  "maxFixAttempts",
  "gateTimeoutMs",
  "coderTimeoutMs",
  "killGraceMs",
  "maxOutputBytes",
  "autoSaveIntervalMs",
  "cwd",
  "checkpoints",
  "output",
  "logger",
] satisfies (keyof PrpExecutorOptions)[];
const EXECUTE_KEYS = ["signal", "restart", "resume", "taskId"] satisfies (keyof ExecuteOptions)[];

const DEFAULT_GATE_TIMEOUT_MS = 120_000;
const DEFAULT_KILL_GRACE_MS = 5_000;
const DEFAULT_AUTO_SAVE_INTERVAL_MS = 30_000;
const DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024;
/** Timers take no more. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Executes PRPs: runs a coder, then the validation gates level by level; lets the coder fix what they find, and runs
 * them again. Each point is a checkpoint (`pre-execution`, `coder-response`, `validation-gate-N`, `complete`,
 * `failed`), so that a run that was killed is gone on with by executing the PRP again.
 *
 * What is acknowledged is not done again: once a response's checkpoint is on disk, no later `execute` calls the coder
 * for it, and no gate that has passed on that response is run again. A coder or gate that a killed run has left
 * running is ended first: its process group is named in a checkpoint before it is let go. (This takes one machine:
 * what runs on another one can't be seen.) What a command has written so far is saved while it runs.
 *
 * Any number of tasks of one session may be executed at once, by one executor, by several, and by several processes; a
 * task that is being executed already is refused. They share `cwd`: give each its own where their coders would get into
 * each other's way.
 *
 * Gates run in the order of their levels, each in a process group of its own without stdin; what one leaves running
 * in its group when it ends is ended. Its first failing command fails it. Node's pipes are sockets, so `>&2` works and
 * `>/dev/stderr` doesn't.
 *
 * @example
 * ```ts
 * import { PrpExecutor } from "waymark/prp";
 *
 * const executor = new PrpExecutor("plan/001_session", { coder: "claude -p --permission-mode acceptEdits", cwd: "." });
 * const result = await executor.execute("prps/P1.M1.T1.S1.md");
 * await executor.close();
 * ```
 */
export class PrpExecutor {
  readonly sessionPath: string;
  readonly #settings: RunSettings;
  readonly #checkpoints: PrpCheckpointManager;
  readonly #ownsCheckpoints: boolean;
  readonly #makesCwd: boolean;

  /**
   * @param sessionPath - The session's folder; made by the first execution.
   * @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it.
   * @throws {UnsupportedOperationError} On Windows, which has no process groups.
   */
  constructor(sessionPath: string, options: PrpExecutorOptions) {
    checkText("sessionPath", sessionPath, 1);
    this.sessionPath = sessionPath;
    this.#settings = resolveOptions(sessionPath, options);
    this.#makesCwd = options.cwd === undefined;
    const { checkpoints, logger } = options;
    this.#ownsCheckpoints = !(checkpoints instanceof PrpCheckpointManager);
    this.#checkpoints =
      checkpoints instanceof PrpCheckpointManager
        ? checkpoints
        : new PrpCheckpointManager(sessionPath, checkpoints, { logger });
    if (process.platform === "win32") {
      throw new UnsupportedOperationError("Gates and coder commands need process groups, which Windows doesn't have.");
    }
  }

  /**
   * Executes a PRP, or goes on with it from its newest checkpoint:
   *
   * - `complete`: nothing runs; the result is given again.
   * - `failed`: a new round of fix attempts begins, with the gate that failed; if there is no response to go on with,
   *   with the coder.
   * - anything else: the work goes on where it stopped. A function that is a coder is called again if its response
   *   wasn't acknowledged.
   *
   * SIGINT and SIGTERM end what runs, save the task as paused, and then end this process as they would have.
   *
   * @param prp - The document, or the path of its Markdown file.
   * @returns Also where a gate or the coder failed: then `success` is false, and `error` says why.
   * @throws {PrpError} The PRP can't be read, is invalid, or has changed since the checkpoint (`PRP_CHANGED`); or a
   *   gate or the coder can't be started (`PROCESS_NOT_STARTED`): then the work up to it is saved as paused.
   * @throws {CheckpointConflictError} The task is being executed already; that execution goes on untouched. Or there is
   *   unfinished work, and `resume` is false.
   * @throws {CheckpointNotFoundError} `resume` is true, and there is no checkpoint.
   * @throws {CheckpointCorruptError} The task's checkpoints can't be read, or written; they were left untouched.
   *   `restart` gives their file another name, `checkpoints.json.damaged-<time>`, and says so to the logger.
   * @throws {StorageError} A checkpoint could not be saved: the work up to the one before it is safe. Or the session's
   *   folder can't be made: nothing was run.
   * @throws The signal's reason, once it aborts.
   */
  async execute(prp: PrpDocument | string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    checkKeys("ExecuteOptions", options, EXECUTE_KEYS);
    const { signal, restart = false, resume, taskId } = options;
    if (restart && resume === true) throw new TypeError("ExecuteOptions.resume and restart exclude each other.");
    if (taskId !== undefined) checkTaskId(taskId);
    signal?.throwIfAborted();
    const loaded = await loadPrp(prp, taskId);
    checkTaskId(loaded.taskId);
    if (this.#makesCwd) await makeSessionFolder(this.sessionPath);
    const onSetAside = ({ path, movedTo, reason }: SetAside) =>
      this.#settings.logger.warn({ path, movedTo, reason }, setAsideText(loaded.taskId, movedTo, reason));
    const session = this.#checkpoints.enabledCheckpoints;
    const journal = await RunJournal.open(session, loaded, restart ? { onSetAside } : undefined);
    try {
      if (!restart) assertMayBegin(loaded.taskId, journal.newest, resume);
      return await interruptibly((ending) => new PrpRun(loaded, this.#settings, journal, ending).execute(restart), {
        signal,
        reason: (name) =>
          new PrpError("INTERRUPTED", `${name} came while ${loaded.taskId} was executed; it is paused.`),
      });
    } catch (error) {
      if (!(error instanceof ProcessStuckError)) throw error;
      throw new PrpError("PROCESS_STUCK", error.message, { cause: error });
    } finally {
      journal.close();
    }
  }

  /** Closes the checkpoints, unless they were given as a manager. Idempotent. */
  async close(): Promise<void> {
    if (this.#ownsCheckpoints) await this.#checkpoints.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function setAsideText(taskId: string, movedTo: string, reason: string): string {
  return (
    `The checkpoints of task ${JSON.stringify(taskId)} can't be gone on with: ${reason}. Their file is set aside as ${movedTo}, ` +
    "and the work begins anew. What a killed run may have left running may not be known without it: look for that yourself."
  );
}

function assertMayBegin(
  taskId: string,
  newest: Checkpoint<CheckpointExecutionState> | undefined,
  resume: boolean | undefined,
): void {
  const task = `Task ${JSON.stringify(taskId)}`;
  if (resume === true && newest === undefined) {
    throw new CheckpointNotFoundError(
      `${task} has nothing to resume: there is no checkpoint of it in this session. Start it.`,
      { taskId },
    );
  }
  if (resume === false && newest !== undefined && newest.status !== "completed") {
    throw new CheckpointConflictError(
      `${task} has been started already: ${newest.status} at ${newest.state.stage}, saved ${newest.createdAt}. ` +
        "Nothing was changed; resume it to go on from there, or restart it to begin anew.",
    );
  }
}

function resolveOptions(sessionPath: string, options: PrpExecutorOptions): RunSettings {
  checkKeys("PrpExecutorOptions", options, OPTION_KEYS);
  const { coder, maxFixAttempts, gateTimeoutMs, coderTimeoutMs, killGraceMs, maxOutputBytes, cwd, output } = options;
  const autoSaveIntervalMs = options.autoSaveIntervalMs === Number.POSITIVE_INFINITY ? 0 : options.autoSaveIntervalMs;
  if (typeof coder !== "function" && (typeof coder !== "string" || coder.trim() === "")) {
    throw new TypeError("PrpExecutorOptions.coder must be a function, or a shell command.");
  }
  if (typeof coder === "string" && coder.includes("\0")) {
    throw new RangeError("PrpExecutorOptions.coder can't hold a NUL character: no command line can.");
  }
  if (cwd !== undefined) checkText("PrpExecutorOptions.cwd", cwd, 1);
  checkInteger("PrpExecutorOptions.maxFixAttempts", maxFixAttempts, 0);
  checkInteger("PrpExecutorOptions.maxOutputBytes", maxOutputBytes, 0);
  checkMilliseconds("gateTimeoutMs", gateTimeoutMs, 1);
  checkMilliseconds("coderTimeoutMs", coderTimeoutMs, 1);
  checkMilliseconds("killGraceMs", killGraceMs, 0);
  checkMilliseconds("autoSaveIntervalMs", autoSaveIntervalMs, 0);
  return {
    coder,
    maxFixAttempts: maxFixAttempts ?? 2,
    gateTimeoutMs: gateTimeoutMs ?? DEFAULT_GATE_TIMEOUT_MS,
    coderTimeoutMs,
    killGraceMs: killGraceMs ?? DEFAULT_KILL_GRACE_MS,
    maxOutputBytes: maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES,
    autoSaveIntervalMs: autoSaveIntervalMs ?? DEFAULT_AUTO_SAVE_INTERVAL_MS,
    cwd: resolve(cwd ?? sessionPath),
    output,
    logger: safeLogger(options.logger ?? warningLogger),
  };
}

function checkMilliseconds(name: keyof PrpExecutorOptions, value: number | undefined, min: number): void {
  checkInteger(`PrpExecutorOptions.${name}`, value, min);
  if (value === undefined || value <= MAX_TIMEOUT_MS) return;
  throw new RangeError(`PrpExecutorOptions.${name} can be at most ${MAX_TIMEOUT_MS} ms; it is ${value}.`);
}
