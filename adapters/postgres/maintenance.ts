import type { CheckpointSummary, StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { makeFinding, makeRecordFinding } from "../../src/contract/header-index.js";
import { RECORD_KINDS } from "../../src/contract/log.js";
import { damageInTaskRow, rebuildTaskRow } from "../sql/damage.js";
import type { MaintainedTables } from "../sql/maintenance.js";
import { entriesInPages, PAGE_ROWS } from "../sql/pages.js";
import { logInPages } from "../sql/records.js";
import type { SqlRow } from "../sql/rows.js";
import { parseNumber } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import type { PostgresHistories } from "./histories.js";
import type { PostgresLog } from "./log.js";
import { describeRecord, describeRow, PAGE_BYTES, type PostgresReader } from "./reader.js";
import type { PostgresStatements } from "./statements.js";
import { shortenTask } from "./writer.js";

interface OpenTables {
  readonly connection: PostgresConnection;
  readonly reader: PostgresReader;
  readonly log: PostgresLog;
  readonly sql: PostgresStatements;
}

/** Runs work with the tables. Resolves to `undefined` if there are no tables. */
type Access = <Result>(work: (tables: OpenTables) => Promise<Result>) => Promise<Result | undefined>;

/** Makes the tables for SqlMaintenance. Each change runs in a transaction, under the task's lock. */
export function makeMaintainedTables(location: string, histories: PostgresHistories, access: Access): MaintainedTables {
  const underLock = async (
    taskId: string,
    work: (run: Statements, tables: OpenTables) => Promise<boolean>,
  ): Promise<boolean> => {
    const isChanged = await access((tables) =>
      tables.connection.atomically(async (run) => {
        await run.rows(tables.sql.changes.lock, taskId);
        return work(run, tables);
      }),
    );
    return isChanged ?? false;
  };
  return {
    location,
    names: { tasks: "tasks", quarantine: "quarantine" },
    advice: "Repair doesn't write to a damaged database. Copy the server's data, then restore a backup.",

    async *taskIds() {
      for (let after = ""; ; ) {
        const found = await access(({ connection, sql }) => connection.rows(sql.acrossTasks.allIds, after, PAGE_ROWS));
        const ids = (found ?? []).map(([taskId]) => String(taskId));
        yield* ids;
        if (ids.length < PAGE_ROWS) return;
        after = ids.at(-1) ?? after;
      }
    },

    checkpoints(taskId, quick) {
      // Read the texts again, because a cached text may be damaged on the server by now.
      histories.forget(taskId);
      return entriesInPages<CheckpointSummary | StoredCheckpoint>(
        { taskId, order: "oldest" },
        PAGE_ROWS,
        (rest, rows) =>
          access(({ reader }) => (quick ? reader.summaries(rest, rows) : reader.checkpoints(rest, rows, PAGE_BYTES))),
      );
    },

    locate: (taskId, sequence) => describeRow(location, taskId, sequence),
    taskRow: (taskId) => access(({ connection, sql }) => readTaskRow(connection, sql, taskId)),

    moveCheckpoint: (taskId, key) =>
      underLock(taskId, async (run, { reader, sql }) => {
        const found = await reader.at(run, taskId, key);
        const finding = found && makeFinding(found, () => describeRow(location, taskId, key));
        if (finding === undefined) return false;
        await run.change(sql.maintenance.quarantineCheckpoint, taskId, key, new Date().toISOString(), finding.reason);
        await run.change(sql.maintenance.removeAt, taskId, key);
        await shortenTask(run, sql.changes, taskId, [Number(key)]);
        await run.change(sql.pieces.trim, taskId);
        return true;
      }),

    records: (taskId, quick) =>
      logInPages({ taskId, order: "oldest", kinds: RECORD_KINDS, headersOnly: quick }, PAGE_ROWS, (rest, rows) =>
        access(({ log }) => log.read(rest, rows)),
      ),

    locateRecord: (taskId, sequence) => describeRecord(location, taskId, sequence),

    moveRecord: (taskId, sequence) =>
      underLock(taskId, async (run, { log, sql }) => {
        const found = await log.at(run, taskId, sequence);
        const finding = found && makeRecordFinding(found, () => describeRecord(location, taskId, sequence));
        if (finding === undefined) return false;
        const note = [new Date().toISOString(), finding.reason];
        await run.change(sql.maintenance.quarantineRecord, taskId, sequence, ...note);
        await run.change(sql.maintenance.setLastEvent, taskId);
        await run.rows(sql.changes.shortenTask, taskId, 0);
        return true;
      }),

    rewriteTaskRow: (taskId) =>
      underLock(taskId, async (run, { sql }) => {
        const row = await readTaskRow(run, sql, taskId);
        const reason = damageInTaskRow(row);
        if (reason === undefined) return false;
        await run.change(sql.maintenance.quarantineTask, taskId, new Date().toISOString(), reason);
        await run.change(sql.maintenance.replaceTask, taskId, ...rebuildTaskRow(row));
        return true;
      }),
  };
}

async function readTaskRow(from: Statements, sql: PostgresStatements, taskId: string): Promise<SqlRow> {
  const [row = []] = await from.rows(sql.maintenance.taskRow, taskId);
  return row.map((value, column) => ([3, 4, 5, 8, 9, 10].includes(column) ? value : parseNumber(value)));
}
