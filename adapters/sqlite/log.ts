import { type AppendCondition, nextSequence, requireNewest, requireNoEvent } from "../../src/contract/conditions.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import {
  type LogItem,
  type LogRecord,
  matchEventRetry,
  type PayloadChange,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type RecordSelection,
  type StoredEvent,
  sealAs,
  sealRecord,
} from "../../src/contract/log.js";
import {
  kindColumns,
  type LogAppend,
  type LogPage,
  RECORD_COLUMNS,
  requireIntactRecord,
  selectsCheckpoints,
} from "../sql/records.js";
import { numberOr0, parseHex, type SqlRow } from "../sql/rows.js";
import type { SqliteConnection } from "./connection.js";
import { checkLeaseIn } from "./leases.js";
import type { SqliteReader } from "./reader.js";
import { minuteOf, parseRecord, parseRecordHeader, selectRecord, toHex } from "./rows.js";

/**
 * Reads the numbering of a task. The highest sequences come from the tables, because records don't update the task's
 * row.
 */
const POSITION = `
  SELECT (SELECT last_sequence FROM waymark_tasks WHERE task_id = ?),
    (SELECT max(sequence) FROM waymark_records WHERE task_id = ?),
    (SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = ?)`;
const LAST_EVENT = `SELECT max(sequence) FROM waymark_records INDEXED BY waymark_records_events
  WHERE task_id = ? AND id IS NOT NULL AND sequence > ?`;
const EVENT = "SELECT sequence, name, sha256 FROM waymark_records WHERE task_id = ? AND id = ?";
const INSERT = `INSERT INTO waymark_records (task_id, ${RECORD_COLUMNS.join(", ")}, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
/** Describes a task that has records only, with the status '' and the time of its last record. */
const DESCRIBE = `INSERT INTO waymark_tasks (task_id, last_sequence, count, newest_created_at, newest_minute, newest_status)
  SELECT ?, 0, 0, created_at, ${minuteOf("created_at")}, '' FROM (SELECT ? AS created_at) WHERE true
  ON CONFLICT DO UPDATE SET newest_created_at = excluded.newest_created_at, newest_minute = excluded.newest_minute,
    newest_status = ''`;
const SET_DUE_AT = "UPDATE waymark_tasks SET due_at = ? WHERE task_id = ? AND due_at > ?";
/** Rows with a damaged kind match every selection of kinds, so that the damage is reported. */
const READABLE = `task_id = ? AND sequence > ? AND sequence < ?
  AND (kind IN (?, ?, ?, ?, ?) OR kind NOT IN ('step', 'event', 'chunk', 'run', 'mark')) AND (? IS NULL OR name = ?)`;
const SELECTED = `task_id = ? AND sequence > ? AND sequence < ? AND kind IN (?, ?, ?, ?, ?) AND (? IS NULL OR name = ?)`;
const readIn = (order: "DESC" | "ASC", body: string) => `
  SELECT ${selectRecord("waymark_records")}, ${body}, NULL FROM waymark_records WHERE ${READABLE}
  UNION ALL
  SELECT sequence, ${"NULL, ".repeat(RECORD_COLUMNS.length)} number FROM waymark_checkpoints
  WHERE ? AND task_id = ? AND sequence > ? AND sequence < ?
  ORDER BY sequence ${order} LIMIT ?`;
const READ = {
  newest: { whole: readIn("DESC", "body"), headers: readIn("DESC", "NULL") },
  oldest: { whole: readIn("ASC", "body"), headers: readIn("ASC", "NULL") },
};
const AT = `SELECT ${selectRecord("waymark_records")}, body FROM waymark_records WHERE task_id = ? AND sequence = ?`;
const REPLACE =
  "UPDATE waymark_records SET encoding = ?, sha256 = ?, seal = ?, size_bytes = ?, body = ? WHERE task_id = ? AND sequence = ?";
const REMOVED = `SELECT sequence, kind FROM waymark_records WHERE ${SELECTED} AND (kind <> 'event' OR body IS NOT NULL)`;
const REMOVE = "DELETE FROM waymark_records WHERE task_id = ? AND sequence = ?";
const EMPTY_EVENT = "UPDATE waymark_records SET body = NULL, size_bytes = 0 WHERE task_id = ? AND sequence = ?";
const NOTE_REMOVAL = `UPDATE waymark_tasks SET last_sequence = max(last_sequence, ?),
  removed_up_to = nullif(max(coalesce(removed_up_to, 0), ?), 0) WHERE task_id = ?`;
/** Describes a task without checkpoints by its last record. If it has no records either, it isn't listed. */
const DESCRIBE_BY_RECORDS = `UPDATE waymark_tasks SET (newest_created_at, newest_minute, newest_status) = (
  SELECT created_at, ${minuteOf("created_at")}, '' FROM waymark_records r WHERE r.task_id = waymark_tasks.task_id ORDER BY sequence DESC LIMIT 1)
  WHERE task_id = ? AND newest_sequence IS NULL`;

/** A page ends once it has this many bytes. */
const PAGE_BYTES = 256 * 1024;
/** Numbers above and below every sequence. */
const [ABOVE_ALL, BELOW_ALL] = [1e19, -1e19];

/** A task's numbering, as a log append sees it. */
interface Numbering {
  readonly newestSequence: number;
  readonly lastSequence: number;
}

interface LogParts {
  readonly database: SqliteConnection;
  readonly reader: SqliteReader;
  readonly path: string;
}

/**
 * The table of records in Waymark's open database. Every method is synchronous and throws SQLite's errors unchanged.
 */
export class SqliteLog {
  readonly #parts: LogParts;

  constructor(parts: LogParts) {
    this.#parts = parts;
  }

  /** Inserts records at the end of the log, in the caller's transaction, and returns the last one's sequence. */
  insertNext({ taskId, records, condition, options: { firstSequence, dueAt } }: LogAppend): number {
    const stored = this.matchEvents(taskId, records);
    if (stored !== undefined) return stored;
    checkLeaseIn(this.#parts.database, taskId, condition);
    const numbering = this.readNumbering(taskId);
    this.requireNoEvent(taskId, condition);
    const first = nextSequence(taskId, numbering, condition, { sequence: firstSequence });
    this.insert(taskId, records, first);
    const [newest] = records.slice(-1);
    if (numbering.newestSequence === 0) this.#parts.database.run(DESCRIBE, taskId, newest?.createdAt);
    if (dueAt !== undefined) this.#parts.database.run(SET_DUE_AT, dueAt, taskId, dueAt);
    return first + records.length - 1;
  }

  /** If the records are events that are already stored, returns their last sequence: see `matchEventRetry`. */
  matchEvents(taskId: string, records: readonly RecordDraft[], isWithCheckpoint = false): number | undefined {
    if (records.every(({ id }) => id === undefined)) return undefined;
    return matchEventRetry(taskId, records, (id) => this.#findEvent(taskId, id), isWithCheckpoint);
  }

  requireNoEvent(taskId: string, condition: AppendCondition = {}): void {
    const { noEventAfter } = condition;
    if (noEventAfter === undefined) return;
    requireNoEvent(taskId, numberOr0(this.#parts.database.one(LAST_EVENT, taskId, noEventAfter)?.[0]), condition);
  }

  readNumbering(taskId: string): Numbering {
    const [last, record, checkpoint] = (this.#parts.database.one(POSITION, taskId, taskId, taskId) ?? []).map(
      numberOr0,
    );
    const newestSequence = checkpoint ?? 0;
    return { newestSequence, lastSequence: Math.max(last ?? 0, record ?? 0, newestSequence) };
  }

  /** Stores records from this sequence on, in the caller's transaction. */
  insert(taskId: string, records: readonly RecordDraft[], first: number): void {
    for (const [index, draft] of records.entries()) {
      const sequence = first + index;
      const { kind, name, recordKey, id, createdAt, payload } = draft;
      const { encoding, sha256, body } = payload;
      const [digest, seal] = [parseHex(sha256), parseHex(sealAs(taskId, sequence, draft))];
      const sizeBytes = Buffer.byteLength(body);
      const described = [taskId, sequence, kind, name, recordKey, id, createdAt, encoding];
      this.#parts.database.run(INSERT, ...described, digest, seal, sizeBytes, body);
    }
  }

  read(query: RecordQuery, rows: number): LogPage {
    const { taskId, order, kinds, name = null, headersOnly = false } = query;
    const range = [taskId, query.afterSequence ?? BELOW_ALL, query.beforeSequence ?? ABOVE_ALL];
    const selected = [...range, ...kindColumns(kinds), name, name];
    const statement = READ[order][headersOnly ? "headers" : "whole"];
    const items: LogItem[] = [];
    let [seen, bytes] = [0, 0];
    for (const row of this.#parts.database.each(
      statement,
      ...selected,
      selectsCheckpoints(query) ? 1 : 0,
      ...range,
      rows,
    )) {
      const item = this.#parseItem(taskId, row, headersOnly);
      if (item !== undefined) items.push(item);
      seen += 1;
      bytes += numberOr0(row[RECORD_COLUMNS.length - 1]);
      if (seen === rows || bytes >= PAGE_BYTES) return { items, next: numberOr0(row[0]) };
    }
    return { items, next: undefined };
  }

  /** Does nothing, because the sync after each change includes all earlier commits. */
  sync(): void {}

  remove(taskId: string, selection: RecordSelection, condition: AppendCondition | undefined): number {
    return this.#parts.database.atomically(() => {
      checkLeaseIn(this.#parts.database, taskId, condition);
      const { newestSequence, lastSequence } = this.readNumbering(taskId);
      requireNewest(taskId, newestSequence, condition);
      this.requireNoEvent(taskId, condition);
      const { afterSequence = BELOW_ALL, beforeSequence = ABOVE_ALL, kinds, name = null } = selection;
      const values = [taskId, afterSequence, beforeSequence, ...kindColumns(kinds), name, name];
      const removed = this.#parts.database.all(REMOVED, ...values);
      for (const [sequence, kind] of removed) {
        this.#parts.database.run(kind === "event" ? EMPTY_EVENT : REMOVE, taskId, sequence);
      }
      const isGone = ([, kind]: SqlRow) => kind !== "event" && kind !== "mark";
      const upTo = Math.max(0, ...removed.filter(isGone).map(([sequence]) => numberOr0(sequence)));
      if (removed.length > 0) this.#parts.database.run(NOTE_REMOVAL, lastSequence, upTo, taskId);
      this.describe(taskId);
      return removed.length;
    });
  }

  /** Returns the record with this sequence. */
  at(taskId: string, sequence: number): LogRecord | RecordHeader | CorruptRecord | undefined {
    const row = this.#parts.database.one(AT, taskId, sequence);
    return row && parseRecord(taskId, row.slice(0, -1), row.at(-1), this.#parts.path);
  }

  /** Removes a record of any kind, in the caller's transaction. Its sequence isn't used again. */
  removeAt(taskId: string, sequence: number): void {
    this.#parts.database.run(NOTE_REMOVAL, sequence, 0, taskId);
    this.#parts.database.run(REMOVE, taskId, sequence);
    this.describe(taskId);
  }

  /** Updates the row of a task without checkpoints, so that lists show it correctly. */
  describe(taskId: string): void {
    this.#parts.database.run(DESCRIBE_BY_RECORDS, taskId);
  }

  replacePayloads(taskId: string, changes: readonly PayloadChange[]): readonly number[] {
    return this.#parts.database.atomically(() => {
      const replaced = changes.filter((change) => this.#replacePayload(taskId, change));
      return replaced.map(({ sequence }) => sequence);
    });
  }

  #replacePayload(taskId: string, { sequence, payload, expectedSha256 }: PayloadChange): boolean {
    const found = this.at(taskId, sequence);
    if (found === undefined) return false;
    const record = requireIntactRecord(taskId, sequence, found);
    if (record.payload.sha256 !== expectedSha256 || !("body" in record.payload)) return false;
    const { encoding, sha256, body } = payload;
    const seal = sealRecord({ ...record, payload });
    const digests = [parseHex(sha256), parseHex(seal), Buffer.byteLength(body)];
    this.#parts.database.run(REPLACE, encoding, ...digests, body, taskId, sequence);
    return true;
  }

  #findEvent(taskId: string, id: string): StoredEvent | undefined {
    const [sequence, name, sha256] = this.#parts.database.one(EVENT, taskId, id) ?? [];
    if (typeof sequence !== "number") return undefined;
    const payload = { sha256: String(toHex(sha256)) };
    return typeof name === "string" ? { sequence, name, payload } : { sequence, payload };
  }

  #parseItem(taskId: string, row: SqlRow, headersOnly: boolean): LogItem | undefined {
    const [body, number] = [row[RECORD_COLUMNS.length], row[RECORD_COLUMNS.length + 1]];
    if (number !== null) return this.#parts.reader.summaryAt(taskId, number);
    return headersOnly
      ? parseRecordHeader(taskId, row, this.#parts.path)
      : parseRecord(taskId, row, body, this.#parts.path);
  }
}
