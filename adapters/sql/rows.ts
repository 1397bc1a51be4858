import {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointSummary,
  type JsonValue,
  type SealedSummary,
  SUMMARY_FIELDS,
} from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { parseSummary } from "../../src/contract/parse-summary.js";
import { findDueTime } from "../../src/contract/transient.js";

/** One row, with its values in the order of the statement's columns. */
export type SqlRow = readonly unknown[];

const DRAFT_FIELDS = SUMMARY_FIELDS.filter((field) => field !== "taskId" && field !== "sequence");

/** A checkpoint's columns except `task_id`, in the order of {@link parseSealedSummary} and {@link listColumns}. */
export const COLUMNS: readonly string[] = [
  "sequence",
  ...DRAFT_FIELDS.map((field) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)),
  ...["encoding", "sha256", "seal"],
];

/** Lists a new checkpoint's values for all columns between `sequence` and `seal`. */
export function listColumns(draft: CheckpointDraft): readonly unknown[] {
  const { encoding, sha256 } = draft.payload;
  const described = DRAFT_FIELDS.map((field) => {
    const value = draft[field];
    return typeof value === "object" ? toJson(value) : value;
  });
  return [...described, encoding, sha256];
}

/**
 * Parses the summary in a row of {@link COLUMNS}. The seal isn't checked.
 *
 * @param locate - Returns the row's place. Called if the row is damaged.
 * @param first - The index of the first of these columns. Default: 0.
 */
export function parseSealedSummary(
  taskId: string,
  row: SqlRow,
  locate: () => string,
  first = 0,
): SealedSummary | CorruptRecord {
  const fields: Record<string, unknown> = { taskId, sequence: row[first] };
  let at = first + 1;
  for (const field of DRAFT_FIELDS) {
    fields[field] = isJson(field) ? parseJson(row[at]) : row[at];
    at += 1;
  }
  const found = parseSummary({ ...fields, encoding: row[at], sha256: row[at + 1], seal: row[at + 2] });
  if (typeof found !== "string") return found;
  return damagedRow(locate(), { taskId, id: row[first + 1], sequence: row[first] }, found);
}

function isJson(field: keyof CheckpointDraft): boolean {
  return field === "metadata" || field === "error";
}

/** Makes the CorruptRecord for a checkpoint of which at least a part can't be read. */
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

/** The end of a prefix range. Every task id that starts with `prefix` sorts before `prefix + HIGHEST`. */
export const HIGHEST = "\u{10ffff}".repeat(257);

/** Returns a column's value if it is a number, else 0. */
export function numberOr0(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

export function toJson(value: object | undefined): string | undefined {
  return value && JSON.stringify(value);
}

/** Parses a JSON column. If that fails, returns `false`, which isn't a valid value of any column. */
function parseJson(json: unknown): JsonValue {
  try {
    // `JSON.parse` always returns a JsonValue.
    return json === null ? null : (JSON.parse(String(json)) as JsonValue);
  } catch {
    return false;
  }
}

/**
 * Returns the value of a task's column `due_at`: `findDueTime` of its newest checkpoint. A running task keeps an
 * earlier time, so that it keeps its place among the due tasks, and its many saves don't change an index.
 *
 * @param current - The column's current value.
 */
export function nextDueAt(
  newest: Pick<CheckpointSummary, "status" | "createdAt" | "dueAt">,
  current: unknown,
): string | null {
  const dueAt = findDueTime(newest) ?? null;
  const isKept = newest.status === "running" && dueAt !== null && typeof current === "string" && current <= dueAt;
  return isKept ? current : dueAt;
}

/**
 * Like {@link nextDueAt}, but takes the columns `created_at`, `status` and `due_at` of the newest checkpoint. Returns
 * `null` if there is no checkpoint, or if the columns are damaged.
 */
export function nextDueAtIn([createdAt, status, dueAt]: SqlRow, current: unknown): string | null {
  const known = CHECKPOINT_STATUSES.find((one) => one === status);
  if (known === undefined || typeof createdAt !== "string") return null;
  return nextDueAt({ createdAt, status: known, ...(typeof dueAt === "string" && { dueAt }) }, current);
}

/** Converts a digest to bytes, which take half the space of its text in a column. */
export function parseHex(hex: string): Buffer {
  return Buffer.from(hex, "hex");
}
