import type { CorruptRecord } from "../../src/contract/adapter.js";
import type { CheckpointDraft, JsonValue, SealedSummary } from "../../src/contract/checkpoint.js";
import { parseSummary } from "../../src/contract/parse-summary.js";

/** One row, its values in the order of the statement's columns. */
export type SqlRow = readonly unknown[];

/** A checkpoint's columns beside `task_id`, in the order that {@link sealedSummaryOf} takes and {@link columnsOf} gives them. */
export const COLUMNS = [
  "sequence",
  "id",
  "created_at",
  "stage",
  "label",
  "parent_id",
  "metadata",
  "status",
  "error",
  "state_version",
  "size_bytes",
  "encoding",
  "sha256",
  "seal",
] as const;

/** A new checkpoint's values for all columns between `sequence` and `seal`. */
export function columnsOf(draft: CheckpointDraft): readonly unknown[] {
  const { id, createdAt, stage, label, parentId, metadata, status, error, stateVersion, sizeBytes, payload } = draft;
  const described = [id, createdAt, stage, label, parentId, jsonOf(metadata), status, jsonOf(error)];
  return [...described, stateVersion, sizeBytes, payload.encoding, payload.sha256];
}

/**
 * The summary that a row of {@link COLUMNS} holds. `taskId` is the one that was searched for. The seal isn't checked.
 *
 * @param locate - Says where the row is, if it is damaged.
 */
export function sealedSummaryOf(taskId: string, row: SqlRow, locate: () => string): SealedSummary | CorruptRecord {
  const [sequence, id, createdAt, stage, label, parentId, metadata, status, error, ...rest] = row;
  const [stateVersion, sizeBytes, encoding, sha256, seal] = rest;
  const described = { createdAt, stage, label, parentId, metadata: parsed(metadata), status, error: parsed(error) };
  const found = parseSummary({ taskId, id, sequence, ...described, stateVersion, sizeBytes, encoding, sha256, seal });
  return typeof found === "string" ? damagedRow(locate(), { taskId, id, sequence }, found) : found;
}

/** Stands for a checkpoint that can't be read, wholly or in part. */
export function damagedRow(
  location: string,
  { taskId, id, sequence }: { readonly taskId: string; readonly id?: unknown; readonly sequence?: unknown },
  reason: string,
  cause?: unknown,
): CorruptRecord {
  return {
    corrupt: true,
    location,
    reason,
    taskId,
    ...(typeof id === "string" ? { id } : undefined),
    ...(Number.isSafeInteger(sequence) && numberOr0(sequence) > 0 ? { sequence: numberOr0(sequence) } : undefined),
    ...(cause === undefined ? undefined : { cause }),
  };
}

/** Every text that begins with a prefix is below the prefix and this: 257 times the highest character. */
export const HIGHEST = "\u{10ffff}".repeat(257);

/** A number that a row holds; 0 if it holds none. */
export function numberOr0(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** For a column of JSON. */
export function jsonOf(value: object | undefined): string | undefined {
  return value && JSON.stringify(value);
}

/** The value that JSON holds; `false`, which no column holds, if it can't be parsed. */
function parsed(json: unknown): JsonValue {
  try {
    // JSON.parse returns a JsonValue, by its definition.
    return json === null ? null : (JSON.parse(String(json)) as JsonValue);
  } catch {
    return false;
  }
}
