import { CheckpointError, type StorageAdapter } from "waymark";
import {
  type CheckpointQuery,
  findDamage,
  findRecordDamage,
  isCorrupt,
  type LogRecord,
  type RecordQuery,
  type StoredCheckpoint,
} from "waymark/adapter";
import type { DamageSink } from "../damage.js";

/** Yields the intact records that the query finds. Damaged ones are reported to `damage`. */
export async function* wholeRecords(
  storage: StorageAdapter,
  query: CheckpointQuery,
  damage: DamageSink,
): AsyncGenerator<StoredCheckpoint, void, void> {
  for await (const record of storage.read(query)) {
    if (isCorrupt(record)) {
      await damage.add(record);
      continue;
    }
    const reason = findDamage(record);
    if (reason === undefined) yield record;
    else await damage.add({ ...record, location: formatLocation(record), reason });
  }
}

/** A whole checkpoint, or a whole record of a task's log. */
export type StoredItem = StoredCheckpoint | LogRecord;

export function isLogRecord(item: object): item is LogRecord {
  return "kind" in item;
}

/**
 * Yields the intact checkpoints and records of a task by sequence: those below `beforeSequence` or, without it, those
 * that exist when it starts. At any point, the items so far are the task as it once was. An event whose body was
 * removed is left out, since no storage can append it. Damage is reported to `damage`.
 */
export async function* wholeItems(
  storage: StorageAdapter,
  { taskId, afterSequence, beforeSequence }: Pick<RecordQuery, "taskId" | "afterSequence" | "beforeSequence">,
  damage: DamageSink,
): AsyncGenerator<StoredItem, void, void> {
  // Both reads stop at `end`, so neither can yield an item that the other one has already passed.
  const end = beforeSequence ?? (await lastSequence(storage, taskId)) + 1;
  const range = { taskId, order: "oldest", afterSequence, beforeSequence: end } as const;
  const checkpoints = wholeRecords(storage, range, damage);
  const records = wholeLogRecords(storage, range, damage);
  try {
    let [checkpoint, record] = [await checkpoints.next(), await records.next()];
    while (!checkpoint.done || !record.done) {
      if (record.done || (!checkpoint.done && checkpoint.value.sequence < record.value.sequence)) {
        if (!checkpoint.done) yield checkpoint.value;
        checkpoint = await checkpoints.next();
      } else {
        yield record.value;
        record = await records.next();
      }
    }
  } finally {
    await checkpoints.return();
    await records.return();
  }
}

async function* wholeLogRecords(
  { log }: StorageAdapter,
  range: RecordQuery,
  damage: DamageSink,
): AsyncGenerator<LogRecord, void, void> {
  for await (const item of log?.read({ ...range, kinds: ["step", "event", "chunk", "run", "mark"] }) ?? []) {
    if (isCorrupt(item)) {
      await damage.add(item);
      continue;
    }
    if (!isLogRecord(item) || !("body" in item.payload)) continue;
    const reason = findRecordDamage(item);
    if (reason === undefined) yield item;
    else await damage.add({ ...item, location: formatLocation(item), reason });
  }
}

/** Returns the highest sequence of a task's checkpoints and records, damaged or not; 0 if there is none. */
export async function lastSequence(storage: StorageAdapter, taskId: string): Promise<number> {
  const query = { taskId, order: "newest", limit: 1 } as const;
  let last = 0;
  for await (const { sequence = 0 } of storage.log?.read({ ...query, headersOnly: true }) ?? storage.list(query)) {
    last = Math.max(last, sequence);
  }
  return last;
}

/** Yields the ids of a storage's tasks. Unreadable records are reported to `damage`. */
export async function* taskIds(
  storage: StorageAdapter,
  prefix: string | undefined,
  damage: DamageSink,
): AsyncGenerator<string, void, void> {
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (isCorrupt(task)) await damage.add(task);
    else yield task.taskId;
  }
}

/** Names an item in its task: `checkpoint c1`, `step record "model"`. */
export function describeItem(item: StoredItem): string {
  if (!isLogRecord(item)) return `checkpoint ${item.id}`;
  return `${item.kind} record${item.name === undefined ? "" : ` ${JSON.stringify(item.name)}`}`;
}

/** Counts the checkpoints for a progress bar. If the storage fails, returns the number counted so far. */
export async function countRecords(storage: StorageAdapter, prefix?: string): Promise<number> {
  let count = 0;
  try {
    for await (const task of storage.tasks({ order: "taskId", prefix })) if (!isCorrupt(task)) count += task.count;
  } catch (error) {
    // The command itself reports the error.
    if (!(error instanceof CheckpointError)) throw error;
  }
  return count;
}

function formatLocation(item: StoredItem): string {
  return `${describeItem(item)} (sequence ${item.sequence}) of task ${JSON.stringify(item.taskId)}`;
}
