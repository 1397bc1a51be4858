import { type CheckpointQuery, type CorruptRecord, isCorrupt, matchesQuery } from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointStatus,
  type CheckpointSummary,
  type StoredCheckpoint,
  summaryOf,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { assertAbsent, assertNoneInRange } from "./absence.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteRow } from "./driver.js";
import { isDamaged } from "./errors.js";
import { damagedRow, numberOr0, sealedCheckpointOf, storedCheckpointOf } from "./rows.js";
import {
  CHECKPOINT_BY_ID,
  CHECKPOINTS,
  COUNT,
  ENTRIES,
  NUMBER_BY_ID,
  type Statements,
  SUMMARIES,
  TASK_IDS,
  TASKS,
} from "./statements.js";

/** Above and below every integer of SQLite's: a damaged sequence may be any of them, and is to be reported. */
const ABOVE_ALL = 1e19;
const BELOW_ALL = -ABOVE_ALL;
const SALVAGED_AT_ONCE = 16;
const LOST = "an index has the task, and none of its checkpoints is found by it";
const UNREADABLE = "SQLite can't read it";

/** Some of a longer answer, and where the next part begins, if there may be one. */
export interface Page<Item, Next> {
  readonly items: readonly (Item | CorruptRecord)[];
  readonly next: Next | undefined;
}

/** Ids from `from` on and below `below`, in the order of their UTF-8 bytes. */
export interface TaskRange {
  readonly from: string;
  readonly below: string | Uint8Array;
}

/** To SQLite, every text is below every blob. */
export const ABOVE_EVERY_TEXT: Uint8Array = Buffer.of(0);

/**
 * What is read of an open database of ours. Nothing here changes it, and every method is synchronous. Where a part of the
 * database is damaged, what is intact around it is read all the same. They throw what SQLite throws otherwise.
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
      const row = this.#database.one(CHECKPOINT_BY_ID, taskId, id);
      if (row !== undefined) return storedCheckpointOf(taskId, row, this.#path);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      const [number] = this.#database.one(NUMBER_BY_ID, taskId, id) ?? [];
      return damagedRow(this.#path, number, { taskId, id }, UNREADABLE, error);
    }
    assertAbsent(this.#database, this.#path, taskId);
    return undefined;
  }

  /** At most `size` summaries that the query asks for; `next` is the bound of the query to go on with. */
  summaries(query: CheckpointQuery, size: number): Page<CheckpointSummary, number> {
    return this.#page(query, size, SUMMARIES, (row) => {
      const found = sealedCheckpointOf(query.taskId, row, this.#path);
      return isCorrupt(found) ? found : summaryOf(found);
    });
  }

  /** The one checkpoint that the query asks for first, whole. */
  checkpoints(query: CheckpointQuery): Page<StoredCheckpoint, number> {
    return this.#page(query, 1, CHECKPOINTS, (row) => storedCheckpointOf(query.taskId, row, this.#path));
  }

  /** At most `size` tasks in range, by id, whose newest readable checkpoint has any of the statuses. */
  tasks(range: TaskRange, statuses: readonly CheckpointStatus[], size: number): Page<TaskSummary, string> {
    const items: (TaskSummary | CorruptRecord)[] = [];
    const add = (taskId: string, count: number, row: SqliteRow) => {
      const newest = sealedCheckpointOf(taskId, row, this.#path);
      if (isCorrupt(newest)) items.push(...this.#taskWithDamage(taskId, count, statuses));
      else if (statuses.includes(newest.status)) items.push({ taskId, count, newest: summaryOf(newest) });
    };
    try {
      const rows = this.#database.all(TASKS, range.from, range.below, range.below, ...fourOf(statuses), size);
      if (rows.length === 0) assertNoneInRange(this.#database, this.#path, range);
      for (const [taskId, count, ...row] of rows) add(String(taskId), numberOr0(count), row);
      return { items, next: rows.length < size ? undefined : idAfter(String(rows.at(-1)?.[0])) };
    } catch (error) {
      if (!isDamaged(error)) throw error;
    }
    items.length = 0;
    const ids = this.#database.all(TASK_IDS, range.from, range.below, size).map(([taskId]) => String(taskId));
    for (const taskId of ids) {
      const [count] = this.#database.one(COUNT, taskId) ?? [];
      items.push(...this.#taskWithDamage(taskId, numberOr0(count), statuses));
    }
    return { items, next: ids.length < size ? undefined : idAfter(ids.at(-1) ?? "") };
  }

  /** What can't be read of the task's newest checkpoints, then the task with the newest that can. */
  #taskWithDamage(
    taskId: string,
    count: number,
    statuses: readonly CheckpointStatus[],
  ): readonly (TaskSummary | CorruptRecord)[] {
    const damaged: CorruptRecord[] = [];
    let beforeSequence: number | undefined;
    do {
      const { items, next } = this.summaries({ taskId, order: "newest", beforeSequence }, SALVAGED_AT_ONCE);
      for (const item of items) {
        if (!isCorrupt(item))
          return statuses.includes(item.status) ? [...damaged, { taskId, count, newest: item }] : damaged;
        damaged.push(item);
      }
      // Damaged, the index may give the same page again.
      beforeSequence = next !== undefined && next < (beforeSequence ?? Number.POSITIVE_INFINITY) ? next : undefined;
    } while (beforeSequence !== undefined);
    return damaged.length > 0 ? damaged : [damagedRow(this.#path, "unknown", { taskId }, LOST)];
  }

  #page<Found extends CheckpointSummary>(
    query: CheckpointQuery,
    size: number,
    statements: Statements,
    parse: (row: SqliteRow) => Found | CorruptRecord,
  ): Page<Found, number> {
    const { taskId, order, stage, status, skip = 0 } = query;
    const filtered = stage !== undefined || status !== undefined;
    const range = [taskId, query.beforeSequence ?? ABOVE_ALL, query.afterSequence ?? BELOW_ALL];
    const page = (rows: readonly SqliteRow[], parsed: readonly (Found | CorruptRecord)[]): Page<Found, number> => ({
      items: filtered ? parsed.filter((found) => isCorrupt(found) || matchesQuery(found, query)) : parsed,
      next: rows.length < size ? undefined : boundAfter(numberOr0(rows.at(-1)?.[1]), order),
    });
    try {
      const rows = filtered
        ? this.#database.all(
            statements.filtered[order],
            ...range,
            stage,
            stage,
            ...fourOf(status ?? CHECKPOINT_STATUSES),
            size,
            skip,
          )
        : this.#database.all(statements.plain[order], ...range, size, skip);
      if (rows.length === 0) assertAbsent(this.#database, this.#path, taskId);
      return page(rows, rows.map(parse));
    } catch (error) {
      if (!isDamaged(error)) throw error;
    }
    // One by one, as the index has them: so what is damaged is told from what is intact around it.
    const entries = this.#database.all(ENTRIES[order], ...range, size, skip);
    return page(
      entries,
      entries.map((entry) => this.#salvage(taskId, entry, statements.byNumber, parse)),
    );
  }

  #salvage<Found>(
    taskId: string,
    [number, sequence]: SqliteRow,
    byNumber: string,
    parse: (row: SqliteRow) => Found | CorruptRecord,
  ): Found | CorruptRecord {
    const known = { taskId, ...sequenceIn(sequence) };
    try {
      const row = this.#database.one(byNumber, number);
      return row
        ? parse(row)
        : damagedRow(this.#path, number, known, "the table has no such row, though the index has");
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return damagedRow(this.#path, number, known, UNREADABLE, error);
    }
  }
}

/** Sequences that JavaScript can't tell apart count as one, or a page might come again; `undefined` where no others follow. */
function boundAfter(sequence: number, order: CheckpointQuery["order"]): number | undefined {
  const [least, most] = [Number.MIN_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER + 1];
  if (order === "newest" ? sequence <= least : sequence >= most) return undefined;
  return Math.max(least, Math.min(sequence, most));
}

/** For the four places of `status IN (?, ?, ?, ?)`; nothing equals NULL. */
function fourOf(statuses: readonly CheckpointStatus[]): readonly (CheckpointStatus | null)[] {
  return CHECKPOINT_STATUSES.map((status) => (statuses.includes(status) ? status : null));
}

/** The first text after this one, in the order of UTF-8 bytes. */
export function idAfter(taskId: string): string {
  return `${taskId}\0`;
}

function sequenceIn(value: unknown): { readonly sequence?: number } {
  return typeof value === "number" ? { sequence: value } : {};
}
