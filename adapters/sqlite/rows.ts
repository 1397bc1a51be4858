import { types } from "node:util";
import type { SealedSummary } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import type { RecordHeader } from "../../src/contract/log.js";
import * as records from "../sql/records.js";
import * as sql from "../sql/rows.js";

/** The length of an ISO 8601 time up to its minute. */
export const MINUTE_LENGTH = "2026-01-01T00:00".length;

/** Returns the SQL for a task's column `newest_minute`. `createdAt` is an SQL expression. */
export function minuteOf(createdAt: string): string {
  return `substr(${createdAt}, 1, ${MINUTE_LENGTH})`;
}

/** A checkpoint's columns, in the order of {@link parseSealedSummary}. */
const COLUMN_NAMES = ["number", ...sql.COLUMNS].map((name) => `c.${name}`);
export const COLUMNS = COLUMN_NAMES.join(", ");
/** The selected columns that {@link parseSealedSummary} expects. */
export const SELECTED = withTexts(COLUMN_NAMES);

export const BY_ID = `SELECT ${SELECTED} FROM waymark_checkpoints c WHERE task_id = ? AND id = ?`;

/** Returns the selected columns of {@link records.RECORD_COLUMNS} that {@link parseRecord} expects. */
export function selectRecord(table: string): string {
  return withTexts(records.RECORD_COLUMNS.map((column) => `${table}.${column}`));
}

/** Selects the digests as text, because a Buffer for each would take longer than the rest of the row. */
function withTexts(columns: readonly string[]): string {
  return columns.map((name) => (/sha256$|seal$/.test(name) ? `lower(hex(${name}))` : name)).join(", ");
}

/** Parses the summary in a row of {@link SELECTED}. The seal isn't checked. */
export function parseSealedSummary(taskId: string, row: sql.SqlRow, path: string): SealedSummary | CorruptRecord {
  return sql.parseSealedSummary(taskId, row, () => describeRow(path, row[0]), 1);
}

/** Converts a digest's bytes to text. A damaged value, which isn't bytes, is returned unchanged. */
export function toHex(column: unknown): unknown {
  return types.isUint8Array(column)
    ? Buffer.from(column.buffer, column.byteOffset, column.length).toString("hex")
    : column;
}

/** Parses the header of the record in a row of {@link selectRecord}. The seal isn't checked. */
export function parseRecordHeader(taskId: string, row: sql.SqlRow, path: string): RecordHeader | CorruptRecord {
  return records.parseRecordHeader(taskId, row, () => describeRecord(path, taskId, row[0]));
}

/** Parses the record in a row of {@link selectRecord}. The seal isn't checked. */
export function parseRecord(taskId: string, row: sql.SqlRow, body: unknown, path: string) {
  return records.parseRecord(taskId, row, body, () => describeRecord(path, taskId, row[0]));
}

export function describeRecord(path: string, taskId: string, sequence: unknown): string {
  return `${path}, table waymark_records, task ${JSON.stringify(taskId)}, sequence ${String(sequence)}`;
}

export function describeRow(path: string, number: unknown): string {
  return `${path}, table waymark_checkpoints, number ${String(number)}`;
}
