import {
  type Checkpoint,
  CheckpointConflictError,
  CheckpointCorruptError,
  CheckpointNotFoundError,
  type CheckpointStatus,
} from "waymark";
import type { SetAside } from "waymark/adapters/task-file";
import { isStillBeingRun, RunLock, type SessionCheckpoints } from "waymark/kit";
import type { CheckpointExecutionState, WorkProgress } from "waymark/prp";
import type { LoadedPrp } from "./load-prp.js";
import { listResults, type Position } from "./next-step.js";
import type { Work } from "./work-progress.js";

export interface OpenOptions {
  /** Starts from the beginning and ignores the newest checkpoint. */
  readonly restart: boolean;
  /** True: a checkpoint must exist. False: no unfinished work may exist. */
  readonly resume: boolean | undefined;
  /** With `restart`: called if the task's file was renamed because it was damaged. */
  readonly onSetAside: (aside: SetAside) => void;
  /** Called while commands of a killed run are still being ended. */
  readonly onWait: () => void;
}

/** The options for saving a position. */
export interface EntryOptions {
  readonly label: string;
  /** The work that starts once this entry is on disk. */
  readonly work?: Work | undefined;
  /** The progress of work that is under way, or was ended early. */
  readonly progress?: WorkProgress | undefined;
  /** True if the next entry replaces this one. This entry then pushes out no other checkpoint. Default false. */
  readonly isTransient?: boolean;
  readonly error?: unknown;
  /** Default: the status of the stage. */
  readonly status?: CheckpointStatus;
}

/**
 * The journal of one execution of a PRP, under the task's lock. It writes an entry only if its previous entry is still
 * the newest. If another process writes, this execution stops before it does anything else. Without a session, nothing
 * is written.
 */
export class RunJournal {
  /** The newest checkpoint at the beginning of the execution. */
  readonly newest: Checkpoint<CheckpointExecutionState> | undefined;
  readonly #session: SessionCheckpoints | undefined;
  readonly #prp: LoadedPrp;
  readonly #lock: RunLock | undefined;
  readonly #onWait: () => void;
  #sequence: number | undefined;
  /** The entry that the next one replaces. */
  #transient: string | undefined;

  private constructor(
    { session, prp, lock }: { session: SessionCheckpoints | undefined; prp: LoadedPrp; lock: RunLock | undefined },
    { newest, sequence }: Newest,
    onWait: () => void,
  ) {
    this.newest = newest;
    this.#session = session;
    this.#prp = prp;
    this.#lock = lock;
    this.#onWait = onWait;
    this.#sequence = sequence;
  }

  /** @throws {CheckpointConflictError} Another execution is under way, or there is unfinished work. */
  static async open(
    session: SessionCheckpoints | undefined,
    prp: LoadedPrp,
    { restart, resume, onSetAside, onWait }: OpenOptions,
  ): Promise<RunJournal> {
    const { taskId } = prp;
    const found = await findNewest(session, taskId, restart);
    const path = session?.lockPath(taskId);
    if (path !== undefined && (await isStillBeingRun(path))) throw beingExecuted(taskId);
    if (!restart) assertMayBegin(taskId, found.newest, resume);
    if (session === undefined || path === undefined) {
      return new RunJournal({ session, prp, lock: undefined }, found, onWait);
    }
    const lock = await RunLock.take(path);
    if (lock === undefined) throw beingExecuted(taskId);
    try {
      const aside = restart ? await session.setAside(taskId) : undefined;
      if (aside !== undefined) onSetAside(aside);
      return new RunJournal({ session, prp, lock }, aside ? { ...found, sequence: 0 } : found, onWait);
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Whether entries are written. */
  get isKept(): boolean {
    return this.#session !== undefined;
  }

  /** The file descriptor for the watchdogs of this execution's commands. */
  get watched(): number | undefined {
    return this.#lock?.watched;
  }

  /**
   * Resolves once the entry is on disk. The first entry also waits until the commands of a killed run have ended.
   *
   * @throws {CheckpointConflictError} Another process wrote meanwhile; nothing was saved.
   */
  async save(
    position: Position,
    { label, work, progress, isTransient = false, error, status }: EntryOptions,
  ): Promise<void> {
    if (this.#session === undefined) return;
    const { artifacts, fixAttempt, results: _results, ...rest } = position;
    const state: CheckpointExecutionState = {
      ...rest,
      prpPath: this.#prp.path,
      validationResults: listResults(position, this.#prp.gates),
      fixAttempt: fixAttempt === 0 ? undefined : fixAttempt,
      timestamp: new Date(),
      waymark: {
        prpDigest: this.#prp.digest,
        work,
        progress,
        artifacts: artifacts.length === 0 ? undefined : [...artifacts],
      },
    };
    const saved = await this.#session.append(this.#prp.taskId, label, state, {
      error,
      status,
      expectedSequence: this.#sequence,
      replaces: this.#transient,
      isTransient,
    });
    this.#sequence = saved.sequence;
    this.#transient = isTransient ? saved.id : undefined;
    if (this.watched === undefined) await this.#lock?.claim(this.#onWait);
  }

  /** Must be called when the execution is over, whatever its result. */
  close(): void {
    this.#lock?.release();
  }
}

function beingExecuted(taskId: string): CheckpointConflictError {
  return new CheckpointConflictError(
    `Task ${JSON.stringify(taskId)} is being executed already. Nothing was changed; wait for that execution, or end it ` +
      "and execute the PRP again.",
    { retryable: true },
  );
}

function assertMayBegin(taskId: string, newest: RunJournal["newest"], resume: boolean | undefined): void {
  const task = `Task ${JSON.stringify(taskId)}`;
  if (resume === true && newest === undefined) {
    throw new CheckpointNotFoundError(
      `${task} can't be resumed: it has no checkpoint in this session. Start it instead.`,
      { taskId },
    );
  }
  if (resume === false && newest !== undefined && newest.status !== "completed") {
    const { status, state, createdAt } = newest;
    const where = state.stage === status ? status : `${status} at ${state.stage}`;
    throw new CheckpointConflictError(
      `${task} has been started already: ${where}, saved ${createdAt}. ` +
        "Nothing was changed; resume it to continue from there, or restart it to start over.",
    );
  }
}

interface Newest {
  /** The newest readable checkpoint. */
  readonly newest: RunJournal["newest"];
  /** The sequence that the first entry follows: 0 if there is none, `undefined` if the newest is damaged. */
  readonly sequence: number | undefined;
}

async function findNewest(
  session: SessionCheckpoints | undefined,
  taskId: string,
  isRestart: boolean,
): Promise<Newest> {
  if (session === undefined) return { newest: undefined, sequence: 0 };
  let isDamaged = false;
  const forget = session.checkpoints.on("corrupt", (record) => {
    if (record.taskId === taskId) isDamaged = true;
  });
  try {
    const newest = await session.checkpoints.latest(taskId).catch((error: unknown) => {
      if (isRestart && error instanceof CheckpointCorruptError) return undefined;
      throw error;
    });
    return { newest, sequence: isDamaged ? undefined : (newest?.sequence ?? 0) };
  } finally {
    forget();
  }
}
