import { CheckpointError, type Lease, LeaseHeldError, type TaskSummary } from "waymark";
import { findTaskStatus, type HeldLease, parseHolder, type StepRecord } from "waymark/kit";
import { checkpointsTask } from "waymark/langgraph/records";
import { CommandError, ExitCode } from "./exit-code.js";
import { takeFirst } from "./first-of.js";
import type { FoundTask } from "./langgraph/find-tasks.js";
import { threadStatus } from "./langgraph/thread-state.js";
import { lastSteps } from "./run-steps.js";
import type { QuerySession } from "./store.js";
import { findOpenWaits, hasEnded, type TaskWaits, waitsOfTask } from "./waits.js";
import { agoText, timeText } from "./words.js";

type Leases = NonNullable<QuerySession["storage"]["leases"]>;
/** The last lease of a task, which ended without being released. */
export type LapsedLease = NonNullable<Awaited<ReturnType<Leases["lapsed"]>>>;

/**
 * A task with its runner and what it waits for. If the runner of a running task ended without releasing its lease,
 * `lapsed` is that lease.
 */
export interface RunTask extends Omit<FoundTask, "last"> {
  readonly lease?: HeldLease;
  readonly lapsed?: LapsedLease;
  /** `unknown`: a thread whose writes can't be read. */
  readonly status: TaskSummary["status"] | "unknown";
  /** When the task's last record was stored, if it is newer than the newest checkpoint. */
  readonly lastAt?: string;
  /** What the task's run waits for, whether or not a process runs it. */
  readonly waits?: TaskWaits;
  /** The last step that ended since the newest checkpoint, then the steps that haven't ended. */
  readonly steps?: readonly StepRecord[];
}

/** A task that is being run and has no checkpoint yet. */
export interface StartingTask extends Pick<FoundTask, "taskId"> {
  readonly count: 0;
  readonly status: "running";
  readonly lease: HeldLease;
}

/** How many tasks are looked up concurrently. */
const PAGE = 64;

/**
 * Reads the leases of a storage. If a lease can't be read (it is damaged, or the database role lacks the right), one
 * warning is printed, and the task counts as not being run.
 */
export class LeaseReader {
  readonly #session: QuerySession;
  readonly #said = new Set<string>();

  constructor(session: QuerySession) {
    this.#session = session;
  }

  /** Returns the lease that is held now. */
  current(taskId: string): Promise<HeldLease | undefined> {
    return this.#read(async (leases) => leases.current(taskId));
  }

  /** Returns the last lease if it ended without being released. */
  lapsed(taskId: string): Promise<LapsedLease | undefined> {
    return this.#read(async (leases) => leases.lapsed(taskId));
  }

  /** Returns the leases that are held now. @param prefix - The beginning of the task ids. */
  async held(prefix = ""): Promise<readonly (HeldLease & { readonly taskId: string })[]> {
    const held = (await this.#read(async (leases) => takeFirst(leases.held()))) ?? [];
    return held.filter(({ taskId }) => taskId.startsWith(prefix));
  }

  /** Yields the tasks with their runners, at most `limit` of them. */
  async *of(tasks: AsyncIterable<FoundTask>, limit = Number.POSITIVE_INFINITY): AsyncGenerator<RunTask, void, void> {
    let page: FoundTask[] = [];
    let seen = 0;
    const described = () => Promise.all(page.map((task) => this.described(task)));
    for await (const task of tasks) {
      page.push(task);
      seen += 1;
      if (seen === limit) break;
      if (page.length < PAGE) continue;
      yield* await described();
      page = [];
    }
    yield* await described();
  }

  /**
   * Returns the tasks that are being run and have no checkpoint yet, by id.
   *
   * @param prefix - The beginning of their ids.
   * @param known - Tasks that have a checkpoint.
   * @param limit - The maximum number of tasks to return.
   */
  async starting(
    prefix: string | undefined,
    known: ReadonlySet<string>,
    limit: number,
  ): Promise<readonly StartingTask[]> {
    if (limit === 0) return [];
    const starting: StartingTask[] = [];
    for (const { taskId, ...lease } of await this.held(prefix)) {
      if (known.has(taskId)) continue;
      if (await this.#session.manager.has(taskId)) continue;
      starting.push({ taskId, count: 0, status: "running", lease });
    }
    return starting.sort((a, b) => (a.taskId < b.taskId ? -1 : 1)).slice(0, limit);
  }

  /** Like {@link starting}, for the task that a word on the command line names. */
  async startingNamed(word: string): Promise<StartingTask | undefined> {
    for (const taskId of [word, checkpointsTask({ threadId: word, namespace: "" })]) {
      const lease = await this.current(taskId);
      if (lease && !(await this.#session.manager.has(taskId))) return { taskId, count: 0, status: "running", lease };
    }
    return undefined;
  }

  /** Returns a task with its runner. */
  async described({ last, ...task }: FoundTask): Promise<RunTask> {
    const { taskId, newest } = task;
    const lease = await this.current(taskId);
    const steps = last === undefined || hasEnded(newest) ? [] : await lastSteps(this.#session, newest);
    const waits = waitsOfTask(newest, steps);
    const status = findStatus({ ...task, ...(last && { last }) }, lease !== undefined);
    const more = { ...task, status, ...(last && { lastAt: last.createdAt }), ...(steps.length > 0 && { steps }) };
    if (lease !== undefined) return { ...more, lease, ...(waits && { waits }) };
    const open = waits && (await findOpenWaits(this.#session, newest, waits));
    // When a suspended run is resumed, it saves no checkpoint, but its attempt leaves a mark.
    const isUnderWay = newest.status === "running" || (newest.status === "paused" && last?.kind === "mark");
    const lapsed = isUnderWay || steps.length > 0 ? await this.lapsed(taskId) : undefined;
    return { ...more, ...(lapsed && { lapsed }), ...(open && { waits: open }) };
  }

  async #read<Result>(read: (leases: Leases) => Promise<Result>): Promise<Result | undefined> {
    const { storage, damage } = this.#session;
    try {
      return storage.leases && (await read(storage.leases));
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      const { message } = error;
      if (this.#said.has(message)) return undefined;
      this.#said.add(message);
      await damage.warn(`leases can't be read: ${message}`);
      return undefined;
    }
  }
}

/** Returns the status that people see. @param task - A thread must come from `describedTasks`. */
export function findStatus(task: FoundTask, isHeld: boolean, nowMs = Date.now()): RunTask["status"] {
  const { newest, thread } = task;
  if (thread === undefined || isHeld) return findTaskStatus(task, isHeld, nowMs);
  return threadStatus(newest, thread.interrupts);
}

/**
 * Changes a task under its lease, so that no process runs the task meanwhile. The lease is released afterwards. A
 * storage without leases makes the change without one.
 *
 * @param isForced - `--force` was given: the change is made even if a process runs the task.
 * @throws {CommandError} A process runs the task; nothing was changed.
 */
export async function underLease<Result>(
  { manager, storage }: QuerySession,
  taskId: string,
  isForced: boolean | undefined,
  change: (options: { readonly lease?: Lease }) => Promise<Result>,
): Promise<Result> {
  if (isForced || storage.leases === undefined) return change({});
  let lease: Lease;
  try {
    lease = await manager.lease(taskId);
  } catch (error) {
    if (!(error instanceof LeaseHeldError)) throw error;
    const until = timeText(new Date(Date.now() + error.remainingMs).toISOString());
    throw new CommandError(
      ExitCode.conflict,
      `Task ${JSON.stringify(taskId)} is ${runningText(error)}. Its lease ends at ${until} UTC unless it is renewed. ` +
        "Nothing was changed. Stop it first, or pass --force.",
      { cause: error },
    );
  }
  try {
    return await change({ lease });
  } finally {
    await lease.release();
  }
}

/** `build-box, process 3417`. A holder text that a program chose itself is shown unchanged. */
export function holderText(holder: string): string {
  const parsed = parseHolder(holder);
  return parsed === undefined ? holder : `${parsed.host}, process ${parsed.pid}`;
}

/** `running on build-box, process 3417` or `run by worker-1` */
export function runningText({ holder }: Pick<HeldLease, "holder">): string {
  return `${parseHolder(holder) === undefined ? "run by" : "running on"} ${holderText(holder)}`;
}

/** `died on build-box, process 3417; last seen 5 seconds ago` */
export function lapsedText({ holder, hasDied, endedMs }: LapsedLease, nowMs: number): string {
  const ago = agoText(new Date(nowMs - endedMs).toISOString(), nowMs);
  return hasDied
    ? `died on ${holderText(holder)}; last seen ${ago}`
    : `the lease of ${holderText(holder)} expired ${ago}`;
}
