import { types } from "node:util";
import { brokenSeal, type CheckpointSummary, type StoredCheckpoint } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointCorruptError, CheckpointNotFoundError, isStackOverflow } from "../contract/errors.js";

/**
 * Returns `use(record)` if the record's seal holds. If the seal doesn't hold, or `use` finds the record damaged,
 * returns a CorruptRecord. The result is a promise only if `use` returns one.
 */
export function ifIntact<Result extends object>(
  record: StoredCheckpoint | CorruptRecord,
  use: (record: StoredCheckpoint) => Result | Promise<Result>,
): Result | CorruptRecord | Promise<Result | CorruptRecord> {
  if (isCorrupt(record)) return record;
  try {
    const broken = brokenSeal(record);
    if (broken !== undefined) return corruptRecord(record, broken);
    const used = use(record);
    return types.isPromise(used) ? used.catch((error: unknown) => corruptOrThrow(record, error)) : used;
  } catch (error) {
    return corruptOrThrow(record, error);
  }
}

function corruptOrThrow(record: StoredCheckpoint, error: unknown): CorruptRecord {
  if (error instanceof CheckpointCorruptError) return corruptRecord(record, error.reason, error);
  // A schema or a migration overflowed the stack, because the state nests too deep.
  if (isStackOverflow(error)) return corruptRecord(record, "its state is nested too deeply to read", error);
  throw error;
}

export function corruptRecord(record: StoredCheckpoint, reason: string, cause?: unknown): CorruptRecord {
  const { taskId, id, sequence } = record;
  const how = cause === undefined ? undefined : { cause };
  return { corrupt: true, location: describePlace(record), reason, taskId, id, sequence, ...how };
}

/** The place of a record for messages, if its adapter doesn't tell one. */
export function describePlace({ id, sequence, taskId }: CheckpointSummary): string {
  return `checkpoint ${id} (sequence ${sequence}) of task ${JSON.stringify(taskId)}`;
}

/** The error of a call that found damaged records and nothing intact. */
export function nothingIntactError(what: string, damaged: readonly CorruptRecord[]): CheckpointCorruptError {
  const [first] = damaged;
  const place = first && ` (the first at ${first.location}: ${first.reason})`;
  return new CheckpointCorruptError(
    `${what}: ${damaged.length} can't be read${place ?? ""}. They were left untouched; restore them from a backup, or remove the task.`,
    { cause: first?.cause },
  );
}

export function notFoundError(taskId: string, id?: string): CheckpointNotFoundError {
  const task = JSON.stringify(taskId);
  return id === undefined
    ? new CheckpointNotFoundError(`Task ${task} has no checkpoint.`, { taskId })
    : new CheckpointNotFoundError(
        `Task ${task} has no checkpoint ${JSON.stringify(id)}: it was never saved, or was removed. list() shows the task's checkpoints.`,
        { taskId, id },
      );
}
