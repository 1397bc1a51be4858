import type { StatusOptions } from "../../src/contract/adapter.js";
import {
  type Payload,
  type SealedSummary,
  type StatusChange,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import {
  type AppendCondition,
  type ExpectedTask,
  requireNewest,
  requireNoEvent,
  requireUnchangedTasks,
} from "../../src/contract/conditions.js";
import { StorageError } from "../../src/contract/errors.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { HIGHEST, nextDueAtIn, type SqlRow, toJson } from "../sql/rows.js";
import { makeAppendStatement } from "./append-parameters.js";
import type { PostgresChanges } from "./changes.js";
import { digestId, toBytes } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import type { PostgresLeases } from "./leases.js";
import type { PostgresLog } from "./log.js";
import type { PostgresReader } from "./reader.js";
import type { PostgresStatements } from "./statements.js";
import type { TransientCheckpoints } from "./transient.js";

/** The part of a locked task's row that a change needs. */
interface Position {
  readonly lastEvent: number;
}

interface WriterParts {
  readonly connection: PostgresConnection;
  readonly sql: PostgresStatements;
  readonly reader: PostgresReader;
  readonly leases: PostgresLeases;
  readonly transient: TransientCheckpoints;
  readonly log: PostgresLog;
  readonly changes: PostgresChanges;
}

/** Changes and removes checkpoints. Each call is all or nothing, and checks its condition in the same step. */
export class PostgresWriter {
  readonly #parts: WriterParts;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition: AppendCondition | undefined,
    { records = [] }: StatusOptions = {},
  ): Promise<boolean> {
    const isChanged = await this.#change(taskId, id, condition, async (record, run, { lastEvent }) => {
      await this.#requireNewest(run, taskId, condition);
      requireNoEvent(taskId, lastEvent, condition);
      await this.#parts.log.matchEvents(run, taskId, records, true);
      const { sequence, status, error, seal } = withStatus(record, change);
      await run.change(this.#parts.sql.changes.setStatus, taskId, sequence, status, toJson(error) ?? null, seal);
      const row = await run.rows(this.#parts.sql.changes.setTaskStatus, taskId, sequence, status);
      await updateDueAt(run, this.#parts.sql.changes, taskId, row);
      if (records.length > 0) {
        await run.rows(...makeAppendStatement(this.#parts.sql, [{ taskId, records, condition: {}, options: {} }]));
      }
      return true;
    });
    if (isChanged) this.#parts.changes.note(taskId, true);
    return isChanged;
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    return this.#change(taskId, id, undefined, async (record, run) => {
      if (record.payload.sha256 !== expectedSha256) return false;
      const { sequence, sizeBytes, seal } = withPayload(record, payload);
      const described = [
        sizeBytes,
        payload.encoding,
        payload.sha256,
        seal,
        typeof payload.body === "string",
        toBytes(payload),
      ];
      await run.change(this.#parts.sql.changes.replacePayload, taskId, sequence, ...described);
      await run.change(this.#parts.sql.pieces.trim, taskId);
      return true;
    });
  }

  async remove(
    taskId: string,
    ids: readonly string[] | "all",
    condition: AppendCondition | undefined,
  ): Promise<number> {
    const count = await this.#parts.connection.atomically(async (run) => {
      await this.#parts.leases.check(run, taskId, condition);
      const position = await this.#lock(run, taskId);
      if (position === undefined) {
        requireNewest(taskId, 0, condition);
        return 0;
      }
      await this.#requireNewest(run, taskId, condition);
      requireNoEvent(taskId, position.lastEvent, condition);
      if (ids === "all") return run.change(this.#parts.sql.changes.removeAll, taskId);
      const removed = await run.rows(this.#parts.sql.changes.removeSome, taskId, ids.map(digestId));
      const sequences = removed.map(([sequence]) => Number(sequence));
      if (removed.length > 0) await shortenTask(run, this.#parts.sql.changes, taskId, sequences);
      if (removed.some(([, hasPiece]) => hasPiece === true)) await run.change(this.#parts.sql.pieces.trim, taskId);
      return removed.length;
    });
    // Followers of a removed task end. For other removals no notification is sent: no watcher needs it, and retention
    // policies remove many checkpoints.
    if (ids === "all") this.#parts.changes.note(taskId, false);
    return count;
  }

  async removePrefix(prefix: string, expected: readonly ExpectedTask[] | undefined): Promise<number> {
    const { lockTasks, newestOfTasks, removePrefix } = this.#parts.sql.acrossTasks;
    let taskIds: readonly string[] = [];
    const count = await this.#parts.connection.atomically(async (run) => {
      // Only the locked tasks are removed, not tasks that begin later.
      const locked = await run.rows(lockTasks, prefix, prefix + HIGHEST);
      if (expected !== undefined) {
        const rows = await run.rows(newestOfTasks, prefix, prefix + HIGHEST);
        const found = rows.map(([taskId, newest]) => ({ taskId: String(taskId), newestSequence: Number(newest) }));
        requireUnchangedTasks(prefix, found, expected);
      }
      taskIds = locked.flat().map(String);
      return run.change(removePrefix, taskIds);
    });
    for (const taskId of taskIds) this.#parts.changes.note(taskId, false);
    return count;
  }

  #change(
    taskId: string,
    id: string,
    condition: AppendCondition | undefined,
    change: (record: SealedSummary, run: Statements, position: Position) => Promise<boolean>,
  ): Promise<boolean> {
    this.#parts.transient.forget(taskId);
    return this.#parts.connection.atomically(async (run) => {
      await this.#parts.leases.check(run, taskId, condition);
      const position = await this.#lock(run, taskId);
      if (position === undefined) return false;
      const found = await this.#parts.reader.sealed(run, taskId, id);
      return found !== undefined && change(requireIntact(found), run, position);
    });
  }

  /**
   * Locks the task's row. Returns `undefined` if there is no such task. The caller must then not change the task,
   * because it isn't locked, and another process may begin it.
   */
  async #lock(run: Statements, taskId: string): Promise<Position | undefined> {
    const [row] = await run.rows(this.#parts.sql.changes.lock, taskId);
    if (row !== undefined) return { lastEvent: Number(row[2]) };
    // A statement sees a single snapshot. If it finds checkpoints but no row, the task is damaged: a task that another
    // process has just begun would have both.
    const [[last, , , , , , checkpoints] = []] = await run.rows(this.#parts.sql.maintenance.taskRow, taskId);
    if (last === null && Number(checkpoints) > 0) throw makeDamageError(taskId);
    return undefined;
  }

  async #requireNewest(run: Statements, taskId: string, condition: AppendCondition | undefined): Promise<void> {
    if (condition?.expectedSequence === undefined) return;
    const [[newest] = []] = await run.rows(this.#parts.sql.changes.newest, taskId);
    requireNewest(taskId, Number(newest ?? 0), condition);
  }
}

export function makeDamageError(taskId: string): StorageError {
  return new StorageError(
    `The row of task ${JSON.stringify(taskId)} is damaged: it doesn't count all of the task's checkpoints. Nothing was ` +
      "changed, and the checkpoints are intact. Run `waymark repair` to rebuild the row.",
  );
}

/** Updates a task's row after the checkpoints with these sequences were removed, in the same transaction. */
export async function shortenTask(
  run: Statements,
  changes: PostgresStatements["changes"],
  taskId: string,
  removed: readonly number[],
): Promise<void> {
  for (const [newest, ...row] of await run.rows(changes.shortenTask, taskId, removed.length)) {
    const wasNewest = removed.some((sequence) => sequence > Number(newest));
    if (wasNewest) await updateDueAt(run, changes, taskId, [row]);
  }
}

/**
 * Updates a task's `due_at` in the transaction that has changed its newest checkpoint. Until then, a time that a record
 * has set still holds.
 *
 * @param rows - The values that determine `due_at`, as the change returned them. No row means that nothing was changed.
 */
async function updateDueAt(
  run: Statements,
  { setDueAt }: PostgresStatements["changes"],
  taskId: string,
  [row]: readonly SqlRow[],
): Promise<void> {
  if (row === undefined) return;
  const [dueAt, ...newest] = row;
  const next = nextDueAtIn(newest, dueAt);
  if (next !== dueAt) await run.change(setDueAt, taskId, next);
}
