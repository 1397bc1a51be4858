import type { StorageAdapter, TaskSummary } from "waymark";
import { compareTasks, isCorrupt, type TaskQuery } from "waymark/adapter";
import { THREADS_PREFIX, type Thread, threadOf, threadPrefix, threadPrefixOf } from "waymark/langgraph/records";
import type { DamageSink } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { firstOf } from "../first-of.js";
import { taskIds } from "../records/whole-records.js";
import type { QuerySession } from "../store.js";
import { describeCheckpoint } from "./thread-state.js";

/** A task; or a thread of LangGraph, as the task of the graph itself, with the checkpoints of its subgraphs counted. */
export interface FoundTask extends TaskSummary {
  readonly thread?: FoundThread;
}

interface FoundThread {
  readonly id: string;
  readonly namespaces: readonly ThreadNamespace[];
  /** Its questions before it goes on. Only {@link describedTasks} sets them; `undefined` if they can't be read. */
  readonly interrupts?: readonly unknown[] | undefined;
}

/** The graph itself, whose namespace is empty, or a subgraph. */
interface ThreadNamespace {
  readonly namespace: string;
  readonly taskId: string;
  readonly count: number;
}

interface Place {
  readonly storage: StorageAdapter;
  readonly damage: DamageSink;
}

/** The name by which the command shows and takes it. */
export function nameOf({ taskId, thread }: Pick<FoundTask, "taskId" | "thread">): string {
  return thread?.id ?? wholeThread(taskId)?.id ?? taskId;
}

/** The thread, if the task is that of its graph itself; and the beginning of the ids of all its tasks. */
export function wholeThread(taskId: string): { readonly id: string; readonly prefix: string } | undefined {
  const thread = threadOf(taskId);
  const prefix = threadPrefixOf(taskId);
  return thread?.namespace === "" && prefix !== undefined ? { id: thread.threadId, prefix } : undefined;
}

/** The task; if it is that of a thread's graph, all tasks of the thread. */
export async function* tasksOf({ storage, damage }: Place, taskId: string): AsyncGenerator<string, void, void> {
  const thread = wholeThread(taskId);
  if (thread === undefined) yield taskId;
  else yield* taskIds(storage, thread.prefix, damage);
}

/**
 * The tasks of a thread need each other: a checkpoint has values from others.
 *
 * @param advice - A sentence that tells the user what to do instead.
 * @throws {CommandError} It is a thread, or a part of one.
 */
export function refuseThread(taskId: string, advice: string): void {
  if (threadPrefixOf(taskId) === undefined) return;
  const what = `Task ${JSON.stringify(taskId)} is of a thread of LangGraph, whose checkpoints need each other`;
  throw new CommandError(ExitCode.usage, `${what}. ${advice} Nothing was changed.`);
}

/**
 * The tasks that the query finds, each thread as one. Damage is reported.
 *
 * @param query - Its statuses filter other tasks only: a thread's status is in its writes. If there are threads, more
 *   tasks than its limit may come.
 */
export async function* findTasks(
  place: Place,
  { limit, ...query }: Omit<TaskQuery, "after">,
): AsyncGenerator<FoundTask, void, void> {
  if (!(await hasThreads(place))) {
    yield* otherTasks(place, { ...query, limit });
    return;
  }
  const { prefix, order, status } = query;
  const others = await firstOf(otherTasks(place, query), limit);
  // They come in the order of their ids, whatever their status is.
  const isInOrder = order === "taskId" && status === undefined;
  const threads = await firstOf(threadsIn(place, prefix), isInOrder ? limit : undefined);
  yield* [...others, ...threads].sort(compareTasks(order));
}

/** The same, with each thread's status, and what it asks. */
export async function* describedTasks(
  session: QuerySession,
  query: Omit<TaskQuery, "after">,
): AsyncGenerator<FoundTask, void, void> {
  for await (const task of findTasks(session, query)) {
    const { thread } = task;
    const { checkpoint: newest, interrupts } = await describeCheckpoint(session, task.newest);
    if (query.status !== undefined && !query.status.includes(newest.status)) continue;
    yield thread === undefined ? task : { ...task, newest, thread: { ...thread, interrupts } };
  }
}

async function hasThreads({ storage }: Place): Promise<boolean> {
  for await (const _task of storage.tasks({ prefix: THREADS_PREFIX, order: "taskId", limit: 1 })) return true;
  return false;
}

/** Comes after every task of threads. */
const PAST_THREADS = `${THREADS_PREFIX}\u{10ffff}`;

async function* otherTasks({ storage, damage }: Place, query: TaskQuery): AsyncGenerator<FoundTask, void, void> {
  for await (const task of storage.tasks(query)) {
    if (isCorrupt(task)) await damage.add(task);
    else if (!task.taskId.startsWith(THREADS_PREFIX)) yield task;
    else if (query.order === "taskId" && query.after === undefined) {
      // There may be thousands.
      yield* otherTasks({ storage, damage }, { ...query, after: PAST_THREADS });
      return;
    }
  }
}

async function* threadsIn({ storage, damage }: Place, prefix = ""): AsyncGenerator<FoundTask, void, void> {
  const begin = prefix.startsWith(THREADS_PREFIX) ? prefix : threadPrefix(prefix).slice(0, -1);
  let found: FoundNamespace[] = [];
  for await (const task of storage.tasks({ prefix: begin, order: "taskId" })) {
    if (isCorrupt(task)) {
      await damage.add(task);
      continue;
    }
    const { taskId, newest } = task;
    const thread = threadOf(taskId, newest.metadata);
    // The tasks of a thread's checkpoints stand together; after them come those of its writes.
    if (thread?.threadId !== found[0]?.thread.threadId) {
      yield* asThread(found);
      found = [];
    }
    if (thread !== undefined) found.push({ thread, task });
    else if (threadPrefixOf(taskId) === undefined && taskId.startsWith(prefix)) yield task;
  }
  yield* asThread(found);
}

/** A task of a thread's checkpoints. */
interface FoundNamespace {
  readonly thread: Thread;
  readonly task: TaskSummary;
}

function asThread(found: readonly FoundNamespace[]): readonly FoundTask[] {
  const [first] = found;
  // Without the graph's own checkpoints it is no thread: they are what a run still wrote to a deleted one.
  if (first?.thread.namespace !== "") return found.map(({ task }) => task);
  const namespaces = found.map(({ thread: { namespace }, task: { taskId, count } }) => ({ namespace, taskId, count }));
  const count = namespaces.reduce((sum, its) => sum + its.count, 0);
  return [{ ...first.task, count, thread: { id: first.thread.threadId, namespaces } }];
}
