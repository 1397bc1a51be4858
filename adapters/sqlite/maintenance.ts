import type { CheckpointSummary, StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { makeFinding, makeRecordFinding } from "../../src/contract/header-index.js";
import { RECORD_KINDS } from "../../src/contract/log.js";
import { damageInTaskRow, rebuildTaskRow } from "../sql/damage.js";
import { FORM } from "../sql/history.js";
import type { MaintainedTables } from "../sql/maintenance.js";
import { entriesInPages, PAGE_ROWS } from "../sql/pages.js";
import { logInPages, RECORD_COLUMNS } from "../sql/records.js";
import { numberOr0 } from "../sql/rows.js";
import type { CallQueue, SqliteStore } from "./call-queue.js";
import { toRowids } from "./histories.js";
import { COLUMNS, describeRecord, describeRow, minuteOf } from "./rows.js";

const TASK_IDS = `SELECT task_id FROM waymark_tasks UNION SELECT task_id FROM waymark_checkpoints
  UNION SELECT task_id FROM waymark_records ORDER BY task_id`;
/**
 * Reads a task's row and the values that it must have, in one statement, because other processes may write between two
 * statements.
 */
const TASK_ROW = `
  SELECT t.last_sequence, t.count, t.newest_sequence, t.newest_created_at, t.newest_status, t.due_at,
    (SELECT count(*) FROM waymark_checkpoints WHERE task_id = i.task_id), c.sequence,
    coalesce(c.created_at, r.created_at), coalesce(c.status, iif(r.sequence IS NULL, NULL, '')), c.due_at
  FROM (SELECT ? AS task_id) i LEFT JOIN waymark_tasks t ON t.task_id = i.task_id
  LEFT JOIN waymark_checkpoints c ON c.task_id = i.task_id
    AND c.sequence = (SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = i.task_id)
  LEFT JOIN waymark_records r ON r.task_id = i.task_id
    AND r.sequence = (SELECT max(sequence) FROM waymark_records WHERE task_id = i.task_id)`;
const REPLACE_TASK = `
  INSERT INTO waymark_tasks (task_id, last_sequence, count, newest_sequence, newest_created_at, newest_status, due_at)
  VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last_sequence = excluded.last_sequence, count = excluded.count,
    newest_sequence = excluded.newest_sequence, newest_created_at = excluded.newest_created_at,
    newest_status = excluded.newest_status, due_at = excluded.due_at`;
const SET_MINUTE = `UPDATE waymark_tasks SET newest_minute = ${minuteOf("newest_created_at")} WHERE task_id = ?`;
const QUARANTINE_CHECKPOINT = `
  INSERT INTO waymark_quarantine SELECT ?, ?, c.task_id, ${COLUMNS}, p.form, p.body, NULL, NULL, NULL
  FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON (p.number = c.number OR p.form = ${FORM.bundle})
    AND p.number = (SELECT min(number) FROM waymark_payloads WHERE number BETWEEN c.number AND ?) WHERE c.number = ?`;
const QUARANTINE_RECORD = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, task_id, ${RECORD_COLUMNS.join(", ")}, body)
  SELECT ?, ?, task_id, ${RECORD_COLUMNS.join(", ")}, body FROM waymark_records WHERE task_id = ? AND sequence = ?`;
const QUARANTINE_TASK = "INSERT INTO waymark_quarantine (quarantined_at, reason, task_id) VALUES (?, ?, ?)";

/**
 * Makes the tables for SqlMaintenance. SQLite's own check reads the whole database and blocks this process; `quick`
 * shortens it.
 */
export function maintainedTables(queue: CallQueue, path: string): MaintainedTables {
  const atomically = async (work: (store: SqliteStore) => boolean): Promise<boolean> =>
    (await queue.change((store) => store.database.atomically(() => work(store)))) ?? false;
  return {
    location: path,
    names: { tasks: "waymark_tasks", quarantine: "waymark_quarantine" },
    advice:
      "Repair doesn't write to a malformed database. First copy the file and its -wal file. Then restore a backup, or recover " +
      "the readable rows: sqlite3 FILE .recover | sqlite3 recovered.db",

    integrity: async (quick) =>
      (await queue.read(({ database, histories }) => {
        // Read the texts again, because a cached text may be damaged on the disk by now.
        histories.forget();
        const rows = database.all(`PRAGMA ${quick ? "quick_check" : "integrity_check"}`);
        return rows.map(([message]) => String(message)).filter((message) => message !== "ok");
      })) ?? [],

    async *taskIds() {
      for (const [taskId] of (await queue.read(({ database }) => database.all(TASK_IDS))) ?? []) yield String(taskId);
    },

    checkpoints: (taskId, quick) =>
      entriesInPages<CheckpointSummary | StoredCheckpoint>({ taskId, order: "oldest" }, PAGE_ROWS, (rest, rows) =>
        queue.read(({ reader }) => (quick ? reader.summaries(rest, rows) : reader.checkpoints(rest, rows))),
      ),

    locate: (_taskId, number) => describeRow(path, number),
    taskRow: (taskId) => queue.read(({ database }) => database.one(TASK_ROW, taskId) ?? []),

    moveCheckpoint: (taskId, key) =>
      atomically(({ database, reader, writer }) => {
        const number = numberOr0(key);
        const found = reader.at(taskId, number);
        const finding = found && makeFinding(found, () => describeRow(path, number));
        if (!finding) return false;
        const [, last] = toRowids(number);
        database.run(QUARANTINE_CHECKPOINT, new Date().toISOString(), finding.reason, last, number);
        writer.removeRows(taskId, [number]);
        return true;
      }),

    records: (taskId, quick) =>
      logInPages({ taskId, order: "oldest", kinds: RECORD_KINDS, headersOnly: quick }, PAGE_ROWS, (rest, rows) =>
        queue.read(({ log }) => log.read(rest, rows)),
      ),

    locateRecord: (taskId, sequence) => describeRecord(path, taskId, sequence),

    moveRecord: (taskId, sequence) =>
      atomically(({ database, log }) => {
        const found = log.at(taskId, sequence);
        const finding = found && makeRecordFinding(found, () => describeRecord(path, taskId, sequence));
        if (!finding) return false;
        database.run(QUARANTINE_RECORD, new Date().toISOString(), finding.reason, taskId, sequence);
        log.removeAt(taskId, sequence);
        return true;
      }),

    rewriteTaskRow: (taskId) =>
      atomically(({ database }) => {
        const row = database.one(TASK_ROW, taskId) ?? [];
        const reason = damageInTaskRow(row);
        if (reason === undefined) return false;
        database.run(QUARANTINE_TASK, new Date().toISOString(), reason, taskId);
        database.run(REPLACE_TASK, taskId, ...rebuildTaskRow(row));
        database.run(SET_MINUTE, taskId);
        return true;
      }),
  };
}
