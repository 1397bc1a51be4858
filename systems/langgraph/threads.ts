// Finds the threads of a storage by their summaries, and removes a thread. Needs no package of LangGraph.

import { hasCheckpoint, type StorageAdapter } from "../../src/contract/adapter.js";
import type { CheckpointStatus, CheckpointSummary, TaskSummary } from "../../src/contract/checkpoint.js";
import { type ExpectedTask, requireUnchangedTasks } from "../../src/contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointConflictError } from "../../src/contract/errors.js";
import { readMetadata, WRITES_STAGE } from "./records.js";
import { parseThread, parseThreadPrefix, toTaskPrefixes, writesTask } from "./task-ids.js";

/** Which threads to find. A thread must match every given part. */
export interface ThreadQuery {
  /** Only threads whose ids begin with this. */
  readonly prefix?: string | undefined;
  /** Only threads with one of these statuses. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /** Only threads that no program has written to since then. */
  readonly idleSince?: Date | undefined;
}

/** A thread, as the summaries of its tasks describe it. */
export interface FoundThread {
  readonly id: string;
  /** The prefix of the thread's task ids. No other task id has it. */
  readonly prefix: string;
  readonly status: CheckpointStatus;
  /** The stage of the graph's newest checkpoint: `input`, `loop`, `update` or `fork`. */
  readonly stage?: string | undefined;
  /** The time of the last write, in ISO 8601 UTC. */
  readonly writtenAt: string;
  /** How many checkpoints it has, including its subgraphs'. */
  readonly checkpoints: number;
  /** All tasks with its records; the graph's own comes first. */
  readonly tasks: readonly ThreadTask[];
  /** The records of writes with questions that must be answered before the thread continues. */
  readonly asking: readonly RecordKey[];
}

/** A task of a thread. */
export interface ThreadTask extends ExpectedTask {
  readonly count: number;
  readonly newestBytes: number;
}

/** The key of a record of writes. */
export interface RecordKey {
  readonly taskId: string;
  readonly id: string;
}

/** The storage to search. */
export interface ThreadsSource {
  readonly storage: StorageAdapter;
  /** Called with each record that can't be read; the others are returned. */
  readonly damaged: (record: CorruptRecord) => unknown;
}

const BATCH = 100;

/**
 * The threads that match the query, ordered by task id. Between two batches no iteration is open, so the caller may
 * remove what it was given.
 */
export async function* threadBatches(
  source: ThreadsSource,
  query: ThreadQuery,
): AsyncGenerator<readonly FoundThread[], void, void> {
  for (const begin of toTaskPrefixes(query.prefix ?? "")) {
    let after: string | undefined;
    do {
      const batch: FoundThread[] = [];
      let last: string | undefined;
      for await (const tasks of tasksByThread(source, begin, after)) {
        last = parseThreadPrefix(tasks[0].taskId);
        const thread = await foundThread(source, tasks, query);
        if (thread !== undefined && batch.push(thread) === BATCH) break;
      }
      yield batch;
      // Sorts after every task id of that thread.
      after = batch.length < BATCH || last === undefined ? undefined : `${last}\u{10ffff}`;
    } while (after !== undefined);
  }
}

/**
 * How many bytes the thread's records have. A database stores only the changes between them, so the file may be far
 * smaller.
 */
export async function countBytes({ storage, damaged }: ThreadsSource, { tasks }: FoundThread): Promise<number> {
  let bytes = 0;
  for (const { taskId, count, newestBytes } of tasks) {
    if (count === 1) {
      bytes += newestBytes;
      continue;
    }
    for await (const record of storage.list({ taskId, order: "oldest" })) {
      if (isCorrupt(record)) await damaged(record);
      else bytes += record.sizeBytes;
    }
  }
  return bytes;
}

/**
 * Removes a thread, unless a program has written to it since it was found, or a runner holds its lease. Where the
 * storage can, this is one step. On files, a run that resumes the thread meanwhile is refused, and the thread is
 * removed.
 *
 * @returns False if the thread was kept.
 */
export async function removeThread(storage: StorageAdapter, { prefix, tasks }: FoundThread): Promise<boolean> {
  const [graph, ...others] = tasks;
  if (graph === undefined || (await storage.leases?.current(graph.taskId)) !== undefined) return false;
  try {
    if (storage.removePrefix !== undefined) {
      await storage.removePrefix(prefix, tasks);
      return true;
    }
    requireUnchangedTasks(prefix, await tasksNow(storage, prefix), tasks);
    // From here on a run of the thread is refused.
    await storage.remove(graph.taskId, "all", { expectedSequence: graph.newestSequence });
  } catch (error) {
    if (error instanceof CheckpointConflictError) return false;
    throw error;
  }
  for (const { taskId } of others) await storage.remove(taskId, "all");
  return true;
}

async function tasksNow(storage: StorageAdapter, prefix: string): Promise<readonly ExpectedTask[]> {
  const now: ExpectedTask[] = [];
  for await (const task of storage.tasks({ prefix, order: "taskId" })) {
    if (hasCheckpoint(task)) now.push({ taskId: task.taskId, newestSequence: task.newest.sequence });
  }
  return now;
}

/** The tasks of each thread, checkpoint tasks first. */
async function* tasksByThread(
  { storage, damaged }: ThreadsSource,
  prefix: string,
  after: string | undefined,
): AsyncGenerator<readonly [TaskSummary, ...TaskSummary[]], void, void> {
  let tasks: [TaskSummary, ...TaskSummary[]] | undefined;
  for await (const task of storage.tasks({ prefix, order: "taskId", after })) {
    if (isCorrupt(task)) {
      await damaged(task);
      continue;
    }
    if (!hasCheckpoint(task)) continue;
    const ofThread = parseThreadPrefix(task.taskId);
    if (tasks !== undefined && parseThreadPrefix(tasks[0].taskId) === ofThread) tasks.push(task);
    else {
      if (tasks !== undefined) yield tasks;
      tasks = ofThread === undefined ? undefined : [task];
    }
  }
  if (tasks !== undefined) yield tasks;
}

async function foundThread(
  source: ThreadsSource,
  tasks: readonly [TaskSummary, ...TaskSummary[]],
  { prefix = "", status: asked, idleSince }: ThreadQuery,
): Promise<FoundThread | undefined> {
  const [{ taskId, newest }] = tasks;
  const thread = parseThread(taskId, newest.metadata);
  const ofThread = parseThreadPrefix(taskId);
  // Without the graph's own checkpoints there is no thread: it was deleted while a run still wrote, or a copy is under
  // way.
  if (thread?.namespace !== "" || ofThread === undefined || !thread.threadId.startsWith(prefix)) return undefined;
  const writtenAt = tasks.reduce((last, { newest: { createdAt } }) => (createdAt > last ? createdAt : last), "");
  if (idleSince !== undefined && writtenAt >= idleSince.toISOString()) return undefined;

  const writes = writesTask(thread, newest.id);
  const writesStatus = await readWritesStatus(
    source,
    tasks.find((one) => one.taskId === writes),
  );
  const status = writesStatus.status ?? newest.status;
  if (asked !== undefined && !asked.includes(status)) return undefined;
  const counts = tasks.map((one) => (parseThread(one.taskId) === undefined ? 0 : one.count));
  return {
    id: thread.threadId,
    prefix: ofThread,
    ...{ status, stage: newest.stage, writtenAt },
    checkpoints: counts.reduce((sum, count) => sum + count, 0),
    tasks: tasks.map((one) => ({
      taskId: one.taskId,
      newestSequence: one.newest.sequence,
      count: one.count,
      newestBytes: one.newest.sizeBytes,
    })),
    asking: writesStatus.asking,
  };
}

/**
 * Reads the writes on top of the thread's checkpoint. Returns the status if they decide it, and the records with open
 * questions.
 */
async function readWritesStatus(
  source: ThreadsSource,
  task: TaskSummary | undefined,
): Promise<{ readonly status?: CheckpointStatus; readonly asking: readonly RecordKey[] }> {
  if (task === undefined) return { asking: [] };
  const asking = new Map<string, RecordKey>();
  const failed = new Set<string>();
  for (const record of await readRecords(source, task)) {
    const { by = "", isAnswer = false } = readMetadata(record);
    // A run that takes one answer asks its other questions again, so the earlier ones no longer count.
    if (isAnswer) asking.clear();
    asking.delete(by);
    failed.delete(by);
    if (record.status === "paused") asking.set(by, { taskId: task.taskId, id: record.id });
    if (record.status === "failed") failed.add(by);
  }
  if (failed.size > 0) return { status: "failed", asking: [...asking.values()] };
  return asking.size > 0 ? { status: "paused", asking: [...asking.values()] } : { asking: [] };
}

/** The records of writes, oldest first; empty if they don't affect the thread's status. */
async function readRecords(
  { storage, damaged }: ThreadsSource,
  { taskId, count, newest }: TaskSummary,
): Promise<readonly CheckpointSummary[]> {
  const records: CheckpointSummary[] = [];
  if (count === 1) records.push(newest);
  else {
    for await (const record of storage.list({ taskId, order: "oldest" })) {
      if (isCorrupt(record)) await damaged(record);
      else records.push(record);
    }
  }
  const writes = records.filter(({ stage }) => stage === WRITES_STAGE);
  return writes.some(({ status }) => status !== "running") ? writes : [];
}
