import { types } from "node:util";
import {
  type CheckpointQuery,
  type CorruptRecord,
  isCorrupt,
  matchesQuery,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointSummary,
  type SealedSummary,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { checkedSummary } from "../sql/damage.js";
import { BrokenHistoryError, loneBody } from "../sql/history.js";
import { idRange, missingNewest, type Page, type PageRow, type TaskFound } from "../sql/pages.js";
import { damagedRow, numberOr0, type SqlRow } from "../sql/rows.js";
import type { SqliteConnection } from "./connection.js";
import { isDamaged } from "./errors.js";
import type { SqliteHistories } from "./histories.js";
import { BY_ID, COLUMNS, locationOf, sealedSummaryOf } from "./rows.js";

/**
 * The limits are expressions, because SQLite would plan the statement again at each call if they were bare variables.
 */
const PART = "LIMIT (? + 0) OFFSET (? + 0)";
const IN_RANGE = "c.task_id = ? AND c.sequence < ? AND c.sequence > ?";
const inOrder = (select: string) => ({
  newest: `${select} WHERE ${IN_RANGE} ORDER BY c.sequence DESC ${PART}`,
  oldest: `${select} WHERE ${IN_RANGE} ORDER BY c.sequence ${PART}`,
});
const SUMMARIES = inOrder(`SELECT ${COLUMNS} FROM waymark_checkpoints c`);
const CHECKPOINTS = inOrder(
  `SELECT ${COLUMNS}, p.form, p.body FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON p.number = c.number AND p.form <= 0`,
);
const SUMMARY_AT = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE c.task_id = ? AND c.number = ?`;
const BODY = "SELECT form, body FROM waymark_payloads WHERE number = ? AND form <= 0";
/** The fifth status is '' for tasks that have records only. */
const IN_TASKS = "newest_status IN (?, ?, ?, ?, ?) AND task_id >= ? AND task_id < ?";
const TASK_IDS = {
  // The unary + makes SQLite use the primary key, which has the wanted order.
  taskId: `SELECT task_id FROM waymark_tasks WHERE +${IN_TASKS} ORDER BY task_id ${PART}`,
  recent: `SELECT task_id FROM waymark_tasks INDEXED BY waymark_tasks_by_recency WHERE ${IN_TASKS}
    ORDER BY newest_created_at DESC, task_id ${PART}`,
};
const TASK = `
  SELECT t.count, t.newest_sequence, t.due_at, t.removed_up_to,
    (SELECT max(sequence) FROM waymark_records WHERE task_id = t.task_id), ${COLUMNS} FROM waymark_tasks t
  LEFT JOIN waymark_checkpoints c ON c.task_id = t.task_id AND c.sequence = t.newest_sequence WHERE t.task_id = ?`;

/**
 * Numbers above and below every integer of SQLite. A damaged sequence may be any integer, and must be in the range to
 * be reported.
 */
const [ABOVE_ALL, BELOW_ALL] = [1e19, -1e19];
const PAGE_BYTES = 256 * 1024;

/**
 * Reads Waymark's open database. Every method is synchronous and lets SQLite's errors through. A damaged row, or a row
 * whose payload SQLite can't read, becomes a CorruptRecord, and the other rows are still returned.
 */
export class SqliteReader {
  readonly #database: SqliteConnection;
  readonly #histories: SqliteHistories;
  readonly #path: string;

  constructor(database: SqliteConnection, histories: SqliteHistories, path: string) {
    this.#database = database;
    this.#histories = histories;
    this.#path = path;
  }

  get(taskId: string, id: string): StoredCheckpoint | CorruptRecord | undefined {
    // This uses `each` instead of `one`, so that the payload's pieces are read at the same moment as the row.
    for (const row of this.#database.each(BY_ID, taskId, id)) return this.#wholeOf(taskId, row);
    return undefined;
  }

  /** The summary of the checkpoint with this number. */
  summaryAt(taskId: string, number: unknown): CheckpointSummary | CorruptRecord | undefined {
    const row = this.#database.one(SUMMARY_AT, taskId, number);
    return row && this.#summaryOf(taskId, row);
  }

  /** The checkpoint with this number. Call it in a transaction. */
  at(taskId: string, number: unknown): StoredCheckpoint | CorruptRecord | undefined {
    const row = this.#database.one(SUMMARY_AT, taskId, number);
    return row && this.#wholeOf(taskId, row);
  }

  summaries(query: CheckpointQuery, size: number): Page<CheckpointSummary> {
    const rows = this.#database.all(SUMMARIES[query.order], ...valuesOf(query, size));
    const entries = rows.map((row) => ({ key: row[0], found: this.#summaryOf(query.taskId, row) }));
    const last = rows[size - 1];
    return { entries: entries.filter(({ found }) => isAskedFor(found, query)), next: last && boundAfter(last, query) };
  }

  /** Like {@link summaries}, for whole checkpoints, within a budget of bytes. */
  checkpoints(query: CheckpointQuery, size: number): Page<StoredCheckpoint> {
    const values = valuesOf(query, size);
    try {
      return this.#page(query, size, this.#database.each(CHECKPOINTS[query.order], ...values), (row) => row.slice(-2));
    } catch (error) {
      if (!isDamaged(error)) throw error;
      // SQLite doesn't say which payload it can't read, so each is read by itself.
      const rows = this.#database.each(SUMMARIES[query.order], ...values);
      return this.#page(query, size, rows, ([number]) => this.#aloneAt(number));
    }
  }

  taskIds(query: TaskQuery, limit: number, skip: number): readonly string[] {
    const { order, status = [...CHECKPOINT_STATUSES, ""] } = query;
    // The statement has five variables for statuses. An unused one is NULL, which equals no status.
    const statuses = [...CHECKPOINT_STATUSES, ""].map((one) => (status.some((asked) => asked === one) ? one : null));
    // A negative limit means no limit.
    const part = [Number.isFinite(limit) ? limit : -1, skip];
    const rows = this.#database.all(TASK_IDS[order], ...statuses, ...idRange(query), ...part);
    return rows.map(([taskId]) => String(taskId));
  }

  tasks(taskIds: readonly string[]): readonly TaskFound[] {
    return taskIds.flatMap((taskId) => {
      const [count, sequence, dueAt, removedUpTo, lastSequence, ...row] = this.#database.one(TASK, taskId) ?? [];
      const newestSequence = numberOr0(sequence);
      if (newestSequence === 0 && lastSequence === null) return [];
      const newest = row[0] === null ? undefined : this.#summaryOf(taskId, row);
      const missing = missingNewest(locationOf(this.#path, "unknown"), taskId, newestSequence);
      const last = numberOr0(lastSequence) > newestSequence ? this.#readRecord(taskId, lastSequence) : undefined;
      return {
        taskId,
        count: numberOr0(count),
        newestSequence,
        ...(newestSequence > 0 && { newest: newest ?? missing }),
        ...(last && !isCorrupt(last) && { last }),
        ...(typeof dueAt === "string" && { dueAt }),
        ...(typeof removedUpTo === "number" && { removedUpTo }),
      };
    });
  }

  #page(
    query: CheckpointQuery,
    size: number,
    rows: Iterable<SqlRow>,
    aloneIn: (row: SqlRow) => SqlRow,
  ): Page<StoredCheckpoint> {
    const entries: PageRow<StoredCheckpoint>[] = [];
    let [seen, bytes] = [0, 0];
    for (const row of rows) {
      const found = sealedSummaryOf(query.taskId, row, this.#path);
      seen += 1;
      bytes += isCorrupt(found) ? 0 : found.sizeBytes;
      if (isCorrupt(found)) entries.push({ key: row[0], found });
      else if (matchesQuery(found, query))
        entries.push({ key: row[0], found: this.#withBody(found, row, aloneIn(row)) });
      if (seen === size || bytes >= PAGE_BYTES) return { entries, next: boundAfter(row, query) };
    }
    return { entries, next: undefined };
  }

  #summaryOf(taskId: string, row: SqlRow): CheckpointSummary | CorruptRecord {
    return checkedSummary(sealedSummaryOf(taskId, row, this.#path), () => locationOf(this.#path, row[0]));
  }

  #wholeOf(taskId: string, row: SqlRow): StoredCheckpoint | CorruptRecord {
    const found = sealedSummaryOf(taskId, row, this.#path);
    return isCorrupt(found) ? found : this.#withBody(found, row, this.#aloneAt(row[0]));
  }

  #aloneAt(number: unknown): SqlRow {
    return this.#database.one(BODY, number) ?? [];
  }

  /** @param alone - The form and the body, if the payload is stored alone. */
  #withBody(summary: SealedSummary, row: SqlRow, [form, body]: SqlRow): StoredCheckpoint | CorruptRecord {
    try {
      const value =
        typeof form === "number"
          ? loneBody({ form, body }, summary.sizeBytes)
          : this.#histories.textOf(numberOr0(row[0]), summary);
      // The driver returns a Buffer, and callers get a plain Uint8Array.
      const its = types.isUint8Array(value) ? new Uint8Array(value.buffer, value.byteOffset, value.length) : value;
      if (typeof its !== "string" && !types.isUint8Array(its)) {
        return damagedRow(locationOf(this.#path, row[0]), summary, "its payload is missing");
      }
      return { ...summary, payload: { ...summary.payload, body: its } };
    } catch (error) {
      if (!isDamaged(error) && !(error instanceof BrokenHistoryError)) throw error;
      const reason = error instanceof BrokenHistoryError ? error.message : "SQLite can't read its payload";
      return damagedRow(locationOf(this.#path, row[0]), summary, reason, error);
    }
  }
}

/**
 * The sequence of the row. The next page begins after it.
 *
 * @throws {CheckpointCorruptError} The sequence isn't beyond the start of the page. A damaged index may give the same
 *   rows forever.
 */
function boundAfter(row: SqlRow, { taskId, order, beforeSequence, afterSequence }: CheckpointQuery): number {
  const sequence = numberOr0(row[1]);
  if (order === "newest" ? sequence < (beforeSequence ?? ABOVE_ALL) : sequence > (afterSequence ?? BELOW_ALL)) {
    return sequence;
  }
  const what = `The checkpoints of task ${JSON.stringify(taskId)} are out of order, so the rest can't be found.`;
  throw new CheckpointCorruptError(`${what} They were left untouched; \`waymark verify\` shows the damage.`);
}

function valuesOf(query: CheckpointQuery, size: number): readonly unknown[] {
  const { taskId, beforeSequence = ABOVE_ALL, afterSequence = BELOW_ALL, skip = 0 } = query;
  return [taskId, beforeSequence, afterSequence, size, skip];
}

function isAskedFor(found: CheckpointSummary | CorruptRecord, query: CheckpointQuery): boolean {
  return isCorrupt(found) || matchesQuery(found, query);
}
