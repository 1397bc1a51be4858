import type { CorruptRecord } from "../../src/contract/adapter.js";
import type { JsonValue, SealedSummary } from "../../src/contract/checkpoint.js";
import { parseSummary } from "../../src/contract/parse-summary.js";
import type { SqliteRow } from "./connection.js";

/** A checkpoint's columns, in the order that {@link sealedSummaryOf} takes them. */
export const COLUMNS =
  "c.number, c.sequence, c.id, c.created_at, c.stage, c.label, c.parent_id, c.metadata, c.status, c.error, " +
  "c.state_version, c.size_bytes, c.encoding, c.sha256, c.seal";

export const BY_ID = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE task_id = ? AND id = ?`;

/** What a row of {@link COLUMNS} holds. The task is what the row was found by. Its seal isn't checked. */
export function sealedSummaryOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const [number, sequence, id, createdAt, stage, label, parentId, metadata, status, error, ...rest] = row;
  const [stateVersion, sizeBytes, encoding, sha256, seal] = rest;
  const described = { createdAt, stage, label, parentId, metadata: parsed(metadata), status, error: parsed(error) };
  const found = parseSummary({ taskId, id, sequence, ...described, stateVersion, sizeBytes, encoding, sha256, seal });
  if (typeof found !== "string") return found;
  return damagedRow(path, number, { taskId, id, sequence }, found);
}

/** Stands for a checkpoint that can't be read, wholly or in part. */
export function damagedRow(
  path: string,
  number: unknown,
  { taskId, id, sequence }: { readonly taskId: string; readonly id?: unknown; readonly sequence?: unknown },
  reason: string,
  cause?: unknown,
): CorruptRecord {
  return {
    corrupt: true,
    location: `${path}, table waymark_checkpoints, number ${String(number)}`,
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

/** The value that JSON holds; `false`, which no column holds, if it can't be parsed. */
function parsed(json: unknown): JsonValue {
  try {
    // What JSON.parse gives is, by its definition, a JsonValue.
    return json === null ? null : (JSON.parse(String(json)) as JsonValue);
  } catch {
    return false;
  }
}
