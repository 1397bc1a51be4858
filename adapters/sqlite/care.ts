import type { CorruptRecord } from "../../src/adapter.js";
import { damageIn, type StoredCheckpoint } from "../../src/checkpoint.js";
import type { SqliteConnection } from "./connection.js";
import { isDamaged } from "./errors.js";
import { COLUMNS, damagedRow, sealedCheckpointOf, storedCheckpointOf } from "./rows.js";
import { refuseChangedTables } from "./schema.js";
import {
  CHECKPOINTS,
  INSERT_TASK,
  NEWEST_SEQUENCE,
  REMOVE_CHECKPOINT,
  REMOVE_PAYLOAD,
  SUMMARIES,
} from "./statements.js";

const MOST_MESSAGES = 100;
const PARTS = COLUMNS.replace("c.number, ", "c.number, c.task_id, ");
const NAMES = PARTS.replaceAll("c.", "");

/** Made by the first repair that finds anything: every column as it was, of whatever type. No version depends on it. */
const CREATE_QUARANTINE = `
  CREATE TABLE IF NOT EXISTS waymark_quarantine (quarantined_at TEXT NOT NULL, reason TEXT NOT NULL, ${NAMES}, body)`;
const QUARANTINE_CHECKPOINT = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, ${NAMES}, body)
  SELECT ?, ?, ${PARTS}, p.body FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON p.number = c.number
  WHERE c.number = ?`;
const QUARANTINE_PAYLOAD = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, number, body)
  SELECT ?, ?, number, body FROM waymark_payloads WHERE number = ?`;
const NEXT_TASK = `
  SELECT min(task_id) FROM (SELECT min(task_id) AS task_id FROM waymark_tasks WHERE task_id > ?
    UNION ALL SELECT min(task_id) FROM waymark_checkpoints WHERE task_id > ?)`;
const IS_LISTED = "SELECT 1 FROM waymark_tasks WHERE task_id = ?";
const NUMBERS_IN_ORDER = `
  SELECT number FROM waymark_checkpoints INDEXED BY waymark_checkpoints_by_sequence WHERE task_id = ? ORDER BY sequence`;
const STRAY_PAYLOADS = `
  SELECT number FROM waymark_payloads p
  WHERE number > ? AND NOT EXISTS (SELECT 1 FROM waymark_checkpoints WHERE number = p.number) ORDER BY number LIMIT 100`;
const KEEP_SEQUENCE = "UPDATE waymark_tasks SET given_sequence = max(given_sequence, ?) WHERE task_id = ?";

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

  /** The first task after this one, in either of the tables that name tasks. */
  taskAfter(taskId: string): string | undefined {
    const [next] = this.#database.one(NEXT_TASK, taskId, taskId) ?? [];
    return typeof next === "string" ? next : undefined;
  }

  /** Whether lists of tasks show the task. */
  isListed(taskId: string): boolean {
    return this.#database.one(IS_LISTED, taskId) !== undefined;
  }

  /** The numbers of a task's rows, the oldest first. */
  numbersOf(taskId: string): readonly unknown[] {
    return this.#database.all(NUMBERS_IN_ORDER, taskId).map(([number]) => number);
  }

  /** `undefined` where it was removed meanwhile. */
  inspect(taskId: string, number: unknown, quick: boolean): InspectedRow | undefined {
    try {
      const row = this.#database.one((quick ? SUMMARIES : CHECKPOINTS).byNumber, number);
      if (row === undefined) return undefined;
      const found = (quick ? sealedCheckpointOf : storedCheckpointOf)(taskId, row, this.#path);
      if ("corrupt" in found) return { sizeBytes: 0, ...createdAtIn(row[3]), damage: found, isReadable: true };
      const { sizeBytes, createdAt } = found;
      const reason = isWhole(found) ? damageIn(found) : undefined;
      const damage = reason === undefined ? undefined : damagedRow(this.#path, number, found, reason);
      return { sizeBytes, createdAt, damage, isReadable: true };
    } catch (error) {
      if (!isDamaged(error)) throw error;
      const damage = damagedRow(this.#path, number, { taskId }, "SQLite can't read it", error);
      return { sizeBytes: 0, damage, isReadable: false };
    }
  }

  /** The numbers of payloads whose checkpoints are gone, after this one; some at a time. */
  strayPayloads(after: number): readonly number[] {
    return this.#database.all(STRAY_PAYLOADS, after).map(([number]) => Number(number));
  }

  /** Moves a row to quarantine, with its payload and in one transaction, unless it is whole by now. */
  quarantine(taskId: string, number: unknown, reason: string): boolean {
    return this.#database.atomically(() => {
      if (this.inspect(taskId, number, false)?.damage === undefined) return false;
      this.#database.run(CREATE_QUARANTINE);
      this.#database.run(QUARANTINE_CHECKPOINT, new Date().toISOString(), reason, number);
      // Its sequence isn't given again. One that no JavaScript number can hold was never given.
      const newest = this.newestSequence(taskId);
      this.#database.run(REMOVE_PAYLOAD, number);
      this.#database.run(REMOVE_CHECKPOINT, number);
      this.#list(taskId);
      if (Number.isSafeInteger(newest)) this.#database.run(KEEP_SEQUENCE, newest, taskId);
      return true;
    });
  }

  quarantinePayload(number: number, reason: string): void {
    this.#database.atomically(() => {
      if (!this.strayPayloads(number - 1).includes(number)) return;
      this.#database.run(CREATE_QUARANTINE);
      this.#database.run(QUARANTINE_PAYLOAD, new Date().toISOString(), reason, number);
      this.#database.run(REMOVE_PAYLOAD, number);
    });
  }

  newestSequence(taskId: string): number {
    const [newest] = this.#database.one(NEWEST_SEQUENCE, taskId) ?? [];
    return typeof newest === "number" ? newest : 0;
  }

  /** Gives a task its row back. Its numbering goes on after its newest checkpoint. */
  list(taskId: string): void {
    this.#database.atomically(() => this.#list(taskId));
  }

  #list(taskId: string): void {
    if (!this.isListed(taskId)) this.#database.run(INSERT_TASK, taskId);
  }
}

function isWhole(found: object): found is StoredCheckpoint {
  return "payload" in found && typeof found.payload === "object" && found.payload !== null && "body" in found.payload;
}

function createdAtIn(value: unknown): { readonly createdAt?: string } {
  return typeof value === "string" && !Number.isNaN(Date.parse(value)) ? { createdAt: value } : {};
}
