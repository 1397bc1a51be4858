import { types } from "node:util";
import { type CheckpointQuery, matchesQuery, type TaskQuery } from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointSummary,
  type SealedSummary,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { checkSummary } from "../sql/damage.js";
import { BrokenHistoryError } from "../sql/history.js";
import { findTask, idRange, type Page, type PageRow, pageOfSummaries, type TaskFound } from "../sql/pages.js";
import { damagedRow, numberOr0, type SqlRow } from "../sql/rows.js";
import type { SqliteConnection } from "./connection.js";
import { isDamaged } from "./errors.js";
import type { SqliteHistories } from "./histories.js";
import { BY_ID, describeRow, parseRecordHeader, parseSealedSummary, SELECTED, selectRecord } from "./rows.js";

/** The limits are expressions, because SQLite would replan a statement with bare variables at each call. */
const PART = "LIMIT (? + 0) OFFSET (? + 0)";
const IN_RANGE = "c.task_id = ? AND c.sequence < ? AND c.sequence > ?";
const inOrder = (select: string) => ({
  newest: `${select} WHERE ${IN_RANGE} ORDER BY c.sequence DESC ${PART}`,
  oldest: `${select} WHERE ${IN_RANGE} ORDER BY c.sequence ${PART}`,
});
const SUMMARIES = inOrder(`SELECT ${SELECTED} FROM waymark_checkpoints c`);
const CHECKPOINTS = inOrder(
  `SELECT ${SELECTED}, p.form, p.body FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON p.number = c.number AND p.form = 0`,
);
const SUMMARY_AT = `SELECT ${SELECTED} FROM waymark_checkpoints c WHERE c.task_id = ? AND c.number = ?`;
const BODY = "SELECT form, body FROM waymark_payloads WHERE number = ? AND form = 0";
/** The fifth status is '', which marks tasks that have records only. */
const IN_TASKS = "newest_status IN (?, ?, ?, ?, ?) AND task_id >= ? AND task_id < ?";
const RECENT = `FROM waymark_tasks INDEXED BY waymark_tasks_by_recency WHERE ${IN_TASKS}`;
const TASK_IDS = {
  // The unary + makes SQLite use the primary key, which has the wanted order.
  taskId: `SELECT task_id FROM waymark_tasks WHERE +${IN_TASKS} ORDER BY task_id ${PART}`,
  // The index finds the minute of the last wanted task; only tasks from that minute on are sorted.
  recent: `SELECT task_id ${RECENT} AND newest_minute >= coalesce(
      (SELECT newest_minute ${RECENT} ORDER BY newest_minute DESC, task_id LIMIT 1 OFFSET (? + ? - 1)), '')
    ORDER BY newest_created_at DESC, task_id ${PART}`,
};
const TASK = `
  SELECT t.count, t.newest_sequence, t.last_sequence, t.due_at, t.removed_up_to,
    ${selectRecord("r")}, ${SELECTED} FROM waymark_tasks t
  LEFT JOIN waymark_records r ON r.task_id = t.task_id
    AND r.sequence = (SELECT max(sequence) FROM waymark_records WHERE task_id = t.task_id)
  LEFT JOIN waymark_checkpoints c ON c.task_id = t.task_id AND c.sequence = t.newest_sequence WHERE t.task_id = ?`;

/**
 * Numbers above and below every integer of SQLite. A damaged sequence may be any integer, and must be in the range to
 * be reported.
 */
const [ABOVE_ALL, BELOW_ALL] = [1e19, -1e19];
/** A page ends once it has this many bytes. */
const PAGE_BYTES = 256 * 1024;

interface ReaderParts {
  readonly database: SqliteConnection;
  readonly histories: SqliteHistories;
  readonly path: string;
}

/**
 * Reads Waymark's open database. Every method is synchronous and throws SQLite's errors unchanged. A damaged row, or a
 * row whose payload SQLite can't read, becomes a CorruptRecord, and the other rows are still returned.
 */
export class SqliteReader {
  readonly #parts: ReaderParts;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  get(taskId: string, id: string): StoredCheckpoint | CorruptRecord | undefined {
    // Uses `each` instead of `one`, so that the payload's pieces are read from the same snapshot as the row.
    for (const row of this.#parts.database.each(BY_ID, taskId, id)) return this.#parseCheckpoint(taskId, row);
    return undefined;
  }

  /** Reads the summary of the checkpoint with this number. */
  summaryAt(taskId: string, number: unknown): CheckpointSummary | CorruptRecord | undefined {
    const row = this.#parts.database.one(SUMMARY_AT, taskId, number);
    return row && this.#parseSummary(taskId, row);
  }

  /** Reads the checkpoint with this number. Call this in a transaction. */
  at(taskId: string, number: unknown): StoredCheckpoint | CorruptRecord | undefined {
    const row = this.#parts.database.one(SUMMARY_AT, taskId, number);
    return row && this.#parseCheckpoint(taskId, row);
  }

  summaries(query: CheckpointQuery, size: number): Page<CheckpointSummary> {
    const rows = this.#parts.database.all(SUMMARIES[query.order], ...toParameters(query, size));
    const last = rows[size - 1];
    const next = last && boundAfter(last, query);
    return pageOfSummaries(query, rows, (row) => this.#parseSummary(query.taskId, row), next);
  }

  /** Like {@link summaries}, but returns whole checkpoints, within a budget of bytes. */
  checkpoints(query: CheckpointQuery, size: number): Page<StoredCheckpoint> {
    const values = toParameters(query, size);
    try {
      return this.#page(query, size, this.#parts.database.each(CHECKPOINTS[query.order], ...values), (row) =>
        row.slice(-2),
      );
    } catch (error) {
      if (!isDamaged(error)) throw error;
      // SQLite doesn't report which payload it can't read, so each one is read separately.
      const rows = this.#parts.database.each(SUMMARIES[query.order], ...values);
      return this.#page(query, size, rows, ([number]) => this.#standaloneAt(number));
    }
  }

  taskIds(query: TaskQuery, limit: number, skip: number): readonly string[] {
    const { order, status = [...CHECKPOINT_STATUSES, ""] } = query;
    // The statement has five variables for statuses. An unused variable is NULL, which equals no status.
    const statuses = [...CHECKPOINT_STATUSES, ""].map((one) => (status.some((asked) => asked === one) ? one : null));
    const selected = [...statuses, ...idRange(query)];
    const part = [Math.min(limit, Number.MAX_SAFE_INTEGER - skip), skip];
    const values = order === "recent" ? [...selected, ...selected, ...part, ...part] : [...selected, ...part];
    const rows = this.#parts.database.all(TASK_IDS[order], ...values);
    return rows.map(([taskId]) => String(taskId));
  }

  tasks(taskIds: readonly string[]): readonly TaskFound[] {
    return taskIds.flatMap((taskId) =>
      findTask(taskId, this.#parts.database.one(TASK, taskId) ?? [], {
        locate: () => describeRow(this.#parts.path, "unknown"),
        readSummary: (columns) => this.#parseSummary(taskId, columns),
        readRecord: (columns) => parseRecordHeader(taskId, columns, this.#parts.path),
      }),
    );
  }

  #page(
    query: CheckpointQuery,
    size: number,
    rows: Iterable<SqlRow>,
    readStandalone: (row: SqlRow) => SqlRow,
  ): Page<StoredCheckpoint> {
    const entries: PageRow<StoredCheckpoint>[] = [];
    let [seen, bytes] = [0, 0];
    for (const row of rows) {
      const found = parseSealedSummary(query.taskId, row, this.#parts.path);
      seen += 1;
      bytes += isCorrupt(found) ? 0 : found.sizeBytes;
      if (isCorrupt(found)) entries.push({ key: row[0], found });
      else if (matchesQuery(found, query))
        entries.push({ key: row[0], found: this.#withBody(found, row, readStandalone(row)) });
      if (seen === size || bytes >= PAGE_BYTES) return { entries, next: boundAfter(row, query) };
    }
    return { entries, next: undefined };
  }

  #parseSummary(taskId: string, row: SqlRow): CheckpointSummary | CorruptRecord {
    return checkSummary(parseSealedSummary(taskId, row, this.#parts.path), () => describeRow(this.#parts.path, row[0]));
  }

  #parseCheckpoint(taskId: string, row: SqlRow): StoredCheckpoint | CorruptRecord {
    const found = parseSealedSummary(taskId, row, this.#parts.path);
    return isCorrupt(found) ? found : this.#withBody(found, row, this.#standaloneAt(row[0]));
  }

  #standaloneAt(number: unknown): SqlRow {
    return this.#parts.database.one(BODY, number) ?? [];
  }

  /** @param standalone - The payload's form and body if it is stored standalone. */
  #withBody(summary: SealedSummary, row: SqlRow, [form, body]: SqlRow): StoredCheckpoint | CorruptRecord {
    try {
      const value = typeof form === "number" ? body : this.#parts.histories.readText(numberOr0(row[0]), summary);
      // The driver returns a Buffer, and callers get a plain Uint8Array.
      const its = types.isUint8Array(value) ? new Uint8Array(value.buffer, value.byteOffset, value.length) : value;
      if (typeof its !== "string" && !types.isUint8Array(its)) {
        return damagedRow(describeRow(this.#parts.path, row[0]), summary, "its payload is missing");
      }
      return { ...summary, payload: { ...summary.payload, body: its } };
    } catch (error) {
      if (!isDamaged(error) && !(error instanceof BrokenHistoryError)) throw error;
      const reason = error instanceof BrokenHistoryError ? error.message : "SQLite can't read its payload";
      return damagedRow(describeRow(this.#parts.path, row[0]), summary, reason, error);
    }
  }
}

/**
 * Returns the sequence of the row, after which the next page begins.
 *
 * @throws {CheckpointCorruptError} The sequence isn't beyond the start of the page: a damaged index may return the same
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

function toParameters(query: CheckpointQuery, size: number): readonly unknown[] {
  const { taskId, beforeSequence = ABOVE_ALL, afterSequence = BELOW_ALL, skip = 0 } = query;
  return [taskId, beforeSequence, afterSequence, size, skip];
}
