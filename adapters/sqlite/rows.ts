import type { CorruptRecord } from "../../src/contract/adapter.js";
import type { SealedSummary } from "../../src/contract/checkpoint.js";
import * as sql from "../sql/rows.js";

/** A checkpoint's columns, in the order that {@link sealedSummaryOf} takes them. */
export const COLUMNS = ["number", ...sql.COLUMNS].map((name) => `c.${name}`).join(", ");

/** Where a row of them has the seal, after the payload's digest. */
const SEAL = sql.COLUMNS.indexOf("seal") + 1;

export const BY_ID = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE task_id = ? AND id = ?`;

/** The summary that a row of {@link COLUMNS} holds. `taskId` is the one searched for. The seal isn't checked. */
export function sealedSummaryOf(taskId: string, row: sql.SqlRow, path: string): SealedSummary | CorruptRecord {
  const [number, ...columns] = row.slice(0, SEAL + 1);
  const [sha256, seal] = [hexOf(row[SEAL - 1]), hexOf(row[SEAL])];
  return sql.sealedSummaryOf(taskId, [...columns.slice(0, -2), sha256, seal], () => locationOf(path, number));
}

/** A digest as a row holds it: half of its text's size. */
export function digestBytes(hex: string): Buffer {
  return Buffer.from(hex, "hex");
}

/** A digest as text. A value that isn't bytes is damaged, and stays as it is. */
export function hexOf(column: unknown): unknown {
  return column instanceof Uint8Array
    ? Buffer.from(column.buffer, column.byteOffset, column.length).toString("hex")
    : column;
}

/** Where a checkpoint's row is. */
export function locationOf(path: string, number: unknown): string {
  return `${path}, table waymark_checkpoints, number ${String(number)}`;
}
