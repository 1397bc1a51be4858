import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";

const BY_SEQUENCE = "FROM waymark_checkpoints INDEXED BY waymark_checkpoints_by_sequence";
const BY_ID = "FROM waymark_checkpoints INDEXED BY waymark_checkpoints_by_id";
/**
 * One index from its end and from its beginning, as lists go, which end up at different places where it is out of order; and
 * the other one. Where there is nothing, each says so.
 */
const OF_TASK = `
  SELECT (SELECT max(sequence) ${BY_SEQUENCE} WHERE task_id = ? AND sequence > -1e19 AND sequence < 1e19) IS NULL,
    (SELECT min(sequence) ${BY_SEQUENCE} WHERE task_id = ? AND sequence > -1e19 AND sequence < 1e19) IS NULL,
    NOT EXISTS (SELECT 1 ${BY_ID} WHERE task_id = ?)`;
const IN_RANGE = `
  SELECT NOT EXISTS (SELECT 1 ${BY_SEQUENCE} WHERE task_id >= ? AND task_id < ?),
    NOT EXISTS (SELECT 1 ${BY_ID} WHERE task_id >= ? AND task_id < ?)`;

/**
 * What found nothing of a task asks by this whether there is nothing. A single damaged byte makes an index look empty to
 * SQLite, or hides a part of it from a search; it reads on without an error.
 *
 * @throws {CheckpointCorruptError} By one way there are checkpoints of the task, and by another there are none.
 */
export function assertAbsent(database: SqliteConnection, path: string, taskId: string): void {
  const answers = database.one(OF_TASK, taskId, taskId, taskId) ?? [];
  if (new Set(answers).size > 1) throw indexDamaged(path, `checkpoints of task ${JSON.stringify(taskId)}`);
}

/**
 * The same of all tasks in a range.
 *
 * @throws {CheckpointCorruptError}
 */
export function assertNoneInRange(
  database: SqliteConnection,
  path: string,
  { from, below }: { readonly from: string; readonly below: string | Uint8Array },
): void {
  const answers = database.one(IN_RANGE, from, below, from, below) ?? [];
  if (new Set(answers).size > 1) throw indexDamaged(path, "checkpoints");
}

function indexDamaged(path: string, what: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `The database ${path} is damaged: by one of its indexes it has ${what}, by another it has none. Nothing was changed. ` +
      "Copy the file and its -wal before anything else; `REINDEX` in the sqlite3 shell makes the indexes anew from the " +
      "checkpoints, and `PRAGMA integrity_check` tells what else is wrong.",
  );
}
