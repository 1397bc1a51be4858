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
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteRow, SqliteStatement } from "./driver.js";
import { COLUMNS, numberOr0, sealedSummaryOf } from "./rows.js";
import type { TaskRange } from "./task-range.js";

/** All that an append must know, in one row: the number of the checkpoint with this id, and the task's row. */
const POSITION = `
  SELECT (SELECT number FROM waymark_checkpoints WHERE task_id = ? AND id = ?),
    t.last_sequence, t.newest_sequence
  FROM (SELECT 1) LEFT JOIN waymark_tasks t ON t.task_id = ?`;
const NEWEST = "SELECT newest_sequence FROM waymark_tasks WHERE task_id = ?";
const ANY_CHECKPOINT = "SELECT 1 FROM waymark_checkpoints WHERE task_id = ? LIMIT 1";
const BY_ID = `SELECT ${COLUMNS} FROM waymark_checkpoints c WHERE task_id = ? AND id = ?`;
/** Above both tables' numbers: in a damaged database one may have lost what the other still has. */
const INSERT_PAYLOAD = `
  INSERT INTO waymark_payloads (number, body) VALUES (1 + max(
    ifnull((SELECT max(number) FROM waymark_payloads), 0), ifnull((SELECT max(number) FROM waymark_checkpoints), 0)), ?)`;
const INSERT_CHECKPOINT = `
  INSERT INTO waymark_checkpoints (task_id, ${COLUMNS.replaceAll("c.", "")})
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const INSERT_TASK = `
  INSERT INTO waymark_tasks (last_sequence, newest_sequence, newest_created_at, newest_status, count, task_id)
  VALUES (?, ?, ?, ?, 1, ?)`;
const ADVANCE_TASK = `
  UPDATE waymark_tasks SET last_sequence = ?, newest_sequence = ?, newest_created_at = ?, newest_status = ?,
    count = count + 1 WHERE task_id = ?`;
const UPDATE_STATUS = "UPDATE waymark_checkpoints SET status = ?, error = ?, seal = ? WHERE number = ?";
const UPDATE_TASK_STATUS = "UPDATE waymark_tasks SET newest_status = ? WHERE task_id = ? AND newest_sequence = ?";
const UPDATE_PAYLOAD =
  "UPDATE waymark_checkpoints SET size_bytes = ?, encoding = ?, sha256 = ?, seal = ? WHERE number = ?";
const UPDATE_BODY = "UPDATE waymark_payloads SET body = ? WHERE number = ?";
const REMOVE_BY_ID = "DELETE FROM waymark_checkpoints WHERE task_id = ? AND id = ? RETURNING number, sequence";
const REMOVE_PAYLOAD = "DELETE FROM waymark_payloads WHERE number = ?";
const SHORTEN_TASK = "UPDATE waymark_tasks SET count = count - ? WHERE task_id = ?";
const STEP_BACK_TASK = `
  UPDATE waymark_tasks SET (newest_sequence, newest_created_at, newest_status) = (
    SELECT sequence, created_at, status FROM waymark_checkpoints c
    WHERE c.task_id = waymark_tasks.task_id ORDER BY sequence DESC LIMIT 1) WHERE task_id = ?`;
const IN_RANGE = "WHERE task_id >= ? AND task_id < ?";
const REMOVE_PAYLOADS = `DELETE FROM waymark_payloads WHERE number IN (SELECT number FROM waymark_checkpoints ${IN_RANGE})`;
const REMOVE_CHECKPOINTS = `DELETE FROM waymark_checkpoints ${IN_RANGE}`;
const REMOVE_TASKS = `DELETE FROM waymark_tasks ${IN_RANGE}`;

/**
 * What is changed in an open database of ours: each call in one transaction, with its condition checked in the same.
 * Every method is synchronous. They throw what SQLite throws.
 */
export class SqliteWriter {
  readonly #database: SqliteConnection;
  readonly #path: string;
  readonly #begin: SqliteStatement;
  readonly #commit: SqliteStatement;
  readonly #position: SqliteStatement;
  readonly #insertPayload: SqliteStatement;
  readonly #insertCheckpoint: SqliteStatement;
  readonly #insertTask: SqliteStatement;
  readonly #advanceTask: SqliteStatement;

  constructor(database: SqliteConnection, path: string) {
    this.#database = database;
    this.#path = path;
    const prepare = (sql: string) => database.database.prepare(sql);
    this.#begin = prepare("BEGIN IMMEDIATE");
    this.#commit = prepare("COMMIT");
    this.#position = prepare(POSITION).raw();
    this.#insertPayload = prepare(INSERT_PAYLOAD);
    this.#insertCheckpoint = prepare(INSERT_CHECKPOINT);
    this.#insertTask = prepare(INSERT_TASK);
    this.#advanceTask = prepare(ADVANCE_TASK);
  }

  append(draft: CheckpointDraft, condition: AppendCondition | undefined): number {
    // Without a closure: this is what every save runs through.
    this.#begin.run();
    try {
      const sequence = this.#append(draft, condition);
      this.#commit.run();
      return sequence;
    } catch (error) {
      // After some errors SQLite has rolled back already.
      if (this.#database.database.inTransaction) this.#database.run("ROLLBACK");
      throw error;
    }
  }

  setStatus(taskId: string, id: string, change: StatusChange, condition: AppendCondition | undefined): boolean {
    return this.#database.atomically(() => {
      const row = this.#database.one(BY_ID, taskId, id);
      if (row === undefined) return false;
      checkExpected(taskId, this.#newestSequence(taskId), condition);
      const { sequence, status, error, seal } = withStatus(this.#readable(taskId, row), change);
      this.#database.run(UPDATE_STATUS, status, jsonOf(error), seal, row[0]);
      this.#database.run(UPDATE_TASK_STATUS, status, taskId, sequence);
      return true;
    });
  }

  replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): boolean {
    return this.#database.atomically(() => {
      const row = this.#database.one(BY_ID, taskId, id);
      if (row === undefined) return false;
      const record = this.#readable(taskId, row);
      if (record.payload.sha256 !== expectedSha256) return false;
      const { sizeBytes, seal } = withPayload(record, payload);
      this.#database.run(UPDATE_PAYLOAD, sizeBytes, payload.encoding, payload.sha256, seal, row[0]);
      this.#database.run(UPDATE_BODY, payload.body, row[0]);
      return true;
    });
  }

  remove(taskId: string, ids: readonly string[] | "all", condition: AppendCondition | undefined): number {
    return this.#database.atomically(() => {
      const newest = this.#newestSequence(taskId);
      checkExpected(taskId, newest, condition);
      // No other text lies between an id and that id with the first character of all after it.
      if (ids === "all") return this.#removeRange({ from: taskId, below: `${taskId}\0` });
      let removed = 0;
      let isNewestRemoved = false;
      for (const id of ids) {
        const row = this.#database.one(REMOVE_BY_ID, taskId, id);
        if (row === undefined) continue;
        removed += 1;
        isNewestRemoved ||= row[1] === newest;
        this.#database.run(REMOVE_PAYLOAD, row[0]);
      }
      if (removed > 0) this.#database.run(SHORTEN_TASK, removed, taskId);
      if (isNewestRemoved) this.#database.run(STEP_BACK_TASK, taskId);
      return removed;
    });
  }

  removeTasks(range: TaskRange): number {
    return this.#database.atomically(() => this.#removeRange(range));
  }

  #append(draft: CheckpointDraft, condition: AppendCondition | undefined): number {
    const { taskId, createdAt, stage, label, parentId, status, stateVersion, sizeBytes, payload } = draft;
    const row: unknown = this.#position.get(taskId, draft.id, taskId);
    const [taken, last, newest]: SqliteRow = Array.isArray(row) ? row : [];
    if (typeof taken === "number") return this.#sequenceOfSame(draft);
    if (last === null) this.#assertNew(taskId);

    const position = { newestSequence: numberOr0(newest), lastSequence: numberOr0(last) };
    const { sequence, seal } = sealDraft(draft, nextSequence(taskId, position, condition));
    const number = this.#insertPayload.run(payload.body).lastInsertRowid;
    this.#insertCheckpoint.run(
      taskId,
      number,
      sequence,
      draft.id,
      createdAt,
      stage,
      label,
      parentId,
      jsonOf(draft.metadata),
      status,
      jsonOf(draft.error),
      stateVersion,
      sizeBytes,
      payload.encoding,
      payload.sha256,
      seal,
    );
    const writeTask = last === null ? this.#insertTask : this.#advanceTask;
    writeTask.run(sequence, sequence, createdAt, status, taskId);
    return sequence;
  }

  #sequenceOfSame(draft: CheckpointDraft): number {
    const { taskId, id } = draft;
    return sequenceOfSame(this.#readable(taskId, this.#database.one(BY_ID, taskId, id) ?? []), draft);
  }

  /** @throws {CheckpointCorruptError} The task has checkpoints, and its row, which has the numbering, is lost. */
  #assertNew(taskId: string): void {
    if (this.#database.one(ANY_CHECKPOINT, taskId) === undefined) return;
    throw new CheckpointCorruptError(
      `Task ${JSON.stringify(taskId)} has checkpoints in ${this.#path}, but no row in waymark_tasks, which keeps its numbering. ` +
        "Nothing was stored, and its checkpoints are intact. A repair makes the row again.",
    );
  }

  #removeRange({ from, below }: TaskRange): number {
    this.#database.run(REMOVE_PAYLOADS, from, below);
    this.#database.run(REMOVE_TASKS, from, below);
    return this.#database.run(REMOVE_CHECKPOINTS, from, below);
  }

  #newestSequence(taskId: string): number {
    return numberOr0(this.#database.one(NEWEST, taskId)?.[0]);
  }

  /** @throws {CheckpointCorruptError} The row can't be read. */
  #readable(taskId: string, row: SqliteRow): SealedSummary {
    const found = sealedSummaryOf(taskId, row, this.#path);
    if (!("corrupt" in found)) return found;
    throw new CheckpointCorruptError(
      `Checkpoint ${found.id ?? "?"} of task ${JSON.stringify(taskId)} can't be read: ${found.reason} (${found.location}). ` +
        "Nothing was changed, and it was left untouched.",
      { cause: found.cause },
    );
  }
}

/** For a column of JSON. */
function jsonOf(value: object | undefined): string | undefined {
  return value && JSON.stringify(value);
}
