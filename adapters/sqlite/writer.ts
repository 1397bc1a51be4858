import { type AppendCondition, checkExpected, nextSequence, sequenceOfSame } from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type Payload,
  type SealedSummary,
  type StatusChange,
  sealDraft,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { readable } from "../sql/damage.js";
import { columnsOf, HIGHEST, jsonOf, numberOr0 } from "../sql/rows.js";
import type { SqliteConnection, SqliteRow } from "./connection.js";
import { checkLeaseIn } from "./leases.js";
import { BY_ID, COLUMNS, sealedSummaryOf } from "./rows.js";

/** All that an append must know, in one row. The newest by the index: a task's row may be lost, or behind. */
const POSITION = `
  SELECT (SELECT number FROM waymark_checkpoints WHERE task_id = ? AND id = ?),
    (SELECT last_sequence FROM waymark_tasks WHERE task_id = ?),
    (SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = ?)`;
const NEWEST = "SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = ?";
const INSERT_CHECKPOINT = `
  INSERT INTO waymark_checkpoints (task_id, ${COLUMNS.replaceAll("c.", "")})
  VALUES (?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
/** Under the checkpoint's number. REPLACE: a checkpoint that somebody deleted by hand has left its payload. */
const INSERT_PAYLOAD = "INSERT OR REPLACE INTO waymark_payloads (number, body) VALUES (last_insert_rowid(), ?)";
const ADVANCE_TASK = `
  INSERT INTO waymark_tasks (task_id, last_sequence, newest_sequence, newest_created_at, newest_status, count)
  VALUES (?, ?, ?, ?, ?, 1)
  ON CONFLICT DO UPDATE SET last_sequence = excluded.last_sequence, newest_sequence = excluded.newest_sequence,
    newest_created_at = excluded.newest_created_at, newest_status = excluded.newest_status, count = count + 1`;
const UPDATE_STATUS = "UPDATE waymark_checkpoints SET status = ?, error = ?, seal = ? WHERE number = ?";
const UPDATE_TASK_STATUS = "UPDATE waymark_tasks SET newest_status = ? WHERE task_id = ? AND newest_sequence = ?";
const UPDATE_PAYLOAD =
  "UPDATE waymark_checkpoints SET size_bytes = ?, encoding = ?, sha256 = ?, seal = ? WHERE number = ?";
const UPDATE_BODY = "UPDATE waymark_payloads SET body = ? WHERE number = ?";
const NUMBER_BY_ID = "SELECT number FROM waymark_checkpoints WHERE task_id = ? AND id = ?";
const REMOVE_CHECKPOINT = "DELETE FROM waymark_checkpoints WHERE number = ?";
const REMOVE_PAYLOAD = "DELETE FROM waymark_payloads WHERE number = ?";
/** LIMIT 1 and not max(): the row is empty if there is none. */
const SHORTEN_TASK = `
  UPDATE waymark_tasks SET count = count - ?, (newest_sequence, newest_created_at, newest_status) = (
    SELECT sequence, created_at, status FROM waymark_checkpoints c
    WHERE c.task_id = waymark_tasks.task_id ORDER BY sequence DESC LIMIT 1) WHERE task_id = ?`;
const IN_RANGE = "WHERE task_id >= ? AND task_id < ?";
const REMOVE_PAYLOADS = `DELETE FROM waymark_payloads WHERE number IN (SELECT number FROM waymark_checkpoints ${IN_RANGE})`;
const REMOVE_CHECKPOINTS = `DELETE FROM waymark_checkpoints ${IN_RANGE}`;
const REMOVE_TASKS = `DELETE FROM waymark_tasks ${IN_RANGE}`;

/**
 * Changes an open database of ours: each call in one transaction, with its condition checked in the same.
 * Every method is synchronous, and throws what SQLite throws.
 */
export class SqliteWriter {
  readonly #database: SqliteConnection;
  readonly #path: string;

  constructor(database: SqliteConnection, path: string) {
    this.#database = database;
    this.#path = path;
  }

  append(draft: CheckpointDraft, condition: AppendCondition | undefined): number {
    return this.#database.atomically(() => this.#append(draft, condition));
  }

  setStatus(taskId: string, id: string, change: StatusChange, condition: AppendCondition | undefined): boolean {
    return this.#change(taskId, id, (record, number) => {
      checkLeaseIn(this.#database, taskId, condition);
      checkExpected(taskId, this.#newestSequence(taskId), condition);
      const { sequence, status, error, seal } = withStatus(record, change);
      this.#database.run(UPDATE_STATUS, status, jsonOf(error), seal, number);
      this.#database.run(UPDATE_TASK_STATUS, status, taskId, sequence);
      return true;
    });
  }

  replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): boolean {
    return this.#change(taskId, id, (record, number) => {
      if (record.payload.sha256 !== expectedSha256) return false;
      const { sizeBytes, seal } = withPayload(record, payload);
      this.#database.run(UPDATE_PAYLOAD, sizeBytes, payload.encoding, payload.sha256, seal, number);
      this.#database.run(UPDATE_BODY, payload.body, number);
      return true;
    });
  }

  remove(taskId: string, ids: readonly string[] | "all", condition: AppendCondition | undefined): number {
    return this.#database.atomically(() => {
      checkLeaseIn(this.#database, taskId, condition);
      checkExpected(taskId, this.#newestSequence(taskId), condition);
      // No other text lies between an id and that id with the lowest character after it.
      if (ids === "all") return this.#removeRange(taskId, `${taskId}\0`);
      const numbers = ids.flatMap((id) => this.#database.one(NUMBER_BY_ID, taskId, id)?.[0] ?? []);
      return removeRows(this.#database, taskId, numbers);
    });
  }

  removeTasks(prefix: string): number {
    return this.#database.atomically(() => this.#removeRange(prefix, prefix + HIGHEST));
  }

  #append(draft: CheckpointDraft, condition: AppendCondition | undefined): number {
    checkLeaseIn(this.#database, draft.taskId, condition);
    const { taskId, id, createdAt, status, payload } = draft;
    const [taken, last, newest] = this.#database.one(POSITION, taskId, id, taskId, taskId) ?? [];
    if (typeof taken === "number") {
      return sequenceOfSame(this.#sealed(taskId, this.#database.one(BY_ID, taskId, id) ?? []), draft);
    }
    const newestSequence = numberOr0(newest);
    const position = { newestSequence, lastSequence: Math.max(numberOr0(last), newestSequence) };
    const { sequence, seal } = sealDraft(draft, nextSequence(taskId, position, condition));
    this.#database.run(INSERT_CHECKPOINT, taskId, sequence, ...columnsOf(draft), seal);
    this.#database.run(INSERT_PAYLOAD, payload.body);
    this.#database.run(ADVANCE_TASK, taskId, sequence, sequence, createdAt, status);
    return sequence;
  }

  /** Gives false if there is no such checkpoint. */
  #change(taskId: string, id: string, change: (record: SealedSummary, number: unknown) => boolean): boolean {
    return this.#database.atomically(() => {
      const row = this.#database.one(BY_ID, taskId, id);
      return row !== undefined && change(this.#sealed(taskId, row), row[0]);
    });
  }

  #removeRange(from: string, below: string): number {
    this.#database.run(REMOVE_PAYLOADS, from, below);
    this.#database.run(REMOVE_TASKS, from, below);
    return this.#database.run(REMOVE_CHECKPOINTS, from, below);
  }

  #newestSequence(taskId: string): number {
    return numberOr0(this.#database.one(NEWEST, taskId)?.[0]);
  }

  #sealed(taskId: string, row: SqliteRow): SealedSummary {
    return readable(sealedSummaryOf(taskId, row, this.#path));
  }
}

/** Removes checkpoints of one task in the caller's transaction, and says how many. The task's last sequence stays. */
export function removeRows(database: SqliteConnection, taskId: string, numbers: readonly unknown[]): number {
  let removed = 0;
  for (const number of numbers) {
    database.run(REMOVE_PAYLOAD, number);
    removed += database.run(REMOVE_CHECKPOINT, number);
  }
  if (removed > 0) database.run(SHORTEN_TASK, removed, taskId);
  return removed;
}
