import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { CheckpointCorruptError, type Logger, UnsupportedOperationError } from "waymark";
import type { SetAside } from "waymark/adapters/task-file";
import {
  checkInteger,
  checkKeys,
  checkTaskId,
  checkText,
  enabledCheckpoints,
  listKeys,
  MAX_DELAY_MS,
  type SessionCheckpoints,
  safeLogger,
  warningLogger,
} from "waymark/kit";
import { type CheckpointConfig, PrpCheckpointManager } from "waymark/prp";
import { interruptibly } from "../interruption.js";
import type { Coder } from "./coder.js";
import { PrpError } from "./errors.js";
import { type LoadedPrp, loadPrp, type PrpReading } from "./load-prp.js";
import type { PrpOutput } from "./output.js";
import type { PrpDocument } from "./prp-document.js";
import { type ExecutionResult, PrpRun, type RunSettings } from "./prp-run.js";
import { RunJournal } from "./run-journal.js";

export interface PrpExecutorOptions {
  /** Does the work: a function, or a shell command such as a coding agent's. See {@link Coder}. */
  readonly coder: Coder;
  /** How often the coder may try to fix failed gates in each round. Default 2. */
  readonly maxFixAttempts?: number | undefined;
  /** How long a gate may take, in milliseconds. Default 1,800,000: 30 minutes. */
  readonly gateTimeoutMs?: number | undefined;
  /** How long the coder may take, in milliseconds. Default: no limit. */
  readonly coderTimeoutMs?: number | undefined;
  /** The time between SIGTERM and SIGKILL for a process group, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** How many bytes are kept of each gate's stdout, of its stderr, and of a response. Default 65,536. */
  readonly maxOutputBytes?: number | undefined;
  /**
   * While a command runs, its new output is saved at this interval, in milliseconds. After a kill, the newest
   * checkpoint shows how far the command was. Default 30,000; 0 or Infinity: never. A coder that is a function has no
   * output to save.
   */
  readonly autoSaveIntervalMs?: number | undefined;
  /** The folder where the coder and the gates run. Default: the session's folder. */
  readonly cwd?: string | undefined;
  /** Settings that override the defaults of {@link CheckpointConfig}, or a manager, which `close` leaves open. */
  readonly checkpoints?: Partial<CheckpointConfig> | PrpCheckpointManager | undefined;
  /** Shows the output of the coder and the gates while they run. Default: this process's stdout and stderr. */
  readonly output?: PrpOutput | undefined;
  /**
   * The details of some entries have a `type`: `resumed`, `gateRunsAgain`, `stepStarted`, `stepEnded`. Default: warnings and errors
   * become process warnings.
   */
  readonly logger?: Logger | undefined;
}

export interface ExecuteOptions extends PrpReading {
  /**
   * Pauses the execution: ends the running command, and `execute` rejects with the signal's reason. Execute again to
   * resume.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Starts from the beginning and ignores the checkpoints. If their file can't be written, it is set aside. Default
   * false.
   */
  readonly restart?: boolean | undefined;
  /** True: a checkpoint must exist. False: no unfinished work may exist. Default: resumes if there is a checkpoint. */
  readonly resume?: boolean | undefined;
}

const OPTION_KEYS = listKeys<PrpExecutorOptions>({
  coder: true,
  maxFixAttempts: true,
  gateTimeoutMs: true,
  coderTimeoutMs: true,
  killGraceMs: true,
  maxOutputBytes: true,
  autoSaveIntervalMs: true,
  cwd: true,
  checkpoints: true,
  output: true,
  logger: true,
});
const EXECUTE_KEYS = listKeys<ExecuteOptions>({
  signal: true,
  restart: true,
  resume: true,
  taskId: true,
  section: true,
  skip: true,
  only: true,
});

const DEFAULT_GATE_TIMEOUT_MS = 30 * 60_000;
const DEFAULT_KILL_GRACE_MS = 5_000;
const DEFAULT_AUTO_SAVE_INTERVAL_MS = 30_000;
const DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024;

/**
 * Executes PRPs: runs a coder, then the validation gates level by level. If gates fail, the coder fixes the work, and
 * the gates run again. Each point is a checkpoint (`pre-execution`, `coder-response`, `validation-gate-N`, `complete`,
 * `failed`). After a kill, execute the PRP again: it resumes from the newest checkpoint.
 *
 * Saved responses are reused, once their checkpoints are on disk. A passed gate is skipped if git shows that nothing
 * has changed since it passed; otherwise it runs again, and the logger gets the reason. If this process dies, a watchdog
 * ends the running coder or gate.
 *
 * Several executors and processes may execute any number of tasks of one session at once. A task that is already being
 * executed is refused. (Only on one machine: executions on another machine aren't detected.) All tasks share `cwd`. If
 * their coders would disturb each other, give each task its own.
 *
 * Gates run in the order of their levels, each in its own process group, without stdin. When a command ends, the
 * processes that it left in its group are ended too. A gate fails at its first failing command. Unix only. Node's pipes
 * are sockets, so `>&2` works and `>/dev/stderr` doesn't.
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
   * @param sessionPath - The session's folder. The first execution with checkpoints creates it.
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
   * - `complete`: nothing runs, and the result is returned again.
   * - `failed`: a new round of fix attempts begins. It begins with the first gate that isn't skipped, or with the
   *   coder if there is no usable response.
   * - Any other stage: the work continues where it stopped. If a coder's response wasn't saved, the coder is called
   *   again.
   *
   * SIGINT, SIGTERM and SIGHUP end the running command, save the task as paused, and then end this process as usual.
   *
   * The PRP's text may change between executions; only its gates count. A changed or added gate is run.
   *
   * @param prp - The document, or the path of its file: Markdown, or the document as JSON.
   * @returns The result, even if a gate or the coder failed: then `success` is false, and `error` says why.
   * @throws {PrpError} The PRP can't be read or is invalid, or a gate is no valid shell or has a placeholder: the coder
   *   was not called. Or a gate or the coder can't be started (`PROCESS_NOT_STARTED`): the work so far is saved as
   *   paused.
   * @throws {CheckpointConflictError} The task is already being executed; that execution continues, and the error is
   *   `retryable`. Or there is unfinished work, and `resume` is false.
   * @throws {CheckpointNotFoundError} `resume` is true, and there is no checkpoint.
   * @throws {CheckpointCorruptError} The task's checkpoints can't be read or written; they were left untouched.
   *   `restart` renames their file to `checkpoints.json.damaged-<digest>`, and logs it.
   * @throws {StorageError} A checkpoint could not be saved: the work up to the checkpoint before is safe. Or the
   *   session's folder or the task's lock can't be created: nothing was run.
   * @throws The signal's reason, once it aborts.
   */
  async execute(prp: PrpDocument | string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    checkKeys("ExecuteOptions", options, EXECUTE_KEYS);
    const { signal, restart = false, resume, taskId, section, skip, only } = options;
    if (restart && resume === true) throw new TypeError("ExecuteOptions.resume and restart exclude each other.");
    if (taskId !== undefined) checkTaskId(taskId);
    signal?.throwIfAborted();
    if (section !== undefined) checkText("ExecuteOptions.section", section, 1);
    const session = await enabledCheckpoints(this.#checkpoints);
    const read = await loadPrp(prp, {
      taskId,
      section,
      skip,
      only,
      sessionPath: this.sessionPath,
      cwd: this.#settings.cwd,
    });
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
        reason: (name) => new PrpError("INTERRUPTED", `${name} paused the execution of PRP ${loaded.taskId}.`),
      });
    } finally {
      journal.close();
    }
  }

  /** Closes the checkpoints, unless they were passed as a manager. Idempotent. */
  async close(): Promise<void> {
    if (this.#ownsCheckpoints) await this.#checkpoints.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Returns the PRP under the id that its session knows. If the id from the title belongs to another PRP of the session,
 * the PRP's path becomes its id.
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
  const { otherId } = prp;
  if (otherId !== undefined && (await pathOf(otherId)) === prp.path) return { ...prp, taskId: otherId };
  // If the file of the other PRP is gone, that PRP was moved and is this one.
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
    sessionPath,
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
  if (value === undefined || value <= MAX_DELAY_MS) return;
  throw new RangeError(`PrpExecutorOptions.${name} can be at most ${MAX_DELAY_MS} ms; it is ${value}.`);
}
