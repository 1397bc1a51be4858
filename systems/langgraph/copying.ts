// Copies threads. Needs no package of LangGraph.
import { type MakePayloadOptions, payloadFor } from "../../src/codec/payload.js";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import {
  type CheckpointSummary,
  findDamage,
  type JsonObject,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointConflictError, CheckpointCorruptError, CheckpointNotFoundError } from "../../src/contract/errors.js";
import { findRecordDamage, isRecord, type LogRecord, type RecordHeader, type TaskLog } from "../../src/contract/log.js";
import { requireLog } from "../../src/manager/records.js";
import { findCalls } from "./calls.js";
import { isWhole } from "./records.js";
import { checkpointsPrefix, checkpointsTask, listLongNames, parseThread, threadPrefix } from "./task-ids.js";

/** The storage, and how it encodes payloads. */
export interface CopyOptions extends Pick<MakePayloadOptions, "transforms"> {
  readonly storage: StorageAdapter;
  readonly clock?: (() => number) | undefined;
}

/** A stored checkpoint, or a record with writes. */
type StoredItem = StoredCheckpoint | LogRecord;

/** A task to copy: all its items, or those that `isCopied` accepts. */
interface CopiedTask {
  readonly taskId: string;
  readonly isCopied?: (item: StoredItem) => boolean;
}

/** How many items are appended at once. Databases put them into one transaction. */
const AT_ONCE = 32;

/**
 * Begins the thread `to` with the checkpoints, subgraphs and pending writes of `from`. Ids and sequences stay the same;
 * `createdAt` is the time of the copying. Neither states nor writes are decoded.
 *
 * The graph's own checkpoints are copied last, so a copy that was cut off isn't listed as a thread.
 *
 * @param id - The last checkpoint to copy. If it isn't the newest, its pending writes aren't copied, so the nodes after
 * it run again. Default: the newest.
 * @returns How many of the graph's checkpoints were copied.
 * @throws {TypeError} `from` and `to` are the same.
 * @throws {CheckpointNotFoundError} There is no such thread or checkpoint.
 * @throws {CheckpointConflictError} The thread `to` already has records. Nothing was stored.
 * @throws {CheckpointCorruptError} A record can't be read. The unfinished copy was removed.
 */
export async function copyThread(options: CopyOptions, from: string, to: string, id?: string): Promise<number> {
  if (from === to) {
    throw new TypeError(`Thread ${JSON.stringify(from)} can't be copied onto itself.`);
  }
  const { storage } = options;
  const taskId = checkpointsTask({ threadId: from, namespace: "" });
  const all = await summariesIn(storage, taskId);
  const newest = all.at(-1);
  const last = id === undefined ? newest : all.find((one) => one.id === id);
  if (last === undefined) {
    const what = `has no checkpoint${id === undefined ? "" : ` ${id}`}`;
    throw new CheckpointNotFoundError(`Thread ${JSON.stringify(from)} ${what}. Nothing was stored.`, { taskId, id });
  }
  const copied = all.filter(({ sequence }) => sequence <= last.sequence);
  if (!isWhole(last, new Map(copied.map((one) => [one.id, one])))) {
    throw new CheckpointCorruptError(
      `Pruning removed values of checkpoint ${last.id}. Nothing was stored; copy a newer one.`,
    );
  }
  for await (const _task of storage.tasks({ prefix: threadPrefix(to), order: "taskId", limit: 1 })) {
    throw new CheckpointConflictError(
      `Thread ${JSON.stringify(to)} already has records. Nothing was stored. Name another thread; if a copy was cut off, ` +
        "delete it first.",
    );
  }
  const tasks =
    last === newest ? await listTasks(storage, from, taskId) : await listOlder(storage, from, taskId, last, copied);
  const written = new Map<string, number>();
  try {
    for (const task of tasks) await copyTask(options, from, to, task, written);
  } catch (error) {
    for (const [copy, expectedSequence] of written) await removeUnlessChanged(storage, copy, expectedSequence);
    throw error;
  }
  return copied.length;
}

/** All tasks of the thread; that of the graph's own checkpoints is last. */
async function listTasks(storage: StorageAdapter, threadId: string, graph: string): Promise<CopiedTask[]> {
  const taskIds = new Set<string>();
  for await (const { taskId } of storage.tasks({ prefix: checkpointsPrefix(threadId), order: "taskId" })) {
    if (taskId !== undefined) taskIds.add(taskId);
  }
  taskIds.delete(graph);
  return [...taskIds, graph].map((taskId) => ({ taskId }));
}

/**
 * The tasks to copy, each with `end` and the items that belong to older checkpoints. The writes on top of `end`, and
 * the subgraphs that were called from `end`, are left out.
 */
async function listOlder(
  storage: StorageAdapter,
  threadId: string,
  graph: string,
  end: CheckpointSummary,
  copied: readonly CheckpointSummary[],
): Promise<CopiedTask[]> {
  const older = new Set(copied.map(({ id }) => id));
  older.delete(end.id);
  const shared: string[] = [];
  for (const { taskId } of await listTasks(storage, threadId, graph)) {
    const summaries = taskId === graph ? [] : await summariesIn(storage, taskId);
    if (parseThread(taskId, summaries[0]?.metadata)?.namespace.includes(":") !== false || taskId === graph) continue;
    // A subgraph with a checkpointer of its own has one history for all calls. Like LangGraph, compare its checkpoint
    // ids with the id of `end`.
    for (const { id } of summaries) if (id < end.id) older.add(id);
    shared.push(taskId);
  }
  const calls = (await findCalls(storage, threadId, older)).map(({ taskId }) => ({ taskId }));
  const isOlder = (item: StoredItem) => older.has((isRecord(item) ? item.name : item.id) ?? "");
  return [
    ...calls,
    ...shared.map((taskId) => ({ taskId, isCopied: isOlder })),
    { taskId: graph, isCopied: (item) => isOlder(item) || (!isRecord(item) && item.id === end.id) },
  ];
}

/** Oldest first. */
async function summariesIn(storage: StorageAdapter, taskId: string): Promise<readonly CheckpointSummary[]> {
  const summaries: CheckpointSummary[] = [];
  for await (const record of storage.list({ taskId, order: "oldest" })) {
    if (isCorrupt(record)) throw unreadable(taskId, record.reason);
    summaries.push(record);
  }
  return summaries;
}

/** @param written - The last sequence of each task copied so far; 0 if it has no checkpoint. This call adds its own task. */
async function copyTask(
  options: CopyOptions,
  from: string,
  to: string,
  { taskId, isCopied = () => true }: CopiedTask,
  written: Map<string, number>,
): Promise<void> {
  const { storage } = options;
  const log = requireLog(storage, "a copy of a thread");
  const copy = threadPrefix(to) + taskId.slice(threadPrefix(from).length);
  let batch: StoredItem[] = [];
  const flush = async () => {
    const drafts = await Promise.all(batch.map((item) => makeDraft(options, item, copy, to)));
    const condition = written.has(copy) ? {} : { expectedSequence: 0 };
    const appends = drafts.map(async (draft) => {
      if (!("kind" in draft)) {
        const { sequence, ...checkpoint } = draft;
        written.set(copy, await storage.append(checkpoint, condition, { sequence }));
        return;
      }
      const { sequence, taskId, ...record } = draft;
      await log.append(taskId, [record], condition, { firstSequence: sequence });
      if (!written.has(copy)) written.set(copy, 0);
    });
    // Wait for all appends, so that a failed copy can remove everything they stored.
    await Promise.allSettled(appends);
    await Promise.all(appends);
    batch = [];
  };
  for await (const item of readItems(storage, log, taskId)) {
    // The first item is appended alone: if another program has begun the thread, only this append fails.
    if (isCopied(item) && (batch.push(item) === AT_ONCE || !written.has(copy))) await flush();
  }
  await flush();
}

/**
 * The task's checkpoints and records in the order of their sequences.
 *
 * @throws {CheckpointCorruptError} One is damaged.
 */
async function* readItems(storage: StorageAdapter, log: TaskLog, taskId: string): AsyncGenerator<StoredItem> {
  for await (const found of log.read({ taskId, order: "oldest" })) {
    const item = isCorrupt(found) || isRecord(found) ? found : await storage.get(taskId, found.id);
    // The checkpoint was removed meanwhile.
    if (item === undefined) continue;
    if (isCorrupt(item)) throw unreadable(taskId, item.reason);
    const damage = isRecord(item) ? findRecordDamage(item) : findDamage(item);
    if (damage !== undefined) throw unreadable(taskId, damage);
    // Only events may lack their bodies.
    if (isStoredItem(item)) yield item;
  }
}

function isStoredItem(item: StoredItem | RecordHeader): item is StoredItem {
  return "body" in item.payload;
}

/** An item of the copy, with its sequence. */
async function makeDraft({ transforms, clock = Date.now }: CopyOptions, item: StoredItem, taskId: string, to: string) {
  const createdAt = new Date(clock()).toISOString();
  if (isRecord(item)) {
    const { seal: _seal, ...record } = { ...item, taskId, createdAt };
    return { ...record, payload: (await payloadFor(record, item.payload, { transforms, context: item })).payload };
  }
  const { seal: _seal, metadata, ...summary } = { ...item, taskId, createdAt };
  const own = metadataIn(taskId, metadata, to);
  const made = await payloadFor(summary, item.payload, { transforms, context: item });
  return { ...summary, ...(own && { metadata: own }), ...made };
}

/** A record's metadata for the copy. If the copy's thread id is too long for a task id, the metadata holds it. */
function metadataIn(taskId: string, metadata: JsonObject | undefined, threadId: string): JsonObject | undefined {
  if (parseThread(taskId) === undefined) return metadata;
  const { thread: _former, ...rest } = metadata ?? {};
  const own = { ...rest, ...listLongNames({ threadId, namespace: "" }) };
  return Object.keys(own).length === 0 ? undefined : own;
}

/** Removes the records that a failed copy has stored, unless another program has written to the task since. */
async function removeUnlessChanged(storage: StorageAdapter, taskId: string, expectedSequence: number): Promise<void> {
  try {
    await storage.remove(taskId, "all", { expectedSequence });
  } catch (error) {
    // Another program has written to this task since, so its records are kept.
    if (!(error instanceof CheckpointConflictError)) throw error;
  }
}

function unreadable(taskId: string, reason: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `A record of task ${JSON.stringify(taskId)} can't be read: ${reason}. The record was left untouched, and nothing was copied. ` +
      '"waymark verify" shows the damage, "waymark repair" moves it away.',
  );
}
