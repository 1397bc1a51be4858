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
import { CALL_STAGE, isWhole, readMetadata } from "./records.js";
import {
  checkpointsPrefix,
  checkpointsTask,
  listLongNames,
  parseThread,
  threadPrefix,
  writesTask,
} from "./task-ids.js";

/** The storage, and how it encodes payloads. */
export interface CopyOptions extends Pick<MakePayloadOptions, "transforms"> {
  readonly storage: StorageAdapter;
  readonly clock?: (() => number) | undefined;
}

/** A task to copy: all its records, or those that `isCopied` accepts. */
interface CopiedTask {
  readonly taskId: string;
  readonly isCopied?: (record: CheckpointSummary) => boolean;
}

/** How many records are appended at once. Databases put them into one transaction. */
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
    throw new TypeError(
      `Thread ${JSON.stringify(from)} can't be copied onto itself: name another thread for the copy.`,
    );
  }
  const { storage } = options;
  const taskId = checkpointsTask({ threadId: from, namespace: "" });
  const all = await summariesIn(storage, taskId);
  const newest = all.at(-1);
  const last = id === undefined ? newest : all.find((one) => one.id === id);
  if (last === undefined) {
    const what = id === undefined ? "has no checkpoint" : `has no checkpoint ${id}`;
    throw new CheckpointNotFoundError(`Thread ${JSON.stringify(from)} ${what}. Nothing was stored.`, { taskId, id });
  }
  const copied = all.filter(({ sequence }) => sequence <= last.sequence);
  if (!isWhole(last, new Map(copied.map((one) => [one.id, one])))) {
    throw new CheckpointCorruptError(
      `Checkpoint ${last.id} of thread ${JSON.stringify(from)} has lost values that it needs: pruning removed them. ` +
        "Nothing was stored; copy a newer checkpoint.",
    );
  }
  for await (const _task of storage.tasks({ prefix: threadPrefix(to), order: "taskId", limit: 1 })) {
    throw new CheckpointConflictError(
      `Thread ${JSON.stringify(to)} already has records, so nothing can be copied to it. Nothing was stored. Name another ` +
        "thread; if a copy was cut off, delete it first.",
    );
  }
  const ids = new Set(copied.map((one) => one.id));
  const others = last === newest ? allBeside(storage, from, taskId) : olderBeside(storage, from, last, copied);
  const written = new Map<string, number>();
  try {
    for await (const task of others) await copyTask(options, from, to, task, written);
    await copyTask(options, from, to, { taskId, isCopied: (record) => ids.has(record.id) }, written);
  } catch (error) {
    for (const [copy, expectedSequence] of written) await removeUnlessChanged(storage, copy, expectedSequence);
    throw error;
  }
  return copied.length;
}

/** All tasks of the thread except the task with the graph's own checkpoints. */
async function* allBeside(storage: StorageAdapter, from: string, graph: string): AsyncGenerator<CopiedTask> {
  const taskIds: string[] = [];
  for await (const { taskId } of storage.tasks({ prefix: threadPrefix(from), order: "taskId" })) {
    if (taskId !== undefined && taskId !== graph && taskId !== taskIds.at(-1)) taskIds.push(taskId);
  }
  for (const taskId of taskIds) yield { taskId };
}

/**
 * The tasks that belong to checkpoints older than `end`, the last one copied. The writes on top of `end` are left out.
 */
async function* olderBeside(
  storage: StorageAdapter,
  from: string,
  end: CheckpointSummary,
  copied: readonly CheckpointSummary[],
): AsyncGenerator<CopiedTask> {
  yield* readWrites(
    storage,
    from,
    "",
    copied.filter((one) => one !== end),
  );
  // A subgraph with a checkpointer of its own has one history for all calls. Like LangGraph, compare its checkpoint ids
  // with the id of `end`.
  const isBefore = ({ id }: CheckpointSummary) => id < end.id;
  const taskIds: string[] = [];
  for await (const { taskId } of storage.tasks({ prefix: checkpointsPrefix(from), order: "taskId" })) {
    if (taskId !== undefined) taskIds.push(taskId);
  }
  for (const taskId of taskIds) {
    const records = await summariesIn(storage, taskId);
    const { namespace = "" } = parseThread(taskId, records[0]?.metadata) ?? {};
    if (namespace === "" || namespace.includes(":")) continue;
    yield* readWrites(storage, from, namespace, records.filter(isBefore));
    yield { taskId, isCopied: isBefore };
  }
}

/** The tasks of the writes on top of these checkpoints, and of the subgraphs that were called from them. */
async function* readWrites(
  storage: StorageAdapter,
  threadId: string,
  namespace: string,
  checkpoints: readonly CheckpointSummary[],
): AsyncGenerator<CopiedTask> {
  for (const { id } of checkpoints) {
    const taskId = writesTask({ threadId, namespace }, id);
    yield { taskId };
    for (const record of await summariesIn(storage, taskId)) {
      const { call } = readMetadata(record);
      if (record.stage !== CALL_STAGE || call === undefined) continue;
      const ofCall = checkpointsTask({ threadId, namespace: call });
      yield* readWrites(storage, threadId, call, await summariesIn(storage, ofCall));
      yield { taskId: ofCall };
    }
  }
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

/** @param written - The last sequence of each task copied so far. This call adds its own task. */
async function copyTask(
  options: CopyOptions,
  from: string,
  to: string,
  { taskId, isCopied = () => true }: CopiedTask,
  written: Map<string, number>,
): Promise<void> {
  const { storage } = options;
  const copy = threadPrefix(to) + taskId.slice(threadPrefix(from).length);
  let batch: StoredCheckpoint[] = [];
  const flush = async () => {
    const drafts = await Promise.all(
      batch.map(async (record) => [record, await makeDraft(options, record, copy, to)] as const),
    );
    const appends = drafts.map(([{ sequence }, draft]) =>
      storage.append(draft, written.has(copy) ? {} : { expectedSequence: 0 }, { sequence }),
    );
    // Wait for all appends, so that a failed copy can remove everything they stored.
    const outcomes = await Promise.allSettled(appends);
    for (const outcome of outcomes) if (outcome.status === "fulfilled") written.set(copy, outcome.value);
    await Promise.all(appends);
    batch = [];
  };
  for await (const record of storage.read({ taskId, order: "oldest" })) {
    if (isCorrupt(record)) throw unreadable(taskId, record.reason);
    const damage = findDamage(record);
    if (damage !== undefined) throw unreadable(taskId, damage);
    // The first record is appended alone: if another program has begun the thread, only this append fails.
    if (isCopied(record) && (batch.push(record) === AT_ONCE || !written.has(copy))) await flush();
  }
  await flush();
}

async function makeDraft(options: CopyOptions, record: StoredCheckpoint, taskId: string, threadId: string) {
  const { sequence: _sequence, seal: _seal, payload, metadata, ...summary } = record;
  const { transforms, clock = Date.now } = options;
  const own = metadataIn(taskId, metadata, threadId);
  const createdAt = new Date(clock()).toISOString();
  const draft = { ...summary, taskId, createdAt, ...(own === undefined ? undefined : { metadata: own }) };
  return { ...draft, ...(await payloadFor(draft, payload, { transforms, context: record })) };
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
    // Another program writes to this task, so its records stay.
    if (!(error instanceof CheckpointConflictError)) throw error;
  }
}

function unreadable(taskId: string, reason: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `A record of task ${JSON.stringify(taskId)} can't be read: ${reason}. The record was left untouched, and nothing was copied. ` +
      '"waymark verify" shows the damage, "waymark repair" moves it away.',
  );
}
