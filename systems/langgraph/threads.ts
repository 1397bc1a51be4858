// Finds the threads of a storage by their summaries, and removes a thread. Needs no package of LangGraph.

import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import { hasCheckpoint, type StorageAdapter, type StoredTask } from "../../src/contract/adapter.js";
import type { CheckpointStatus } from "../../src/contract/checkpoint.js";
import { type ExpectedTask, requireUnchangedTasks } from "../../src/contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointConflictError } from "../../src/contract/errors.js";
import { findWritesStart, type StoredValue } from "./records.js";
import { parseThread, parseThreadPrefix, toTaskPrefixes } from "./task-ids.js";
import { deriveStatus } from "./thread-status.js";
import { readWrites } from "./writes.js";

/** Which threads to find. A thread must match every given part. */
export interface ThreadQuery {
  /** Only threads whose ids begin with this. */
  readonly prefix?: string | undefined;
  /** Only threads with one of these statuses. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /** Only threads that no program has written to since then. */
  readonly idleSince?: Date | undefined;
}

/** A thread, as the summaries of its tasks and the writes on top of its newest checkpoint describe it. */
export interface FoundThread {
  readonly id: string;
  /** The prefix of the thread's task ids. No other task id has it. */
  readonly prefix: string;
  readonly status: CheckpointStatus;
  /** The stage of the graph's newest checkpoint: `input`, `loop`, `update` or `fork`. */
  readonly stage?: string | undefined;
  /** The time of the last write, in ISO 8601 UTC. */
  readonly writtenAt: string;
  /** How many checkpoints the thread has, including those of its subgraphs. */
  readonly checkpoints: number;
  /** All tasks that hold the thread's records; the graph's own comes first. */
  readonly tasks: readonly ThreadTask[];
  /** The interrupts that must be answered before the thread continues. */
  readonly interrupts: readonly StoredValue[];
}

/** A task of a thread. */
export interface ThreadTask extends ExpectedTask {
  /** The sequence of the task's last checkpoint or record. */
  readonly lastSequence: number;
}

/** The storage to search. */
export interface ThreadsSource {
  readonly storage: StorageAdapter;
  /** A manager over `storage`. It reads the writes, and reports damaged ones. */
  readonly manager: Pick<CheckpointManager, "records">;
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
 * How many bytes the thread's records have. A database stores only the changes between records, so its file may be far
 * smaller.
 */
export async function countBytes({ storage, damaged }: ThreadsSource, { tasks }: FoundThread): Promise<number> {
  let bytes = 0;
  for (const { taskId } of tasks) {
    for await (const item of storage.log?.read({ taskId, order: "oldest", headersOnly: true }) ?? []) {
      if (isCorrupt(item)) await damaged(item);
      else if ("sizeBytes" in item) bytes += item.sizeBytes;
    }
  }
  return bytes;
}

/**
 * Removes a thread, unless a program has written to it since it was found, or a runner holds its lease. Where the
 * storage can, this is one step. A run that resumes the thread at this moment is refused, and the thread is removed.
 *
 * @returns False if the thread was kept.
 */
export async function removeThread(storage: StorageAdapter, { prefix, tasks }: FoundThread): Promise<boolean> {
  const [graph] = tasks;
  if (graph === undefined || (await storage.leases?.current(graph.taskId)) !== undefined) return false;
  const now: ThreadTask[] = [];
  for await (const task of storage.tasks({ prefix, order: "taskId" }))
    if (hasCheckpoint(task)) now.push(toThreadTask(task));
  const last = new Map(tasks.map(({ taskId, lastSequence }) => [taskId, lastSequence]));
  if (now.some(({ taskId, lastSequence }) => lastSequence !== last.get(taskId))) return false;
  try {
    if (storage.removePrefix !== undefined) {
      await storage.removePrefix(prefix, tasks);
      return true;
    }
    requireUnchangedTasks(prefix, now, tasks);
    // From here on a run of the thread is refused.
    await storage.remove(graph.taskId, "all", { expectedSequence: graph.newestSequence });
  } catch (error) {
    if (error instanceof CheckpointConflictError) return false;
    throw error;
  }
  const others = new Set<string>();
  for await (const { taskId } of storage.tasks({ prefix, order: "taskId" }))
    if (taskId !== undefined) others.add(taskId);
  for (const taskId of others) await storage.remove(taskId, "all");
  return true;
}

function toThreadTask({ taskId, newest: { sequence }, last }: ThreadTaskSummary): ThreadTask {
  return { taskId, newestSequence: sequence, lastSequence: Math.max(sequence, last?.sequence ?? 0) };
}

/** A task with a checkpoint, as the storage lists it. */
type ThreadTaskSummary = StoredTask & Required<Pick<StoredTask, "newest">>;

/** The tasks of each thread; that of the graph's own checkpoints comes first. */
async function* tasksByThread(
  { storage, damaged }: ThreadsSource,
  prefix: string,
  after: string | undefined,
): AsyncGenerator<readonly [ThreadTaskSummary, ...ThreadTaskSummary[]], void, void> {
  let tasks: [ThreadTaskSummary, ...ThreadTaskSummary[]] | undefined;
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
  { manager }: ThreadsSource,
  tasks: readonly [ThreadTaskSummary, ...ThreadTaskSummary[]],
  { prefix = "", status: statuses, idleSince }: ThreadQuery,
): Promise<FoundThread | undefined> {
  const [{ taskId, newest, last }] = tasks;
  const thread = parseThread(taskId, newest.metadata);
  const ofThread = parseThreadPrefix(taskId);
  // Without the graph's own checkpoints there is no thread: it was deleted while a run still wrote, or a copy is under
  // way.
  if (thread?.namespace !== "" || ofThread === undefined || !thread.threadId.startsWith(prefix)) return undefined;
  const times = tasks.flatMap((task) => [task.newest.createdAt, task.last?.createdAt ?? ""]);
  const writtenAt = times.reduce((latest, time) => (time > latest ? time : latest));
  if (idleSince !== undefined && writtenAt >= idleSince.toISOString()) return undefined;

  const afterSequence = findWritesStart(newest);
  // `last` is given only if it is newer than the checkpoint.
  const mayHaveWrites = last !== undefined || afterSequence < newest.sequence;
  const writes = mayHaveWrites ? await readWrites(manager, taskId, newest.id, { afterSequence }) : [];
  const { status = newest.status, interrupts } = deriveStatus(writes);
  if (statuses !== undefined && !statuses.includes(status)) return undefined;
  return {
    id: thread.threadId,
    prefix: ofThread,
    ...{ status, stage: newest.stage, writtenAt, interrupts },
    checkpoints: tasks.reduce((sum, { count }) => sum + count, 0),
    tasks: tasks.map(toThreadTask),
  };
}
