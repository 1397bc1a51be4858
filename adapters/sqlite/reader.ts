import {
  type CheckpointQuery,
  type CorruptRecord,
  isCorrupt,
  matchesQuery,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointStatus,
  type CheckpointSummary,
  type SealedSummary,
  type StoredCheckpoint,
  summaryOf,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteRow } from "./driver.js";
import { isDamaged } from "./errors.js";
import { bodyOf, COLUMNS, checkedSummaryOf, damagedRow, numberOr0, sealedSummaryOf } from "./rows.js";
import { rangeOf } from "./task-range.js";

const IN_RANGE = "c.task_id = ? AND c.sequence < ? AND c.sequence > ?";
/** As expressions: for a bare variable SQLite plans the statement again at each call. */
const PART = "LIMIT (? + 0) OFFSET (? + 0)";
const SUMMARIES = inBothOrders(COLUMNS, "waymark_checkpoints c");
/** What the index alone says. It may be whole where the table is not. */
const ENTRIES = inBothOrders(
  "c.number, c.sequence",
  "waymark_checkpoints c INDEXED BY waymark_checkpoints_by_sequence",
);
const SUMMARY_BY_ID = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE c.task_id = ? AND c.id = ?`;
const SUMMARY_AT = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE c.task_id = ? AND c.number = ?`;
const NUMBER_BY_ID = "SELECT number FROM waymark_checkpoints WHERE task_id = ? AND id = ?";
const BODY = "SELECT body FROM waymark_payloads WHERE number = ?";
const TASK_IDS = {
  // Unary +: by the primary key, which is in order.
  taskId: `SELECT task_id FROM waymark_tasks WHERE +newest_status IN (?, ?, ?, ?) AND task_id >= ? AND task_id < ?
    ORDER BY task_id ${PART}`,
  recent: `SELECT task_id FROM waymark_tasks INDEXED BY waymark_tasks_by_recency
    WHERE newest_status IN (?, ?, ?, ?) AND task_id >= ? AND task_id < ?
    ORDER BY newest_created_at DESC, task_id ${PART}`,
};
/** LEFT: a newest checkpoint that isn't there is damage. */
const TASK = `
  SELECT t.count, t.newest_sequence, ${COLUMNS} FROM waymark_tasks t
  LEFT JOIN waymark_checkpoints c ON c.task_id = t.task_id AND c.sequence = t.newest_sequence WHERE t.task_id = ?`;

const TASK_ROW = "SELECT count, newest_sequence FROM waymark_tasks WHERE task_id = ?";

/** Above and below every integer of SQLite's: a damaged sequence may be any of them, and is reported. */
const ABOVE_ALL = 1e19;
const BELOW_ALL = -ABOVE_ALL;
const PAGE_BYTES = 256 * 1024;
const UNREADABLE = "SQLite can't read it";
const MISSING = "its task has it as the newest, and it isn't there";

/** What was found at a number: what it holds, or why that can't be read. */
export interface Entry<Found> {
  readonly number: unknown;
  readonly found: Found | CorruptRecord;
}

/** Some of a longer answer. `next`: the sequence that the rest comes after, in the query's order, if there may be one. */
export interface Page<Found> {
  readonly entries: readonly Entry<Found>[];
  readonly next: number | undefined;
}

/**
 * What is read of an open database of ours. Nothing here changes it, and every method is synchronous. Where a row is
 * damaged, a CorruptRecord stands for it and the others are read. They throw what SQLite throws otherwise.
 */
export class SqliteReader {
  readonly #database: SqliteConnection;
  readonly #path: string;

  constructor(database: SqliteConnection, path: string) {
    this.#database = database;
    this.#path = path;
  }

  get(taskId: string, id: string): StoredCheckpoint | CorruptRecord | undefined {
    try {
      return this.#database.atOneMoment(() => {
        const row = this.#database.one(SUMMARY_BY_ID, taskId, id);
        return row && this.#whole(sealedSummaryOf(taskId, row, this.#path), row[0]);
      });
    } catch (error) {
      if (!isDamaged(error)) throw error;
      const [number] = this.#database.one(NUMBER_BY_ID, taskId, id) ?? [];
      return damagedRow(this.#path, number, { taskId, id }, UNREADABLE, error);
    }
  }

  /** What that number holds, whole; `undefined` where the task has no such row. For use in a transaction. */
  at(taskId: string, number: unknown): Entry<StoredCheckpoint> | undefined {
    const row = this.#database.one(SUMMARY_AT, taskId, number);
    return row && { number, found: this.#whole(sealedSummaryOf(taskId, row, this.#path), number) };
  }

  /** At most `size` summaries that the query asks for. */
  summaries(query: CheckpointQuery, size: number): Page<CheckpointSummary> {
    const { rows, next } = this.#rows(query, size);
    const found = rows.map(({ number, row }) => ({
      number,
      found: isCorrupt(row) ? row : summaryOrCorrupt(checkedSummaryOf(query.taskId, row, this.#path)),
    }));
    return { entries: found.filter((entry) => isAskedFor(entry.found, query)), next };
  }

  /** At most `size` whole checkpoints that the query asks for, and no more of them than a budget of bytes holds. */
  checkpoints(query: CheckpointQuery, size: number): Page<StoredCheckpoint> {
    return this.#database.atOneMoment(() => this.#checkpoints(query, size));
  }

  #checkpoints(query: CheckpointQuery, size: number): Page<StoredCheckpoint> {
    const { rows, next } = this.#rows(query, size);
    const entries: Entry<StoredCheckpoint>[] = [];
    let bytes = 0;
    for (const { number, sequence, row } of rows) {
      const summary = isCorrupt(row) ? row : sealedSummaryOf(query.taskId, row, this.#path);
      if (!isAskedFor(summary, query)) continue;
      const found = this.#whole(summary, number);
      entries.push({ number, found });
      bytes += isCorrupt(found) ? 0 : found.sizeBytes;
      if (bytes >= PAGE_BYTES) return { entries, next: boundAfter(sequence, query) };
    }
    return { entries, next };
  }

  /** Ids of tasks that the query asks for by what their rows say. */
  taskIds(query: TaskQuery, limit: number, skip: number): readonly string[] {
    const { order, status = CHECKPOINT_STATUSES } = query;
    const { from, below } = rangeOf(query);
    // Four places, and nothing equals NULL.
    const statuses = CHECKPOINT_STATUSES.map((one) => (status.includes(one) ? one : null));
    // A negative limit is none.
    const rows = this.#database.all(
      TASK_IDS[order],
      ...statuses,
      from,
      below,
      Number.isFinite(limit) ? limit : -1,
      skip,
    );
    return rows.map(([taskId]) => String(taskId));
  }

  /** The task, if its newest checkpoint has any of the statuses; before it what can't be read of its newest ones. */
  task(taskId: string, statuses: readonly CheckpointStatus[]): readonly (TaskSummary | CorruptRecord)[] {
    const [count, newestSequence, ...row] = this.#taskRow(taskId);
    if (typeof newestSequence !== "number") return [];
    const isThere = row[0] !== null;
    const first = isThere && row.length > 0 ? checkedSummaryOf(taskId, row, this.#path) : undefined;
    if (first !== undefined && !isCorrupt(first)) {
      return statuses.includes(first.status) ? [{ taskId, count: numberOr0(count), newest: summaryOf(first) }] : [];
    }
    const damaged: CorruptRecord[] = [];
    if (!isThere) damaged.push(damagedRow(this.#path, "unknown", { taskId, sequence: newestSequence }, MISSING));
    let beforeSequence: number | undefined;
    do {
      const { entries, next } = this.summaries({ taskId, order: "newest", beforeSequence }, 16);
      for (const { found } of entries) {
        if (isCorrupt(found)) damaged.push(found);
        else if (!statuses.includes(found.status)) return damaged;
        else return [...damaged, { taskId, count: numberOr0(count), newest: found }];
      }
      beforeSequence = next;
    } while (beforeSequence !== undefined);
    return damaged;
  }

  #taskRow(taskId: string): SqliteRow {
    try {
      return this.#database.one(TASK, taskId) ?? [];
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return this.#database.one(TASK_ROW, taskId) ?? [];
    }
  }

  /** The rows of a page. Where SQLite can't read one of them, they come one at a time, and the damaged one as such. */
  #rows(query: CheckpointQuery, size: number): { readonly rows: readonly Row[]; readonly next: number | undefined } {
    const { taskId, order, beforeSequence = ABOVE_ALL, afterSequence = BELOW_ALL, skip = 0 } = query;
    const range = [taskId, beforeSequence, afterSequence, size, skip];
    const page = (rows: readonly Row[]) => {
      const last = rows.at(-1);
      return { rows, next: last === undefined || rows.length < size ? undefined : boundAfter(last.sequence, query) };
    };
    try {
      const rows = this.#database.all(SUMMARIES[order], ...range);
      return page(rows.map((row) => ({ number: row[0], sequence: numberOr0(row[1]), row })));
    } catch (error) {
      if (!isDamaged(error)) throw error;
      if (size > 1) return this.#rows(query, 1);
      const entries = this.#database.all(ENTRIES[order], ...range);
      const damaged = entries.map(([number, sequence]): Row => {
        const known = { taskId, sequence: numberOr0(sequence) };
        return { number, sequence: known.sequence, row: damagedRow(this.#path, number, known, UNREADABLE, error) };
      });
      return page(damaged);
    }
  }

  #whole(summary: SealedSummary | CorruptRecord, number: unknown): StoredCheckpoint | CorruptRecord {
    if (isCorrupt(summary)) return summary;
    try {
      const body = bodyOf(this.#database.one(BODY, number)?.[0]);
      if (body === undefined) return damagedRow(this.#path, number, summary, "its payload is missing");
      return { ...summary, payload: { ...summary.payload, body } };
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return damagedRow(this.#path, number, summary, UNREADABLE, error);
    }
  }
}

/** One row of waymark_checkpoints, or what stands for it. */
interface Row {
  readonly number: unknown;
  readonly sequence: number;
  readonly row: SqliteRow | CorruptRecord;
}

/**
 * The sequence that the rest comes after.
 *
 * @throws {CheckpointCorruptError} It isn't further on than the page began: a damaged index may give the same forever.
 */
function boundAfter(sequence: number, query: CheckpointQuery): number | undefined {
  const isNewestFirst = query.order === "newest";
  const [least, most] = [Number.MIN_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER + 1];
  if (isNewestFirst ? sequence <= least : sequence >= most) return undefined;
  // Damaged sequences that JavaScript can't tell apart count as one.
  const bound = Math.max(least, Math.min(sequence, most));
  const isFurther = isNewestFirst
    ? bound < (query.beforeSequence ?? ABOVE_ALL)
    : bound > (query.afterSequence ?? BELOW_ALL);
  if (isFurther) return bound;
  throw new CheckpointCorruptError(
    `The checkpoints of task ${JSON.stringify(query.taskId)} are out of order, so those that follow can't be found. ` +
      "They were left untouched; `waymark verify` shows what is wrong with the database.",
  );
}

function summaryOrCorrupt(found: SealedSummary | CorruptRecord): CheckpointSummary | CorruptRecord {
  return isCorrupt(found) ? found : summaryOf(found);
}

/** What can't be read is always reported. */
function isAskedFor(found: CheckpointSummary | CorruptRecord, query: CheckpointQuery): boolean {
  return isCorrupt(found) || matchesQuery(found, query);
}

function inBothOrders(columns: string, table: string): Readonly<Record<CheckpointQuery["order"], string>> {
  const sql = (direction: string) =>
    `SELECT ${columns} FROM ${table} WHERE ${IN_RANGE} ORDER BY c.sequence ${direction} ${PART}`;
  return { newest: sql("DESC"), oldest: sql("ASC") };
}
