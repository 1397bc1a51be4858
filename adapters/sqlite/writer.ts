import { type AppendOptions, matchRetry, type StatusOptions } from "../../src/contract/adapter.js";
import {
  type Payload,
  type SealedSummary,
  type StatusChange,
  sealDraft,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import {
  type AppendCondition,
  type ExpectedTask,
  nextSequence,
  requireNewest,
  requireUnchangedTasks,
} from "../../src/contract/conditions.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointError } from "../../src/contract/errors.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { isTransient } from "../../src/contract/transient.js";
import type { Append } from "../sql/adapter.js";
import { isCompared } from "../sql/history.js";
import type { LogAppend } from "../sql/records.js";
import { HIGHEST, listColumns, nextDueAt, nextDueAtIn, numberOr0, parseHex, type SqlRow, toJson } from "../sql/rows.js";
import type { SqliteConnection } from "./connection.js";
import { isBusy } from "./errors.js";
import type { SqliteHistories } from "./histories.js";
import { checkLeaseIn } from "./leases.js";
import type { SqliteLog } from "./log.js";
import type { SqliteReader } from "./reader.js";
import { BY_ID, COLUMNS, MINUTE_LENGTH, minuteOf, parseSealedSummary } from "./rows.js";

/**
 * Reads everything that an append needs, in one row. The newest sequence comes from the index, because the task's row
 * may be damaged.
 */
const POSITION = `
  SELECT (SELECT number FROM waymark_checkpoints WHERE task_id = asked.id AND id = ?), t.last_sequence, t.due_at,
    t.newest_status, t.newest_minute, c.sequence, c.number,
    (SELECT max(sequence) FROM waymark_records WHERE task_id = asked.id)
  FROM (SELECT ? AS id) asked LEFT JOIN waymark_tasks t ON t.task_id = asked.id
  LEFT JOIN waymark_checkpoints c ON c.task_id = asked.id
    AND c.sequence = (SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = asked.id)`;
const NEWEST = "SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = ?";
const INSERT_CHECKPOINT = `
  INSERT INTO waymark_checkpoints (task_id, ${COLUMNS.replaceAll("c.", "")})
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const BEGIN_TASK = `INSERT INTO waymark_tasks (task_id, last_sequence, count, newest_sequence, newest_created_at)
  VALUES (?, ?, 1, ?, ?)`;
const ADVANCE_TASK = `UPDATE waymark_tasks
  SET last_sequence = ?, count = count + ?, newest_sequence = ?, newest_created_at = ? WHERE task_id = ?`;
/** Used only if the values change, because they are in an index. */
const SET_STATUS = "UPDATE waymark_tasks SET newest_status = ?, newest_minute = ? WHERE task_id = ?";
const SET_DUE_AT = "UPDATE waymark_tasks SET due_at = ? WHERE task_id = ?";
const NEWEST_COLUMNS = `
  SELECT t.due_at, c.created_at, c.status, c.due_at FROM waymark_tasks t
  LEFT JOIN waymark_checkpoints c ON c.task_id = t.task_id AND c.sequence = t.newest_sequence WHERE t.task_id = ?`;
const UPDATE_STATUS = "UPDATE waymark_checkpoints SET status = ?, error = ?, seal = ? WHERE number = ?";
const UPDATE_TASK_STATUS = "UPDATE waymark_tasks SET newest_status = ? WHERE task_id = ? AND newest_sequence = ?";
const UPDATE_PAYLOAD =
  "UPDATE waymark_checkpoints SET number = ?, size_bytes = ?, encoding = ?, sha256 = ?, seal = ? WHERE number = ?";
const NUMBER_BY_ID = "SELECT number FROM waymark_checkpoints WHERE task_id = ? AND id = ?";
const REMOVE_CHECKPOINT = "DELETE FROM waymark_checkpoints WHERE number = ?";
/** Uses LIMIT 1 instead of max() in the subselect, so that it returns no row if no checkpoint is left. */
const SHORTEN_TASK = `
  UPDATE waymark_tasks SET count = count - ?, (newest_sequence, newest_created_at, newest_minute, newest_status) = (
    SELECT sequence, created_at, ${minuteOf("created_at")}, status FROM waymark_checkpoints c
    WHERE c.task_id = waymark_tasks.task_id ORDER BY sequence DESC LIMIT 1) WHERE task_id = ?`;
const IN_RANGE = "WHERE task_id >= ? AND task_id < ?";
/**
 * Selects the numbers of checkpoints whose payloads are parts of histories. {@link REMOVE_STANDALONE_IN_RANGE} removes
 * the other payloads.
 */
const NUMBERS = `SELECT number FROM waymark_checkpoints c ${IN_RANGE}
  AND NOT EXISTS (SELECT 1 FROM waymark_payloads p WHERE p.number = c.number AND p.form = 0)`;
const REMOVE_STANDALONE_IN_RANGE = `DELETE FROM waymark_payloads
  WHERE form = 0 AND number IN (SELECT number FROM waymark_checkpoints ${IN_RANGE})`;
const NEWEST_IN_RANGE = `SELECT task_id, max(sequence) FROM waymark_checkpoints ${IN_RANGE} GROUP BY task_id`;
const REMOVE_CHECKPOINTS = `DELETE FROM waymark_checkpoints ${IN_RANGE}`;
const REMOVE_RECORDS = `DELETE FROM waymark_records ${IN_RANGE}`;
const REMOVE_TASKS = `DELETE FROM waymark_tasks ${IN_RANGE}`;

/** The result of an append. */
export type Outcome = { readonly sequence: number } | { readonly error: unknown };

interface WriterParts {
  readonly database: SqliteConnection;
  readonly histories: SqliteHistories;
  readonly reader: SqliteReader;
  readonly log: SqliteLog;
  readonly path: string;
}

/**
 * Changes Waymark's open database. Each call is one transaction, which also checks the call's condition. Every method
 * is synchronous and throws SQLite's errors unchanged.
 */
export class SqliteWriter {
  readonly #parts: WriterParts;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /**
   * Makes all appends in one transaction. If it fails, makes each append in its own transaction. Each append has its
   * own outcome: a refused append writes nothing, and the others are stored.
   */
  commit(appends: readonly (Append | LogAppend)[]): readonly Outcome[] {
    const { database } = this.#parts;
    try {
      return database.atomically(() => appends.map((append) => this.#insert(append)));
    } catch (error) {
      if (isBusy(error) || appends.length === 1) throw error;
      return appends.map((append) => this.#commitOne(append));
    }
  }

  #commitOne(append: Append | LogAppend): Outcome {
    try {
      return this.#parts.database.atomically(() => this.#insert(append));
    } catch (error) {
      return { error };
    }
  }

  /**
   * Returns a CheckpointError as an outcome, because it is thrown before anything is written. Any other error undoes
   * the whole transaction.
   */
  #insert(append: Append | LogAppend): Outcome {
    try {
      return { sequence: "draft" in append ? this.#insertCheckpoint(append) : this.#parts.log.insertNext(append) };
    } catch (error) {
      if (error instanceof CheckpointError) return { error };
      throw error;
    }
  }

  setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition: AppendCondition | undefined,
    { records = [] }: StatusOptions = {},
  ): boolean {
    const { log } = this.#parts;
    return this.#change(taskId, id, condition, (record, number) => {
      log.matchEvents(taskId, records, true);
      log.requireNoEvent(taskId, condition);
      log.insert(taskId, records, nextSequence(taskId, log.readNumbering(taskId), condition));
      const { sequence, status, error, seal } = withStatus(record, change);
      this.#parts.database.run(UPDATE_STATUS, status, toJson(error), parseHex(seal), number);
      const isNewest = this.#parts.database.run(UPDATE_TASK_STATUS, status, taskId, sequence) > 0;
      if (isNewest) this.#updateDueAt(taskId);
      return true;
    });
  }

  replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): boolean {
    return this.#change(taskId, id, undefined, (record, number) => {
      if (record.payload.sha256 !== expectedSha256) return false;
      const { sizeBytes, seal } = withPayload(record, payload);
      // The new payload gets its own place, since other texts may build on the old one.
      const placed = this.#parts.histories.choosePiece(payload, undefined);
      this.#parts.histories.insert(placed, { id, payload });
      const digests = [parseHex(payload.sha256), parseHex(seal)];
      this.#parts.database.run(UPDATE_PAYLOAD, placed.number, sizeBytes, payload.encoding, ...digests, number);
      this.#parts.histories.trim([numberOr0(number)]);
      return true;
    });
  }

  remove(taskId: string, ids: readonly string[] | "all", condition: AppendCondition | undefined): number {
    return this.#parts.database.atomically(() => {
      checkLeaseIn(this.#parts.database, taskId, condition);
      requireNewest(taskId, this.#newestSequence(taskId), condition);
      this.#parts.log.requireNoEvent(taskId, condition);
      // No other id lies between this id and this id followed by the lowest character.
      if (ids === "all") return this.#removeRange(taskId, `${taskId}\0`);
      const numbers = ids.flatMap((id) => this.#parts.database.one(NUMBER_BY_ID, taskId, id)?.[0] ?? []);
      return this.removeRows(taskId, numbers.map(numberOr0));
    });
  }

  removePrefix(prefix: string, expected: readonly ExpectedTask[] | undefined): number {
    return this.#parts.database.atomically(() => {
      const below = prefix + HIGHEST;
      if (expected !== undefined) {
        const rows = this.#parts.database.all(NEWEST_IN_RANGE, prefix, below);
        const found = rows.map(([taskId, newest]) => ({ taskId: String(taskId), newestSequence: numberOr0(newest) }));
        requireUnchangedTasks(prefix, found, expected);
      }
      return this.#removeRange(prefix, below);
    });
  }

  /**
   * Removes checkpoints of one task in the caller's transaction, and returns their number. Keeps the task's last
   * sequence.
   */
  removeRows(taskId: string, numbers: readonly number[]): number {
    const newest = this.#newestSequence(taskId);
    const removed = this.#removeNumbers(numbers);
    if (removed > 0) {
      this.#parts.database.run(SHORTEN_TASK, removed, taskId);
      this.#parts.log.describe(taskId);
      if (this.#newestSequence(taskId) !== newest) this.#updateDueAt(taskId);
    }
    return removed;
  }

  #removeNumbers(numbers: readonly number[]): number {
    let removed = 0;
    for (const number of numbers) removed += this.#parts.database.run(REMOVE_CHECKPOINT, number);
    this.#parts.histories.trim(numbers);
    return removed;
  }

  #insertCheckpoint({ draft, condition, options }: Append): number {
    const { taskId, id, createdAt, status, payload } = draft;
    const { records = [] } = options;
    const { log } = this.#parts;
    const [taken, last, due, ...rest] = this.#parts.database.one(POSITION, id, taskId) ?? [];
    const [lastStatus, lastMinute, newest, near, lastRecord] = rest;
    const existing = typeof taken === "number" ? this.#parts.reader.at(taskId, taken) : undefined;
    if (existing) return matchRetry(requireIntact(existing), draft);
    if (condition.fencingToken !== undefined) checkLeaseIn(this.#parts.database, taskId, condition);
    if (records.length > 0) log.matchEvents(taskId, records, true);
    if (condition.noEventAfter !== undefined) log.requireNoEvent(taskId, condition);
    const newestSequence = numberOr0(newest);
    const position = { newestSequence, lastSequence: Math.max(numberOr0(last), newestSequence, numberOr0(lastRecord)) };
    const { sequence, seal } = sealDraft(draft, nextSequence(taskId, position, condition, options));
    if (records.length > 0) log.insert(taskId, records, sequence - records.length);
    const replaced = options.replaces === undefined ? undefined : this.#findTransient(taskId, options.replaces);
    const placed = this.#parts.histories.choosePiece(payload, this.#findSource(payload, options) ?? near);
    const columns = listColumns(draft).slice(0, -1);
    const digests = [parseHex(payload.sha256), parseHex(seal)];
    this.#parts.database.run(INSERT_CHECKPOINT, taskId, placed.number, sequence, ...columns, ...digests);
    this.#parts.histories.insert(placed, draft);
    if (replaced !== undefined) this.#removeNumbers([replaced]);
    const more = replaced === undefined ? 1 : 0;
    if (last === null) this.#parts.database.run(BEGIN_TASK, taskId, sequence, sequence, createdAt);
    else this.#parts.database.run(ADVANCE_TASK, sequence, more, sequence, createdAt, taskId);
    const minute = createdAt.slice(0, MINUTE_LENGTH);
    if (status !== lastStatus || minute !== lastMinute) this.#parts.database.run(SET_STATUS, status, minute, taskId);
    const nextDue = nextDueAt(draft, due);
    if (nextDue !== due) this.#parts.database.run(SET_DUE_AT, nextDue, taskId);
    return sequence;
  }

  /**
   * Returns the number of the checkpoint with which the new payload shares content. If it isn't in this database,
   * returns the newest checkpoint, which may be another fork of it. A small payload has nothing to share, and would
   * only fill the source's history.
   */
  #findSource({ body }: Payload, { sharesWith }: AppendOptions): unknown {
    if (sharesWith === undefined || !isCompared(body)) return undefined;
    return (
      this.#parts.database.one(NUMBER_BY_ID, sharesWith.taskId, sharesWith.id)?.[0] ?? this.#parts.histories.newest
    );
  }

  /**
   * Updates the task's due time after its newest checkpoint has changed. Until then, a time that a record has set still
   * holds.
   */
  #updateDueAt(taskId: string): void {
    const [due, ...newest] = this.#parts.database.one(NEWEST_COLUMNS, taskId) ?? [];
    const nextDue = nextDueAtIn(newest, due);
    if (nextDue !== due) this.#parts.database.run(SET_DUE_AT, nextDue, taskId);
  }

  /** Returns the number of the transient checkpoint with this id, if it can be read. */
  #findTransient(taskId: string, id: string): number | undefined {
    const row = this.#parts.database.one(BY_ID, taskId, id);
    const found = row && parseSealedSummary(taskId, row, this.#parts.path);
    return found && !isCorrupt(found) && isTransient(found) ? numberOr0(row[0]) : undefined;
  }

  /** Returns false if there is no such checkpoint. */
  #change(
    taskId: string,
    id: string,
    condition: AppendCondition | undefined,
    change: (record: SealedSummary, number: unknown) => boolean,
  ): boolean {
    return this.#parts.database.atomically(() => {
      checkLeaseIn(this.#parts.database, taskId, condition);
      const row = this.#parts.database.one(BY_ID, taskId, id);
      return row !== undefined && change(this.#sealed(taskId, row), row[0]);
    });
  }

  #removeRange(from: string, below: string): number {
    const numbers = this.#parts.database.all(NUMBERS, from, below).map(([number]) => numberOr0(number));
    this.#parts.database.run(REMOVE_STANDALONE_IN_RANGE, from, below);
    this.#parts.database.run(REMOVE_TASKS, from, below);
    this.#parts.database.run(REMOVE_RECORDS, from, below);
    const removed = this.#parts.database.run(REMOVE_CHECKPOINTS, from, below);
    this.#parts.histories.trimTexts(numbers);
    return removed;
  }

  #newestSequence(taskId: string): number {
    return numberOr0(this.#parts.database.one(NEWEST, taskId)?.[0]);
  }

  #sealed(taskId: string, row: SqlRow): SealedSummary {
    return requireIntact(parseSealedSummary(taskId, row, this.#parts.path));
  }
}
