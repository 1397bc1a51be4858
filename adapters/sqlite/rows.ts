import type { CorruptRecord } from "../../src/contract/adapter.js";
import type { SealedSummary } from "../../src/contract/checkpoint.js";
import * as sql from "../sql/rows.js";
import type { SqliteRow } from "./connection.js";

/** A checkpoint's columns, in the order that {@link sealedSummaryOf} takes them. */
export const COLUMNS = ["number", ...sql.COLUMNS].map((name) => `c.${name}`).join(", ");

export const BY_ID = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE task_id = ? AND id = ?`;

/** What a row of {@link COLUMNS} holds. The task is what the row was found by. Its seal isn't checked. */
export function sealedSummaryOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const [number, ...columns] = row;
  return sql.sealedSummaryOf(taskId, columns, () => locationOf(path, number));
}

/** Where a checkpoint's row is. */
export function locationOf(path: string, number: unknown): string {
  return `${path}, table waymark_checkpoints, number ${String(number)}`;
}
