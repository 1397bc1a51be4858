import {
  type AppendCondition,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  isCorrupt,
  matchesQuery,
  nextSequence,
  sequenceOfSame,
} from "../../src/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointFailure,
  type CheckpointStatus,
  type CheckpointSummary,
  type JsonObject,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  summaryOf,
  type TaskSummary,
  withStatus,
} from "../../src/checkpoint.js";
import { CheckpointCorruptError } from "../../src/errors.js";
import { SqliteConnection } from "./connection.js";
import type { SqliteDatabase, SqliteRow } from "./driver.js";
import { isDamaged } from "./errors.js";
import { type PayloadReplacement, replacePayload } from "./replace-payload.js";
import { checkpointOf, damagedRow, storedCheckpointOf } from "./rows.js";
import {
  CHECKPOINT_BY_ID,
  CHECKPOINTS,
  COUNT,
  DIGEST,
  ENTRIES,
  INSERT_CHECKPOINT,
  INSERT_PAYLOAD,
  INSERT_TASK,
  NEWEST_SEQUENCE,
  NUMBER_BY_ID,
  NUMBERS,
  PAYLOAD,
  POSITION,
  REMOVE_CHECKPOINT,
  REMOVE_PAYLOAD,
  REMOVE_TASK,
  type Statements,
  SUMMARIES,
  SUMMARY_BY_ID,
  TASK_IDS,
  TASKS,
  UPDATE_GIVEN,
  UPDATE_STATUS,
} from "./statements.js";

const ABOVE_ALL = Number.MAX_SAFE_INTEGER + 1;
const SALVAGED_AT_ONCE = 16;
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
 * An open database of ours, and what is done in it. Every method is synchronous, and what it changes, it changes in one
 * transaction. They throw what SQLite throws.
 */
export class SqliteStore {
  readonly #database: SqliteConnection;
  readonly #path: string;

  constructor(database: SqliteDatabase, path: string) {
    this.#database = new SqliteConnection(database);
    this.#path = path;
  }

  close(): void {
    this.#database.close();
  }

  append(draft: CheckpointDraft, condition: AppendCondition | undefined): number {
    return this.#database.atomically(() => {
      const { taskId, id } = draft;
      const [given, newest, lastNumber, lastPayload, taken] =
        this.#database.one(POSITION, taskId, taskId, taskId, id) ?? [];
      if (taken !== null) return this.#sequenceOfSame(taken, draft);

      const newestSequence = numberOr0(newest);
      const position = { newestSequence, lastSequence: Math.max(numberOr0(given), newestSequence) };
      const record = sealDraft(draft, nextSequence(taskId, position, condition));
      // Above both: in a damaged database one table may have lost what the other one still has.
      const number = Math.max(numberOr0(lastNumber), numberOr0(lastPayload)) + 1;
      if (given === null) this.#database.run(INSERT_TASK, taskId);
      this.#insert(number, record);
      return record.sequence;
    });
  }

  setStatus(taskId: string, id: string, change: StatusChange, condition: AppendCondition | undefined): boolean {
    return this.#database.atomically(() => {
      const row = this.#database.one(SUMMARY_BY_ID, taskId, id);
      if (row === undefined) return false;
      checkExpected(taskId, this.#newestSequence(taskId), condition);
      const record = checkpointOf(taskId, row, this.#path);
      if (isCorrupt(record)) {
        throw new CheckpointCorruptError(
          `Checkpoint ${id} of task ${JSON.stringify(taskId)} can't be read: ${record.reason} (${record.location}). ` +
            "Its status was not changed, and it was left untouched.",
          { cause: record.cause },
        );
      }
      const { status, error, seal } = withStatus(record, change);
      this.#database.run(UPDATE_STATUS, status, jsonOf(error), seal, row[0]);
      return true;
    });
  }

  replacePayload(replacement: PayloadReplacement): boolean {
    return replacePayload(this.#database, this.#path, replacement);
  }

  remove(taskId: string, ids: readonly string[] | "all", condition: AppendCondition | undefined): number {
    const remove = (removePayload: (number: unknown) => void) =>
      this.#database.atomically(() => {
        const newest = this.#newestSequence(taskId);
        checkExpected(taskId, newest, condition);
        let removed = 0;
        for (const [number] of this.#numbersOf(taskId, ids)) {
          removePayload(number);
          removed += this.#database.run(REMOVE_CHECKPOINT, number);
        }
        if (ids === "all") this.#database.run(REMOVE_TASK, taskId);
        // Without this, the sequence of a newest checkpoint that is gone would be given again.
        else if (this.#newestSequence(taskId) !== newest) this.#database.run(UPDATE_GIVEN, newest, taskId);
        return removed;
      });
    const removePayload = (number: unknown) => this.#database.run(REMOVE_PAYLOAD, number);
    try {
      return remove(removePayload);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      // SQLite can't tell which pages a damaged payload has. Their space stays lost, but the checkpoint goes all the same.
      const damaged = this.#damagedPayloads(taskId, ids);
      return remove((number) => damaged.has(number) || removePayload(number));
    }
  }

  get(taskId: string, id: string): StoredCheckpoint | CorruptRecord | undefined {
    try {
      const row = this.#database.one(CHECKPOINT_BY_ID, taskId, id);
      return row && storedCheckpointOf(taskId, row, this.#path);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      const [number] = this.#database.one(NUMBER_BY_ID, taskId, id) ?? [];
      return damagedRow(this.#path, number, { taskId, id }, UNREADABLE, error);
    }
  }

  /** At most `size` summaries that the query asks for; `next` is the bound of the query to go on with. */
  summaries(query: CheckpointQuery, size: number): Page<CheckpointSummary, number> {
    return this.#page(query, size, SUMMARIES, (row) => {
      const found = checkpointOf(query.taskId, row, this.#path);
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
      const newest = checkpointOf(taskId, row, this.#path);
      if (isCorrupt(newest)) items.push(...this.#taskWithDamage(taskId, count, statuses));
      else if (statuses.includes(newest.status)) items.push({ taskId, count, newest: summaryOf(newest) });
    };
    try {
      const rows = this.#database.all(TASKS, range.from, range.below, ...fourOf(statuses), size);
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
      beforeSequence = next;
    } while (beforeSequence !== undefined);
    return damaged;
  }

  #page<Found extends CheckpointSummary>(
    query: CheckpointQuery,
    size: number,
    statements: Statements,
    parse: (row: SqliteRow) => Found | CorruptRecord,
  ): Page<Found, number> {
    const { taskId, order, stage, status, skip = 0 } = query;
    const filtered = stage !== undefined || status !== undefined;
    const range = [taskId, query.beforeSequence ?? ABOVE_ALL, query.afterSequence ?? 0];
    const page = (rows: readonly SqliteRow[], parsed: readonly (Found | CorruptRecord)[]): Page<Found, number> => ({
      items: filtered ? parsed.filter((found) => isCorrupt(found) || matchesQuery(found, query)) : parsed,
      next: rows.length < size ? undefined : numberOr0(rows.at(-1)?.[1]),
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

  #sequenceOfSame(number: unknown, draft: CheckpointDraft): number {
    const [sequence, sha256] = this.#database.one(DIGEST, number) ?? [];
    return sequenceOfSame({ sequence: numberOr0(sequence), sha256: String(sha256) }, draft);
  }

  #insert(number: number, record: StoredCheckpoint): void {
    const { taskId, sequence, id, createdAt, stage, label, parentId, metadata, status, error } = record;
    const { stateVersion, sizeBytes, payload, seal } = record;
    this.#database.run(
      INSERT_CHECKPOINT,
      number,
      taskId,
      sequence,
      id,
      createdAt,
      stage,
      label,
      parentId,
      jsonOf(metadata),
      status,
      jsonOf(error),
      stateVersion,
      sizeBytes,
      payload.encoding,
      payload.sha256,
      seal,
    );
    this.#database.run(INSERT_PAYLOAD, number, payload.body);
  }

  #numbersOf(taskId: string, ids: readonly string[] | "all"): readonly SqliteRow[] {
    if (ids === "all") return this.#database.all(NUMBERS, taskId);
    return ids.map((id) => this.#database.one(NUMBER_BY_ID, taskId, id)).filter((row) => row !== undefined);
  }

  /** Not to be called in a transaction: one that has met damage can do nothing more. */
  #damagedPayloads(taskId: string, ids: readonly string[] | "all"): ReadonlySet<unknown> {
    const damaged = new Set<unknown>();
    for (const [number] of this.#numbersOf(taskId, ids)) {
      try {
        this.#database.one(PAYLOAD, number);
      } catch (error) {
        if (!isDamaged(error)) throw error;
        damaged.add(number);
      }
    }
    return damaged;
  }

  #newestSequence(taskId: string): number {
    return numberOr0(this.#database.one(NEWEST_SEQUENCE, taskId)?.[0]);
  }
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

function numberOr0(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function jsonOf(value: JsonObject | CheckpointFailure | undefined): string | undefined {
  return value && JSON.stringify(value);
}
