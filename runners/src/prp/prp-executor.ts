import { existsSync } from "node:fs";
import { CheckpointCorruptError, UnsupportedOperationError } from "waymark";
import type { SetAside } from "waymark/adapters/task-file";
import { checkTaskId, checkText, enabledCheckpoints, type SessionCheckpoints } from "waymark/kit";
import { PrpCheckpointManager } from "waymark/prp";
import { interruptibly } from "../interruption.js";
import { checkOptions } from "../options.js";
import { RunnerError } from "../runner-error.js";
import {
  type ExecuteOptions,
  ExecuteSchema,
  type PrpExecutorOptions,
  type RunSettings,
  resolveOptions,
} from "./executor-options.js";
import { type LoadedPrp, loadPrp } from "./load-prp.js";
import type { PrpDocument } from "./prp-document.js";
import { type ExecutionResult, PrpRun } from "./prp-run.js";
import { RunJournal } from "./run-journal.js";

/**
 * Executes PRPs: runs a coder, then the validation gates level by level. If gates fail, the coder fixes the work, and
 * the gates run again. Each stage is saved as a checkpoint (`pre-execution`, `coder-response`, `validation-gate-N`,
 * `complete`, `failed`). After a kill, execute the PRP again: it resumes from the newest checkpoint.
 *
 * Saved responses are reused, once their checkpoints are on disk. A passed gate is skipped if git shows that nothing
 * has changed since it passed; otherwise it runs again, and the reason is logged. If this process dies, a
 * watchdog ends the running coder or gate.
 *
 * Several executors and processes may execute any number of tasks of one session at once. A task that is already being
 * executed is refused. (Only on one machine: executions on another machine aren't detected.) All tasks share `cwd`. If
 * their coders would disturb each other, use an executor with its own `cwd` for each task.
 *
 * Gates run in the order of their levels, each in its own process group, without stdin. When a command ends, the
 * processes that it left in its group are also ended. A gate fails at its first failing command. Unix only. Node's
 * pipes are sockets, so `>&2` works and `>/dev/stderr` doesn't.
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
   * @throws {TypeError} An option is missing, misspelled or out of range; the message names it.
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
   * - `failed`: a new round of fix attempts begins: with the first gate that isn't skipped, or with the coder if there
   *   is no usable response.
   * - Any other stage: the work continues where it stopped. If a coder's response wasn't saved, the coder is called
   *   again.
   *
   * SIGINT, SIGTERM and SIGHUP end the running command, save the task as paused, and then end this process as usual.
   *
   * The PRP's text may change between executions; only its gates count. A changed or added gate is run.
   *
   * @param prp - The document, or the path of its file: Markdown, or the document as JSON.
   * @returns The result, even if a gate or the coder failed: `success` is then false, and `error` has the reason.
   * @throws {RunnerError} The PRP can't be read or is invalid, or a gate isn't valid shell or has a placeholder: the
   *   coder was not called. Or a gate or the coder can't be started (`PROCESS_NOT_STARTED`): the work so far is saved
   *   as paused.
   * @throws {CheckpointConflictError} The task is already being executed; that execution continues, and the error is
   *   `retryable`. Or there is unfinished work, and `resume` is false.
   * @throws {CheckpointNotFoundError} `resume` is true, and there is no checkpoint.
   * @throws {CheckpointCorruptError} The task's checkpoints can't be read or written; they were left untouched.
   *   `restart` renames their file to `checkpoints.json.damaged-<digest>`, and logs it.
   * @throws {StorageError} A checkpoint could not be saved: the work up to the previous checkpoint is safe. Or the
   *   session's folder or the task's lock can't be created: nothing was run.
   * @throws The signal's reason, once it aborts.
   */
  async execute(prp: PrpDocument | string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    const checked = checkOptions("ExecuteOptions", options, ExecuteSchema);
    const { signal, restart, resume, ...reading } = checked;
    if (restart && resume === true) throw new TypeError("ExecuteOptions.resume and restart exclude each other.");
    if (reading.taskId !== undefined) checkTaskId(reading.taskId);
    signal?.throwIfAborted();
    const session = await enabledCheckpoints(this.#checkpoints);
    const read = await loadPrp(prp, { ...reading, sessionPath: this.sessionPath, cwd: this.#settings.cwd });
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
        reason: (name) => new RunnerError("INTERRUPTED", `${name} paused the execution of PRP ${loaded.taskId}.`),
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
 * Returns the PRP with the id that its session uses for it. If the id from the title belongs to another PRP of the
 * session, the PRP's path becomes its id.
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
  // If the other PRP's file no longer exists, that PRP was moved: it is this one.
  const isAnothers = prp.pathId !== undefined && begunBy !== undefined && existsSync(begunBy);
  return isAnothers ? { ...prp, taskId: prp.pathId } : prp;
}

function setAsideText(taskId: string, { movedTo, reason }: SetAside): string {
  return (
    `The checkpoints of task ${JSON.stringify(taskId)} can't be resumed: ${reason}. Their file is set aside as ${movedTo}, ` +
    "and the work starts from the beginning."
  );
}

function waitText(taskId: string): string {
  return `PRP ${taskId}: The last run was killed; waiting until its commands have ended`;
}
