import { COLUMNS } from "../../sql/rows.js";
import { SUMMARY_COLUMNS, type Tables } from "./tables.js";

/**
 * Removes all rows of the tasks in one statement, because another process could begin a task between two statements.
 */
function removeTasks({ tasks, checkpoints, pieces, records }: Tables, range: string): string {
  return `
    WITH removed AS (DELETE FROM ${tasks} ${range}), trimmed AS (DELETE FROM ${pieces} ${range}),
      logged AS (DELETE FROM ${records} ${range})
    DELETE FROM ${checkpoints} ${range}`;
}

/** The statements that change a task's checkpoints. Each transaction locks the task's row first. */
export function makeChangeStatements(tables: Tables) {
  const { tasks, checkpoints, records } = tables;
  /** The changed row's `due_at`, and the columns that determine its new value (see `nextDueAtIn`). */
  const dueColumns = `t.due_at, t.newest_created_at, t.newest_status,
        (SELECT due_at FROM ${checkpoints} c WHERE c.task_id = $1 AND c.sequence = t.newest_sequence)`;
  return {
    /**
     * Locks the task's row. Returns the last sequence taken, and the sequences of the newest checkpoint and the last
     * event.
     */
    lock: `
      SELECT last_sequence, coalesce(newest_sequence, 0), coalesce(last_event, 0)
      FROM ${tasks} WHERE task_id = $1 FOR UPDATE`,
    newest: `SELECT max(sequence) FROM ${checkpoints} WHERE task_id = $1`,

    setStatus: `UPDATE ${checkpoints} SET status = $3, error = $4, seal = $5 WHERE task_id = $1 AND sequence = $2`,
    setTaskStatus: `
      UPDATE ${tasks} t SET newest_status = $3 WHERE task_id = $1 AND newest_sequence = $2 RETURNING ${dueColumns}`,
    setDueAt: `UPDATE ${tasks} SET due_at = $2 WHERE task_id = $1`,
    replacePayload: `
      UPDATE ${checkpoints} SET size_bytes = $3, encoding = $4, sha256 = $5, seal = $6, is_text = $7, body = $8
      WHERE task_id = $1 AND sequence = $2`,

    removeAll: removeTasks(tables, "WHERE task_id = $1"),
    removeSome: `DELETE FROM ${checkpoints} WHERE task_id = $1 AND id_digest = ANY($2) RETURNING sequence, body IS NULL`,
    /** Updates the task's row after $2 checkpoints or some records were removed. */
    shortenTask: `
      UPDATE ${tasks} t SET count = count - $2, (newest_sequence, newest_created_at, newest_status) = (
        SELECT sequence, created_at, status FROM (
          (SELECT sequence, created_at, status FROM ${checkpoints} c WHERE c.task_id = $1 ORDER BY sequence DESC LIMIT 1)
          UNION ALL
          (SELECT NULL, created_at, '' FROM ${records} r WHERE r.task_id = $1 ORDER BY sequence DESC LIMIT 1)) newest
        ORDER BY sequence NULLS LAST LIMIT 1)
      WHERE task_id = $1 RETURNING coalesce(newest_sequence, 0), ${dueColumns}`,
  };
}

/** The statements that remove all tasks with a prefix. */
export function makePrefixStatements(tables: Tables) {
  const { tasks, checkpoints } = tables;
  return {
    lockTasks: `SELECT task_id FROM ${tasks} WHERE task_id >= $1 AND task_id < $2 ORDER BY task_id FOR UPDATE`,
    newestOfTasks: `SELECT task_id, max(sequence) FROM ${checkpoints} WHERE task_id >= $1 AND task_id < $2 GROUP BY task_id`,
    removePrefix: removeTasks(tables, "WHERE task_id = ANY($1)"),
  };
}

/** The statements of `verify` and `repair`. */
export function makeMaintenanceStatements({ tasks, checkpoints, pieces, records, quarantine }: Tables) {
  const lastRecord = `SELECT max(sequence) FROM ${records} WHERE task_id = $1`;
  return {
    /**
     * Reads a task's row and the values that it must have, in one statement, because other processes may write between
     * two statements.
     */
    taskRow: `
      SELECT t.last_sequence, t.count, t.newest_sequence, t.newest_created_at, t.newest_status, t.due_at,
        (SELECT count(*) FROM ${checkpoints} WHERE task_id = $1), c.sequence, coalesce(c.created_at, r.created_at),
        coalesce(c.status, CASE WHEN r.sequence > 0 THEN '' END), c.due_at, r.sequence
      FROM (SELECT 1) i LEFT JOIN ${tasks} t ON t.task_id = $1
      LEFT JOIN ${checkpoints} c ON c.task_id = $1
        AND c.sequence = (SELECT max(sequence) FROM ${checkpoints} WHERE task_id = $1)
      LEFT JOIN ${records} r ON r.task_id = $1 AND r.sequence = (${lastRecord})`,
    replaceTask: `
      INSERT INTO ${tasks}
        (task_id, last_sequence, count, newest_sequence, newest_created_at, newest_status, due_at, last_event)
      VALUES ($1, $2, $3, $4, $5, $6, $7, (${lastRecord} AND id_digest IS NOT NULL))
      ON CONFLICT (task_id) DO UPDATE SET last_sequence = excluded.last_sequence, count = excluded.count,
        newest_sequence = excluded.newest_sequence, newest_created_at = excluded.newest_created_at,
        newest_status = excluded.newest_status, due_at = excluded.due_at, last_event = excluded.last_event,
        last_text = NULL`,

    removeAt: `DELETE FROM ${checkpoints} WHERE task_id = $1 AND sequence = $2`,
    quarantineCheckpoint: `
      INSERT INTO ${quarantine} (task_id, quarantined_at, reason, ${COLUMNS.join(", ")}, id_digest, is_text, form, body)
      SELECT c.task_id, $3, $4, ${SUMMARY_COLUMNS}, c.id_digest, c.is_text, coalesce(p.form, 0), coalesce(c.body, p.body)
      FROM ${checkpoints} c LEFT JOIN ${pieces} p ON c.body IS NULL AND p.task_id = $1
        AND p.number = (SELECT min(number) FROM ${pieces} WHERE task_id = $1 AND number >= $2)
      WHERE c.task_id = $1 AND c.sequence = $2`,
    quarantineRecord: `
      WITH moved AS (DELETE FROM ${records} WHERE task_id = $1 AND sequence = $2 RETURNING *)
      INSERT INTO ${quarantine} (task_id, quarantined_at, reason, sequence, kind, name, record_key, id, id_digest, created_at,
        encoding, sha256, seal, size_bytes, is_text, body)
      SELECT r.task_id, $3, $4, sequence, kind, name, record_key, id, id_digest, created_at, encoding,
        encode(sha256, 'hex'), encode(seal, 'hex'), size_bytes, is_text, body FROM moved r`,
    /** Updates the row's last event after an event was moved to quarantine. */
    setLastEvent: `UPDATE ${tasks} SET last_event = (${lastRecord} AND id_digest IS NOT NULL) WHERE task_id = $1`,
    quarantineTask: `INSERT INTO ${quarantine} (task_id, quarantined_at, reason) VALUES ($1, $2, $3)`,
  };
}
