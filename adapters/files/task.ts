import { type CheckpointQuery, type CorruptRecord, isCorrupt } from "../../src/contract/adapter.js";
import { type CheckpointSummary, type StoredCheckpoint, summaryOf } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, StorageError } from "../../src/contract/errors.js";
import type { FolderLock } from "./lock.js";
import type { Movable } from "./quarantine.js";
import { UnreadableError } from "./read-file.js";
import type { RecordHead } from "./record.js";

/** The lock's folder in each task's. While nobody holds the lock, it has no files in it, so Git doesn't see it. */
export const LOCK_NAME = ".lock";

/** A checkpoint where it is stored. It is read when it is asked for. */
export interface Entry {
  /** A path, or a path and a line. */
  readonly location: string;
  /** What is known of it where it can't be read. */
  readonly known: { readonly id?: string; readonly sequence?: number };
  /** What repair moves, if it is damaged. */
  readonly movable: Movable;
  /** `undefined` where it is gone. @throws {UnreadableError} */
  head(): RecordHead | undefined;
  /** `undefined` where it is gone. @throws {UnreadableError} */
  checkpoint(): Promise<StoredCheckpoint | undefined>;
}

/** What a task's folder held when it was loaded, in whatever form. */
export interface Task {
  /** Of checkpoints, damaged ones included. */
  readonly count: number;
  /** Of the newest checkpoint; 0 for none. A damaged one counts. */
  readonly newestSequence: number;
  /** The last sequence that was given. @throws {CheckpointCorruptError} Nothing tells it, so one could be given twice. */
  readonly lastSequence: number;
  find(id: string): Entry | undefined;
  /** One that can't be read, and may have any id. */
  findDamaged?(): Entry | undefined;
  /** Those in the query's range and order, after those it skips. */
  select(query: Omit<CheckpointQuery, "taskId">): Iterable<Entry>;

  // Writes: each is durable once it has resolved.
  append(record: StoredCheckpoint, lock: FolderLock): Promise<void>;
  replace(entry: Entry, record: StoredCheckpoint, lock: FolderLock): Promise<void>;
  /** Removes checkpoints, or all of the task. Counts them in `done`, which tells of them where the lock was lost halfway. */
  remove(ids: readonly string[] | "all", lock: FolderLock, done: { removed: number }): Promise<void>;
  /** Takes out what is in quarantine now. It keeps the numbering. */
  takeAway(moved: readonly Movable[], lock: FolderLock): Promise<void>;
}

/** Describes an entry that cannot be read. Other errors are thrown. */
export function corruptOrThrow(entry: Entry, error: unknown, taskId: string | undefined): CorruptRecord {
  if (!(error instanceof UnreadableError)) throw error;
  const { message: reason, cause } = error;
  const known = { ...(taskId === undefined ? undefined : { taskId }), ...entry.known };
  return {
    corrupt: true,
    location: entry.location,
    reason,
    ...known,
    ...(cause === undefined ? undefined : { cause }),
  };
}

/** What was looked for, what stands in its place where it can't be read, or nothing where it is gone. */
export type Found<Item> = Item | CorruptRecord | undefined;

/** @throws {StorageError} It is another task's. */
export async function readCheckpoint(entry: Entry, taskId: string): Promise<Found<StoredCheckpoint>> {
  try {
    const stored = await entry.checkpoint();
    if (stored) assertSameTask(taskId, stored.taskId, entry.location);
    return stored;
  } catch (error) {
    return corruptOrThrow(entry, error, taskId);
  }
}

/** @throws {StorageError} It is another task's. */
export function readSummary(entry: Entry, taskId: string): Found<CheckpointSummary> {
  try {
    const head = entry.head();
    if (head) assertSameTask(taskId, head.taskId, entry.location);
    return head && summaryOf(head);
  } catch (error) {
    return corruptOrThrow(entry, error, taskId);
  }
}

/** @throws {CheckpointCorruptError | StorageError} It can't be read, or is another task's. */
export async function readToChange(entry: Entry, taskId: string): Promise<StoredCheckpoint | undefined> {
  const found = await readCheckpoint(entry, taskId);
  if (found === undefined || !isCorrupt(found)) return found;
  throw new CheckpointCorruptError(
    `The checkpoint at ${found.location} can't be read: ${found.reason}. It was left untouched, and nothing was changed.`,
    { cause: found.cause },
  );
}

/**
 * Names that differ in case alone are one folder on some disks: it belongs to the task that has a checkpoint in it.
 *
 * @throws {StorageError} It is another task's.
 */
export function assertOwner(task: Task, taskId: string): void {
  for (const entry of task.select({ order: "newest" })) {
    const found = readSummary(entry, taskId);
    if (found && !isCorrupt(found)) return;
  }
}

/** @throws {StorageError} What was found at that place is another task's. */
function assertSameTask(taskId: string, owner: string, location: string): void {
  if (owner === taskId) return;
  throw new StorageError(
    `${location} belongs to task ${JSON.stringify(owner)}, not to ${JSON.stringify(taskId)}. Nothing was changed. ` +
      "Where the two differ in case alone, this disk takes their folders for one: rename a task. " +
      "Otherwise the file was copied there: move it away.",
  );
}
