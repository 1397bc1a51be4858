import { types } from "node:util";
import type { SealedSummary } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import type { RecordHeader } from "../../src/contract/log.js";
import * as records from "../sql/records.js";
import * as sql from "../sql/rows.js";

/** A checkpoint's columns, in the order of {@link parseSealedSummary}. */
export const COLUMNS = ["number", ...sql.COLUMNS].map((name) => `c.${name}`).join(", ");

/** The index of the seal in a row of {@link COLUMNS}. The payload's digest is before it. */
const SEAL = sql.COLUMNS.indexOf("seal") + 1;

export const BY_ID = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE task_id = ? AND id = ?`;

/** The summary in a row of {@link COLUMNS}. The seal isn't checked. */
export function parseSealedSummary(taskId: string, row: sql.SqlRow, path: string): SealedSummary | CorruptRecord {
  const [number, ...columns] = row.slice(0, SEAL + 1);
  const [sha256, seal] = [toHex(row[SEAL - 1]), toHex(row[SEAL])];
  return sql.parseSealedSummary(taskId, [...columns.slice(0, -2), sha256, seal], () => describeRow(path, number));
}

/** A digest's bytes as text. If the value isn't bytes, it is damaged, and is returned as it is. */
export function toHex(column: unknown): unknown {
  return types.isUint8Array(column)
    ? Buffer.from(column.buffer, column.byteOffset, column.length).toString("hex")
    : column;
}

/** The columns of {@link records.RECORD_COLUMNS}, the digests as text: a Buffer for each would take longer than the row. */
export function selectRecord(table: string): string {
  const named = records.RECORD_COLUMNS.map((column) => `${table}.${column}`);
  return named.map((name) => (/sha256$|seal$/.test(name) ? `lower(hex(${name}))` : name)).join(", ");
}

/** The header of the record in a row of {@link selectRecord}. The seal isn't checked. */
export function parseRecordHeader(taskId: string, row: sql.SqlRow, path: string): RecordHeader | CorruptRecord {
  return records.parseRecordHeader(taskId, row, () => describeRecord(path, taskId, row[0]));
}

/** The record in a row of {@link selectRecord}. The seal isn't checked. */
export function parseRecord(taskId: string, row: sql.SqlRow, body: unknown, path: string) {
  return records.parseRecord(taskId, row, body, () => describeRecord(path, taskId, row[0]));
}

export function describeRecord(path: string, taskId: string, sequence: unknown): string {
  return `${path}, table waymark_records, task ${JSON.stringify(taskId)}, sequence ${String(sequence)}`;
}

export function describeRow(path: string, number: unknown): string {
  return `${path}, table waymark_checkpoints, number ${String(number)}`;
}
