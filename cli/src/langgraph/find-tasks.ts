import type { CheckpointSummary, CorruptRecord, StorageAdapter, TaskSummary } from "waymark";
import { isCorrupt, type RecordHeader, type StoredTask, type TaskQuery } from "waymark/adapter";
import { compareTasks, hasCheckpoint, isCancelled, isChild, listTasks as selectTasks } from "waymark/kit";
import { parseThread, parseThreadPrefix, THREADS_PREFIX, type Thread, threadPrefix } from "waymark/langgraph/records";
import type { DamageSink } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { takeFirst } from "../first-of.js";
import { taskIds } from "../records/whole-records.js";
import type { QuerySession } from "../store.js";
import { describeCheckpoint, threadStatus } from "./thread-state.js";

/**
 * A task, or a LangGraph thread as the task of its graph. A thread's checkpoints include those of its subgraphs. The
 * newest checkpoint's `dueAt` is when the task is due: an event makes a waiting task due earlier.
 */
export interface FoundTask extends Omit<TaskSummary, "status"> {
  /** The task's last record, if it is newer than the newest checkpoint. */
  readonly last?: RecordHeader;
  readonly thread?: FoundThread;
}

export type TaskStatus = TaskSummary["status"];

interface FoundThread {
  readonly id: string;
  readonly namespaces: readonly ThreadNamespace[];
  /**
   * The questions that the thread waits for. Only {@link describedTasks} sets them; `undefined` if they can't be read.
   */
  readonly interrupts?: readonly unknown[] | undefined;
}

/** A namespace of a thread. The graph itself has the empty namespace, and each subgraph has another one. */
interface ThreadNamespace {
  readonly namespace: string;
  readonly taskId: string;
  readonly count: number;
}

interface TaskSource {
  readonly storage: StorageAdapter;
  readonly damage: DamageSink;
}

/** Selects tasks. */
export interface FoundQuery extends Omit<TaskQuery, "status"> {
  /** The statuses that tasks may have now, and which tasks have a runner. */
  readonly now?:
    | { readonly status: readonly TaskStatus[]; readonly readHeld: Parameters<typeof selectTasks>[2] }
    | undefined;
  /** Only tasks that can continue by themselves: neither cancelled tasks nor child runs. */
  readonly canContinue?: boolean | undefined;
}

/** Returns the name of a task that the command shows and accepts. */
export function describeTask({ taskId, thread }: Pick<FoundTask, "taskId" | "thread">): string {
  return thread?.id ?? wholeThread(taskId)?.id ?? taskId;
}

/** If the task belongs to a thread's graph, returns the thread's id and the prefix of the ids of all its tasks. */
export function wholeThread(taskId: string): { readonly id: string; readonly prefix: string } | undefined {
  const thread = parseThread(taskId);
  const prefix = parseThreadPrefix(taskId);
  return thread?.namespace === "" && prefix !== undefined ? { id: thread.threadId, prefix } : undefined;
}

/** Yields the task or, if it belongs to a thread's graph, all tasks of the thread. */
export async function* listTasks({ storage, damage }: TaskSource, taskId: string): AsyncGenerator<string, void, void> {
  const thread = wholeThread(taskId);
  if (thread === undefined) yield taskId;
  else yield* taskIds(storage, thread.prefix, damage);
}

/**
 * Refuses the tasks of a thread, because they depend on each other: a checkpoint takes values from others.
 *
 * @param advice - A sentence that tells the user what to do instead.
 * @throws {CommandError} The task is a thread, or part of one.
 */
export function refuseThread(taskId: string, advice: string): void {
  if (parseThreadPrefix(taskId) === undefined) return;
  const what = `Task ${JSON.stringify(taskId)} belongs to a thread of LangGraph, whose checkpoints need each other`;
  throw new CommandError(ExitCode.usage, `${what}. ${advice} Nothing was changed.`);
}

/**
 * Yields the tasks that the query finds, each thread as one. Damage is reported.
 *
 * @param query - Its statuses filter only tasks outside threads: a thread's status is in its writes. If there are
 *   threads, the result may exceed the limit.
 */
export async function* findTasks(
  source: TaskSource,
  { limit, ...query }: Omit<FoundQuery, "after">,
): AsyncGenerator<FoundTask, void, void> {
  if (!(await hasThreads(source))) {
    yield* otherTasks(source, { ...query, limit });
    return;
  }
  const { order, now } = query;
  const others = await takeFirst(otherTasks(source, query), limit);
  // Threads are found in the order of their ids, and with any status. So `limit` applies here only if the query has
  // that order and no status.
  const isInOrder = order === "taskId" && now === undefined;
  const threads = await takeFirst(threadsIn(source, query), isInOrder ? limit : undefined);
  yield* [...others, ...threads].sort(compareTasks(order));
}

/** Like {@link findTasks}, with the status and the questions of each thread. */
export async function* describedTasks(
  session: QuerySession,
  query: Omit<FoundQuery, "after">,
): AsyncGenerator<FoundTask, void, void> {
  for await (const task of findTasks(session, query)) {
    const { thread } = task;
    const { checkpoint: newest, interrupts } = await describeCheckpoint(session, task.newest);
    if (thread === undefined) {
      yield task;
      continue;
    }
    const status = threadStatus(newest, interrupts);
    // Without the key, it isn't known whether an encrypted thread waits, so the thread counts as interrupted.
    const isSelected = query.now?.status.includes(status === "unknown" ? "interrupted" : status) !== false;
    if (isSelected) yield { ...task, newest, thread: { ...thread, interrupts } };
  }
}

async function hasThreads({ storage }: TaskSource): Promise<boolean> {
  for await (const _task of storage.tasks({ prefix: THREADS_PREFIX, order: "taskId", limit: 1 })) return true;
  return false;
}

/** Sorts after every task id of a thread. */
const PAST_THREADS = `${THREADS_PREFIX}\u{10ffff}`;

async function* otherTasks({ storage, damage }: TaskSource, query: FoundQuery): AsyncGenerator<FoundTask, void, void> {
  for await (const task of listed(storage, query)) {
    if (isCorrupt(task)) await damage.add(task);
    else if (!task.taskId.startsWith(THREADS_PREFIX)) yield task;
    else if (query.order === "taskId" && query.after === undefined) {
      // Skips the tasks of threads, because there may be thousands.
      yield* otherTasks({ storage, damage }, { ...query, after: PAST_THREADS });
      return;
    }
  }
}

/** Yields the tasks that the query finds, except those that have only records. */
async function* listed(
  storage: Pick<StorageAdapter, "tasks">,
  { canContinue = false, now, ...query }: FoundQuery,
): AsyncGenerator<FoundTask | CorruptRecord, void, void> {
  const selection = { ...query, status: now?.status, ...(canContinue && { isLeftOut: cannotContinue }) };
  for await (const task of selectTasks(storage, selection, now?.readHeld ?? readNone, Date.now())) {
    yield isCorrupt(task) ? task : toFoundTask(task);
  }
}

function cannotContinue(newest: CheckpointSummary): boolean {
  return isCancelled(newest) || isChild(newest);
}

/** For queries without statuses, which don't depend on who runs the tasks. */
async function readNone(): Promise<ReadonlySet<string>> {
  return new Set();
}

type StoredSummary = StoredTask & Required<Pick<StoredTask, "newest">>;

function toFoundTask({ taskId, count, newest, last, dueAt }: StoredSummary): FoundTask {
  const isDue = dueAt !== undefined && newest.status === "paused";
  return { taskId, count, newest: isDue ? { ...newest, dueAt } : newest, ...(last && { last }) };
}

/** Finds a task by its id; `undefined` if it has no checkpoint that can be read. */
export async function findTask(storage: StorageAdapter, taskId: string): Promise<FoundTask | undefined> {
  // In the order of ids, the task comes before all others with this prefix.
  for await (const task of storage.tasks({ prefix: taskId, order: "taskId", limit: 1 })) {
    if (!isCorrupt(task) && task.taskId === taskId && hasCheckpoint(task)) return toFoundTask(task);
  }
  return undefined;
}

/** Yields every thread, and the other tasks that the query selects and whose ids begin like thread ids. */
async function* threadsIn({ storage, damage }: TaskSource, query: FoundQuery): AsyncGenerator<FoundTask, void, void> {
  const { prefix = "" } = query;
  const begin = prefix.startsWith(THREADS_PREFIX) ? prefix : threadPrefix(prefix).slice(0, -1);
  let found: FoundNamespace[] = [];
  for await (const task of storage.tasks({ prefix: begin, order: "taskId" })) {
    if (isCorrupt(task)) {
      await damage.add(task);
      continue;
    }
    if (!hasCheckpoint(task)) continue;
    const { taskId, newest } = task;
    const thread = parseThread(taskId, newest.metadata);
    // The tasks of a thread are adjacent.
    if (thread?.threadId !== found[0]?.thread.threadId) {
      yield* asThread(found);
      found = [];
    }
    if (thread !== undefined) found.push({ thread, task });
    else if (parseThreadPrefix(taskId) === undefined && taskId.startsWith(prefix)) {
      for await (const one of listed({ tasks: () => justOne(task) }, query)) if (!isCorrupt(one)) yield one;
    }
  }
  yield* asThread(found);
}

async function* justOne(task: StoredTask): AsyncGenerator<StoredTask, void, void> {
  yield task;
}

/** A task with checkpoints of a thread. */
interface FoundNamespace {
  readonly thread: Thread;
  readonly task: StoredSummary;
}

function asThread(found: readonly FoundNamespace[]): readonly FoundTask[] {
  const [first] = found;
  // If the graph itself has no checkpoints, this isn't a thread: a run wrote these records after the thread was
  // deleted.
  if (first?.thread.namespace !== "") return found.map(({ task }) => task);
  const namespaces = found.map(({ thread: { namespace }, task: { taskId, count } }) => ({ namespace, taskId, count }));
  const count = namespaces.reduce((sum, namespace) => sum + namespace.count, 0);
  return [{ ...first.task, count, thread: { id: first.thread.threadId, namespaces } }];
}
