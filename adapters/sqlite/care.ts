import { type CorruptRecord, isCorrupt } from "../../src/contract/adapter.js";
import { damageIn, type StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteRow } from "./driver.js";
import { isDamaged } from "./errors.js";
import { CREATE_QUARANTINE, QUARANTINE_CHECKPOINT, QUARANTINE_PAYLOAD } from "./quarantine.js";
import { damagedRow, sealedCheckpointOf, storedCheckpointOf } from "./rows.js";
import { refuseChangedTables } from "./schema.js";
import { CHECKPOINTS, NUMBER, REMOVE_CHECKPOINT, REMOVE_PAYLOAD, SUMMARIES } from "./statements.js";

const MOST_MESSAGES = 100;
/** As bytes: what is no UTF-8 would come as other text than it is, and nothing after it be found by that. */
const NEXT_TASK = `
  SELECT CASE typeof(min(task_id)) WHEN 'text' THEN CAST(min(task_id) AS BLOB) END FROM (
    SELECT min(task_id) AS task_id FROM waymark_tasks WHERE task_id > CAST(? AS TEXT)
    UNION ALL SELECT min(task_id) FROM waymark_checkpoints WHERE task_id > CAST(? AS TEXT))`;
const GIVEN = "SELECT given_sequence FROM waymark_tasks WHERE task_id = ?";
/** One that no JavaScript number can hold was never given. */
const NEWEST = `SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = ? AND sequence <= ${Number.MAX_SAFE_INTEGER}`;
const NEWEST_BELOW = "SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = ? AND sequence < ?";
const SEQUENCE = "SELECT sequence FROM waymark_checkpoints WHERE number = ?";
/**
 * A damaged sequence from here on, and so far above the others, can't have been given by counting; kept, it could leave
 * none to give. See isCounted of the file adapters.
 */
const BEYOND_COUNTING = 10 ** 12;
const MOST_ABOVE = 1_000_000;
/** Not OR REPLACE, which removes other tasks' rows where somebody's own index is unique. */
const RENUMBER = `
  INSERT INTO waymark_tasks (task_id, given_sequence) VALUES (?, ?)
  ON CONFLICT (task_id) DO UPDATE SET given_sequence = excluded.given_sequence`;
/** How many rows are taken at a time. */
export const ENTRIES_AT_ONCE = 100;
const NUMBERS_IN_ORDER = `
  SELECT CAST(sequence AS TEXT), ${NUMBER} FROM waymark_checkpoints INDEXED BY waymark_checkpoints_by_sequence
  WHERE task_id = ? AND sequence > ? ORDER BY sequence LIMIT ${ENTRIES_AT_ONCE}`;
const IS_STRAY = "NOT EXISTS (SELECT 1 FROM waymark_checkpoints WHERE number = p.number)";
const STRAY_PAYLOADS = `
  SELECT ${NUMBER}, ${NUMBER} FROM waymark_payloads p
  WHERE number > ? AND ${IS_STRAY} ORDER BY number LIMIT ${ENTRIES_AT_ONCE}`;
const STRAY_PAYLOAD = `SELECT 1 FROM waymark_payloads p WHERE number = ? AND ${IS_STRAY}`;
/** Below every integer of SQLite's. */
export const BELOW_ALL = "-10000000000000000000";
const NONE_ABOVE = "its number is the last there is, so nothing more can be saved";

/** What a row is found by, and its number; as text, since damaged ones may be any that SQLite can hold. */
export interface Entry {
  readonly key: string;
  readonly number: string;
}

/** A checkpoint's row as verification looks at it. */
export interface InspectedRow {
  readonly sizeBytes: number;
  readonly createdAt?: string;
  /** What is wrong with it. */
  readonly damage: CorruptRecord | undefined;
  /** SQLite gives its columns, so they can be moved. */
  readonly isReadable: boolean;
}

/** Looks after an open store: what is wrong in it, and its quarantine. Every method is synchronous. */
export class SqliteCare {
  readonly #database: SqliteConnection;
  readonly #path: string;

  constructor(database: SqliteConnection, path: string) {
    this.#database = database;
    this.#path = path;
  }

  /** @throws {UnsupportedFormatError} Since the database was opened, somebody has changed what our tables do. */
  refuseChangedTables(): void {
    refuseChangedTables(this.#database, this.#path);
  }

  /** What SQLite's own check says; empty where all is well. */
  integrity(quick: boolean): readonly string[] {
    try {
      const rows = this.#database.all(`PRAGMA ${quick ? "quick_check" : "integrity_check"}(${MOST_MESSAGES})`);
      const messages = rows.map(([message]) => String(message));
      return messages.length === 1 && messages[0] === "ok" ? [] : messages;
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return [error instanceof Error ? error.message : String(error)];
    }
  }

  /** The first task after this one, in either of the tables that name tasks; both as bytes. */
  taskAfter(taskId: Uint8Array): Uint8Array | undefined {
    const [next] = this.#database.one(NEXT_TASK, taskId, taskId) ?? [];
    return next instanceof Uint8Array ? next : undefined;
  }

  /** What is wrong with the row that keeps the last sequence of a task. */
  numberingDamage(taskId: string): string | undefined {
    const row = this.#database.one(GIVEN, taskId);
    if (row === undefined) return "it has no row for the task, which keeps its last sequence";
    const [given] = row;
    return isGiven(given) ? undefined : `its last sequence for the task is ${String(given)}, which was never given`;
  }

  /** Some of a task's rows, the oldest first: those after this sequence. */
  entriesOf(taskId: string, after: string): readonly Entry[] {
    return this.#database.all(NUMBERS_IN_ORDER, taskId, after).map(entryOf);
  }

  /** `undefined` where it was removed meanwhile. */
  inspect(taskId: string, number: string, quick: boolean): InspectedRow | undefined {
    try {
      const row = this.#database.one((quick ? SUMMARIES : CHECKPOINTS).byNumber, number);
      if (row === undefined) return undefined;
      const found = (quick ? sealedCheckpointOf : storedCheckpointOf)(taskId, row, this.#path);
      if (isCorrupt(found)) {
        const damage = damagedRow(this.#path, number, { taskId, ...found }, found.reason, found.cause);
        return { sizeBytes: 0, ...createdAtIn(row[3]), damage, isReadable: true };
      }
      const { sizeBytes, createdAt } = found;
      const isLast = number === String(Number.MAX_SAFE_INTEGER);
      const reason = isLast ? NONE_ABOVE : isWhole(found) ? damageIn(found) : undefined;
      const damage = reason === undefined ? undefined : damagedRow(this.#path, number, found, reason);
      return { sizeBytes, createdAt, damage, isReadable: true };
    } catch (error) {
      if (!isDamaged(error)) throw error;
      const damage = damagedRow(this.#path, number, { taskId }, "SQLite can't read it", error);
      return { sizeBytes: 0, damage, isReadable: false };
    }
  }

  /** Some of the payloads whose checkpoints are gone: those after this number. */
  strayPayloads(after: string): readonly Entry[] {
    return this.#database.all(STRAY_PAYLOADS, after).map(entryOf);
  }

  /** Moves a row to quarantine, with its payload and in one transaction, unless it is whole by now. */
  quarantine(taskId: string, number: string, reason: string): boolean {
    return this.#database.atomically(() => {
      if (this.inspect(taskId, number, false)?.damage === undefined) return false;
      this.#keep(QUARANTINE_CHECKPOINT, number, reason);
      const given = this.#givenWith(taskId, number);
      this.#database.run(REMOVE_PAYLOAD, number);
      this.#database.run(REMOVE_CHECKPOINT, number);
      this.#database.run(RENUMBER, taskId, given);
      return true;
    });
  }

  quarantinePayload(number: string, reason: string): void {
    this.#database.atomically(() => {
      if (this.#database.one(STRAY_PAYLOAD, number) === undefined) return;
      this.#keep(QUARANTINE_PAYLOAD, number, reason);
      this.#database.run(REMOVE_PAYLOAD, number);
    });
  }

  newestSequence(taskId: string): number {
    const [newest] = this.#database.one(NEWEST, taskId) ?? [];
    return typeof newest === "number" ? newest : 0;
  }

  /** Makes a task's row anew, unless it is whole by now: its numbering goes on after its newest checkpoint. */
  renumber(taskId: string): void {
    this.#database.atomically(() => {
      if (this.numberingDamage(taskId) !== undefined) this.#database.run(RENUMBER, taskId, this.newestSequence(taskId));
    });
  }

  /**
   * The last sequence to be kept of the task, so that this row's isn't given again: where the seal doesn't vouch for it,
   * only where counting may have come to it. Repair takes the oldest first, so what is below is whole.
   */
  #givenWith(taskId: string, number: string): number {
    const given = sequenceOr0(this.#database.one(GIVEN, taskId)?.[0]);
    const sequence = sequenceOr0(this.#database.one(SEQUENCE, number)?.[0]);
    const below = sequenceOr0(this.#database.one(NEWEST_BELOW, taskId, sequence)?.[0]);
    const isSealed = this.inspect(taskId, number, true)?.damage === undefined;
    const isCounted = isSealed || sequence < BEYOND_COUNTING || sequence <= Math.max(given, below) + MOST_ABOVE;
    return isCounted ? Math.max(given, sequence) : given;
  }

  /** @throws {UnsupportedFormatError} The quarantine doesn't take it: what is removed after this would be gone. */
  #keep(statement: string, number: string, reason: string): void {
    this.#database.run(CREATE_QUARANTINE);
    if (this.#database.run(statement, new Date().toISOString(), reason, number) === 1) return;
    throw new UnsupportedFormatError(
      `The table waymark_quarantine of ${this.#path} doesn't keep what is put into it: somebody has changed it. The row ` +
        `${number} stays where it is, and nothing was removed. Rename that table in the sqlite3 shell, then repair again.`,
    );
  }
}

function isGiven(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function sequenceOr0(value: unknown): number {
  return isGiven(value) ? value : 0;
}

function entryOf([key, number]: SqliteRow): Entry {
  return { key: String(key), number: String(number) };
}

function isWhole(found: object): found is StoredCheckpoint {
  return "payload" in found && typeof found.payload === "object" && found.payload !== null && "body" in found.payload;
}

function createdAtIn(value: unknown): { readonly createdAt?: string } {
  return typeof value === "string" && !Number.isNaN(Date.parse(value)) ? { createdAt: value } : {};
}
