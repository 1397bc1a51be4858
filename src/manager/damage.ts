import { types } from "node:util";
import { brokenSeal, type StoredCheckpoint } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointCorruptError, CheckpointNotFoundError, isStackOverflow } from "../contract/errors.js";
import { isRecord, type LogRecord, type RecordHeader, sealRecord } from "../contract/log.js";

/** A checkpoint or a record of a log, as stored. */
type Stored = StoredCheckpoint | LogRecord | RecordHeader;

/**
 * Returns `use(record)` if the record's seal holds. If the seal doesn't hold, or `use` finds the record damaged,
 * returns a CorruptRecord. The result is a promise only if `use` returns one.
 */
export function ifIntact<Record extends Stored, Result extends object>(
  record: Record | CorruptRecord,
  use: (record: Record) => Result | Promise<Result>,
): Result | CorruptRecord | Promise<Result | CorruptRecord> {
  const checked = checkSeal(record);
  if (isCorrupt(checked)) return checked;
  try {
    const used = use(checked);
    return types.isPromise(used) ? used.catch((error: unknown) => corruptOrThrow(checked, error)) : used;
  } catch (error) {
    return corruptOrThrow(checked, error);
  }
}

/** Returns the record if its seal holds, else a CorruptRecord. */
export function checkSeal<Record extends Stored>(record: Record | CorruptRecord): Record | CorruptRecord {
  if (isCorrupt(record)) return record;
  const broken = findBrokenSeal(record);
  return broken === undefined ? record : corruptRecord(record, broken);
}

function findBrokenSeal(record: Stored): string | undefined {
  if (!isRecord(record)) return brokenSeal(record);
  return sealRecord(record) === record.seal ? undefined : "its seal doesn't match its content";
}

function corruptOrThrow(record: Stored, error: unknown): CorruptRecord {
  if (error instanceof CheckpointCorruptError) return corruptRecord(record, error.reason, error);
  // A schema or a migration overflowed the stack, because the state nests too deep.
  if (isStackOverflow(error)) return corruptRecord(record, "its state is nested too deeply to read", error);
  throw error;
}

/** The fields that name a checkpoint or a record of a log. */
type NamedRecord = Pick<CorruptRecord, "id"> & {
  readonly taskId: string;
  readonly sequence: number;
  readonly kind?: string;
};

export function corruptRecord(record: NamedRecord, reason: string, cause?: unknown): CorruptRecord {
  const { taskId, id, sequence } = record;
  const location = describeLocation(record);
  const named = { taskId, sequence, ...(id !== undefined && { id }) };
  return { corrupt: true, location, reason, ...named, ...(cause !== undefined && { cause }) };
}

/** Describes the place of a checkpoint or record for messages, if its adapter doesn't name one. */
export function describeLocation({ kind, id, sequence, taskId }: NamedRecord): string {
  const task = `of task ${JSON.stringify(taskId)}`;
  return kind === undefined
    ? `checkpoint ${id} (sequence ${sequence}) ${task}`
    : `${kind} record (sequence ${sequence}) ${task}`;
}

/** Makes the error of a call that found damaged records and nothing intact. */
export function nothingIntactError(what: string, damaged: readonly CorruptRecord[]): CheckpointCorruptError {
  const [first] = damaged;
  const where = first && ` (the first at ${first.location}: ${first.reason})`;
  return new CheckpointCorruptError(
    `${what}: ${damaged.length} can't be read${where ?? ""}. They were left untouched; restore them from a backup, or remove the task.`,
    { cause: first?.cause },
  );
}

export function notFoundError(taskId: string, id?: string): CheckpointNotFoundError {
  const task = JSON.stringify(taskId);
  return id === undefined
    ? new CheckpointNotFoundError(
        `Task ${task} has no checkpoint. Nothing was changed. Check the id and the storage: \`manager.tasks()\` lists the tasks.`,
        { taskId },
      )
    : new CheckpointNotFoundError(
        `Task ${task} has no checkpoint ${JSON.stringify(id)}: it was never saved, or was removed. list() shows the task's checkpoints.`,
        { taskId, id },
      );
}
