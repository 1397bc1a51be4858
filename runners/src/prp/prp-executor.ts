import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { CheckpointCorruptError, type Logger, UnsupportedOperationError } from "waymark";
import { checkKeys } from "waymark/adapter";
import type { SetAside } from "waymark/adapters/task-file";
import {
  checkInteger,
  checkTaskId,
  checkText,
  enabledCheckpoints,
  type SessionCheckpoints,
  safeLogger,
  warningLogger,
} from "waymark/kit";
import { type CheckpointConfig, PrpCheckpointManager } from "waymark/prp";
import { interruptibly } from "../interruption.js";
import type { Coder } from "./coder.js";
import { PrpError } from "./errors.js";
import { type LoadedPrp, loadPrp } from "./load-prp.js";
import type { PrpOutput } from "./output.js";
import type { PrpDocument } from "./prp-document.js";
import { type ExecutionResult, PrpRun, type RunSettings } from "./prp-run.js";
import { RunJournal } from "./run-journal.js";

export interface PrpExecutorOptions {
  /** Who does the work: a function, or a shell command such as a coding agent's. See {@link Coder}. */
  readonly coder: Coder;
  /** How often the coder may try to fix what the gates find, each round. Default 2. */
  readonly maxFixAttempts?: number | undefined;
  /** How long a gate may take, in milliseconds. Default 120,000. */
  readonly gateTimeoutMs?: number | undefined;
  /** How long the coder may take, in milliseconds. Default: no limit. */
  readonly coderTimeoutMs?: number | undefined;
  /** How long a process group has between SIGTERM and SIGKILL, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** How much of each gate's stdout, of its stderr, and of a response is kept, in bytes. Default 65,536. */
  readonly maxOutputBytes?: number | undefined;
  /**
   * While a command runs, its new output is saved at this interval, in milliseconds: after a kill the newest checkpoint
   * says how far it was. Default 30,000; 0 or Infinity: never. A coder that is a function has nothing to save.
   */
  readonly autoSaveIntervalMs?: number | undefined;
  /** Where the coder and the gates run. Default: the session's folder. */
  readonly cwd?: string | undefined;
  /** Replaces defaults of {@link CheckpointConfig}; or a manager, which stays open after `close`. */
  readonly checkpoints?: Partial<CheckpointConfig> | PrpCheckpointManager | undefined;
  /** Where the output of the coder and the gates is shown while they run. Default: this process's stdout and stderr. */
  readonly output?: PrpOutput | undefined;
  /**
   * The details of some entries have a `type`: `resumed`, `stepStarted`, `stepEnded`. Default: warnings and errors are
   * process warnings.
   */
  readonly logger?: Logger | undefined;
}

export interface ExecuteOptions {
  /** Pauses the execution: ends the running command, and `execute` rejects with the reason. Execute again to resume. */
  readonly signal?: AbortSignal | undefined;
  /** Begins anew, whatever the checkpoints say; a file of them that can't be written is set aside. Default false. */
  readonly restart?: boolean | undefined;
  /** With true, there must be a checkpoint; with false, no unfinished work. Default: resumes if there is a checkpoint. */
  readonly resume?: boolean | undefined;
  /** The task's name. Default: the PRP's own id, or else its path from the session's folder. */
  readonly taskId?: string | undefined;
  /** The heading of the section that holds the gates, where none says validation, or several do. */
  readonly section?: string | undefined;
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
const EXECUTE_KEYS = ["signal", "restart", "resume", "taskId", "section"] satisfies (keyof ExecuteOptions)[];

const DEFAULT_GATE_TIMEOUT_MS = 120_000;
const DEFAULT_KILL_GRACE_MS = 5_000;
const DEFAULT_AUTO_SAVE_INTERVAL_MS = 30_000;
const DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024;
/** Timers take no more. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Executes PRPs: runs a coder, then the validation gates level by level; lets the coder fix what they find, and runs
 * them again. Each point is a checkpoint (`pre-execution`, `coder-response`, `validation-gate-N`, `complete`,
 * `failed`). After a kill, execute the PRP again: it resumes from the newest one.
 *
 * Saved work isn't done again: once a response's checkpoint is on disk, no later `execute` calls the coder for it or
 * runs a gate again that has passed on it. If this process dies, a watchdog ends the coder or gate that runs.
 *
 * Any number of tasks of one session may be executed at once, by several executors and processes; a task that is being
 * executed is refused (on one machine: an execution on another one isn't seen). They share `cwd`: give each its own if
 * their coders would get into each other's way.
 *
 * Gates run in the order of their levels, each in a process group of its own without stdin. Processes that a command
 * leaves in its group are ended with it. A gate's first failing command fails it. Unix only. Node's pipes are sockets,
 * so `>&2` works and `>/dev/stderr` doesn't.
 *
 * @example
 * ```ts
 * import { PrpExecutor } from "waymark-runners/prp";
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

  /**
   * @param sessionPath - The session's folder; the first execution with checkpoints makes it.
   * @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it.
   * @throws {UnsupportedOperationError} On Windows, which has no process groups.
   */
  constructor(sessionPath: string, options: PrpExecutorOptions) {
    checkText("sessionPath", sessionPath, 1);
    this.sessionPath = sessionPath;
    this.#settings = resolveOptions(sessionPath, options);
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
   * Executes a PRP, or resumes it from its newest checkpoint:
   *
   * - `complete`: nothing runs; the result is given again.
   * - `failed`: a new round of fix attempts begins with the gate that failed, or with the coder if there is no usable
   *   response.
   * - anything else: the work goes on where it stopped. A coder whose response wasn't acknowledged is called again.
   *
   * SIGINT, SIGTERM and SIGHUP end what runs, save the task as paused, and then end this process as they would have.
   *
   * The PRP may change meanwhile: a gate that is still the same isn't run again once it has passed; a gate that changed or
   * was added is run.
   *
   * @param prp - The document, or the path of its file: Markdown, or the document as JSON.
   * @returns Also if a gate or the coder failed: then `success` is false, and `error` says why.
   * @throws {PrpError} The PRP can't be read or is invalid, or a gate is no valid shell or has a placeholder: the coder was
   *   not asked. Or a gate or the coder can't be started (`PROCESS_NOT_STARTED`): the work up to it is saved as paused.
   * @throws {CheckpointConflictError} The task is being executed already; that execution is untouched, and the error is
   *   `retryable`. Or there is unfinished work, and `resume` is false.
   * @throws {CheckpointNotFoundError} `resume` is true, and there is no checkpoint.
   * @throws {CheckpointCorruptError} The task's checkpoints can't be read, or written; they were left untouched.
   *   `restart` gives their file another name, `checkpoints.json.damaged-<digest>`, and logs it.
   * @throws {StorageError} A checkpoint could not be saved: the work up to the one before it is safe. Or the session's
   *   folder or the task's lock can't be made: nothing was run.
   * @throws The signal's reason, once it aborts.
   */
  async execute(prp: PrpDocument | string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    checkKeys("ExecuteOptions", options, EXECUTE_KEYS);
    const { signal, restart = false, resume, taskId, section } = options;
    if (restart && resume === true) throw new TypeError("ExecuteOptions.resume and restart exclude each other.");
    if (taskId !== undefined) checkTaskId(taskId);
    signal?.throwIfAborted();
    if (section !== undefined) checkText("ExecuteOptions.section", section, 1);
    const session = enabledCheckpoints(this.#checkpoints);
    const read = await loadPrp(prp, { taskId, section, sessionPath: this.sessionPath });
    checkTaskId(read.taskId);
    const loaded = await underItsTask(session, read);
    const { logger } = this.#settings;
    const journal = await RunJournal.open(session, loaded, {
      restart,
      resume,
      onSetAside: (aside) => logger.warn({ ...aside }, setAsideText(loaded.taskId, aside)),
      onWait: () => logger.info({ taskId: loaded.taskId }, waitText(loaded.taskId)),
    });
    try {
      return await interruptibly((ending) => new PrpRun(loaded, this.#settings, journal, ending).execute(restart), {
        signal,
        reason: (name) =>
          new PrpError("INTERRUPTED", `${name} came while ${loaded.taskId} was executed; it is paused.`),
      });
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

/**
 * The PRP under the id that its session was begun under, also by an older rule. An id that its title names may be another
 * PRP's of the session: then its path is its id.
 */
async function underItsTask(session: SessionCheckpoints | undefined, prp: LoadedPrp): Promise<LoadedPrp> {
  if (session === undefined) return prp;
  const pathOf = async (taskId: string): Promise<string | undefined> => {
    const newest = await session.checkpoints.latest(taskId).catch((error: unknown) => {
      if (error instanceof CheckpointCorruptError) return undefined;
      throw error;
    });
    return newest?.state.prpPath;
  };
  const begunBy = await pathOf(prp.taskId);
  if (begunBy === prp.path) return prp;
  for (const taskId of prp.otherIds) if ((await pathOf(taskId)) === prp.path) return { ...prp, taskId };
  // A PRP that was moved is still the same.
  const isAnothers = prp.pathId !== undefined && begunBy !== undefined && existsSync(begunBy);
  return isAnothers ? { ...prp, taskId: prp.pathId } : prp;
}

function setAsideText(taskId: string, { movedTo, reason }: SetAside): string {
  return (
    `The checkpoints of task ${JSON.stringify(taskId)} can't be resumed: ${reason}. Their file is set aside as ${movedTo}, ` +
    "and the work begins anew."
  );
}

function waitText(taskId: string): string {
  return `PRP ${taskId}: The last run was killed; waiting until its commands have ended`;
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
