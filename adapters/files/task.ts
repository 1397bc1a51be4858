import type { CheckpointQuery, CorruptRecord } from "../../src/contract/adapter.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
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
  lastSequence(): Promise<number>;
  find(id: string): Entry | undefined;
  /** One that can't be read, and may have any id. */
  findDamaged?(): Entry | undefined;
  /** Those in the query's range and order, after those it skips. */
  select(query: Omit<CheckpointQuery, "taskId">): Iterable<Entry>;
  /** The file that keeps the numbering, where it can't be read, and why. */
  damagedNumbering?(): Promise<{ readonly path: string; readonly reason: string } | undefined>;

  // Writes: each is durable once it has resolved.
  append(record: StoredCheckpoint, lock: FolderLock): Promise<void>;
  replace(entry: Entry, record: StoredCheckpoint, lock: FolderLock): Promise<void>;
  /** Removes checkpoints, or all of the task. Counts them in `done`, which tells of them where the lock was lost halfway. */
  remove(ids: readonly string[] | "all", lock: FolderLock, done: { removed: number }): Promise<void>;
  /** Takes out what is in quarantine now. It keeps the numbering. */
  takeAway(moved: readonly Movable[], lock: FolderLock): Promise<void>;
}

/** What stands in the place of an entry that can't be read. Other errors it throws. */
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
