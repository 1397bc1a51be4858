import { isCorrupt } from "../../src/contract/adapter.js";
import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import type {
  CheckedRecord,
  DamagedFinding,
  RefusedFinding,
  RepairStep,
  StorageFinding,
  StorageMaintenance,
  StorageRepair,
  StorageVerification,
} from "../../src/contract/findings.js";
import { damageInTaskRow, findingOf, taskRowOf } from "../sql/damage.js";
import type { SqlRow } from "../sql/rows.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { numberIn, type PostgresReader, rangeOf } from "./reader.js";
import type { PostgresStatements } from "./statements.js";

/** What works with the tables. */
export interface OpenTables {
  readonly connection: PostgresConnection;
  readonly reader: PostgresReader;
  readonly sql: PostgresStatements;
}

/** How maintenance gets at the tables. It resolves to `undefined` if there are none. */
export interface TablesAccess {
  readonly place: string;
  readonly call: <Result>(work: (tables: OpenTables) => Promise<Result>) => Promise<Result | undefined>;
}

const PAGE = { rows: 256, bytes: 256 * 1024 };
const ADVICE = {
  refused: "It isn't damaged: its reason says what to do.",
  damaged: "Repair doesn't write to a damaged database. Copy the server's data; then put back a backup.",
};

/** A finding, and how to move what it is about, in a transaction under the task's lock. */
interface Damage {
  readonly finding: DamagedFinding | RefusedFinding;
  /** Gives false if another process has moved, removed or repaired it since. Without it, repair writes nothing. */
  readonly move?: (tables: OpenTables, run: Statements) => Promise<boolean>;
}

/** Finds damaged rows and moves them to the table quarantine. */
export class PostgresMaintenance implements StorageMaintenance {
  readonly #access: TablesAccess;

  constructor(access: TablesAccess) {
    this.#access = access;
  }

  async *verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    for await (const item of this.#inspect(quick)) yield "finding" in item ? item.finding : item;
  }

  /** Moves each damaged row in one transaction. */
  async *repair({ dryRun }: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    const { place, call } = this.#access;
    for await (const item of this.#inspect(false)) {
      if (!("finding" in item)) continue;
      const { finding, move } = item;
      if (move === undefined || finding.kind === "refused") {
        yield { action: "left", finding, advice: ADVICE[finding.kind] };
        continue;
      }
      const moved = dryRun || (await call((tables) => tables.connection.atomically((run) => move(tables, run))));
      if (moved === true) yield { action: "quarantined", finding, to: `${place}, table quarantine` };
    }
  }

  async *#inspect(quick: boolean): AsyncGenerator<Damage | CheckedRecord, void, void> {
    const { place, call } = this.#access;
    try {
      for (let after = ""; ; ) {
        const rows =
          (await call(({ connection, sql }) => connection.rows(sql.acrossTasks.allIds, after, PAGE.rows))) ?? [];
        for (const [taskId] of rows) yield* this.#inspectTask(String(taskId), quick);
        if (rows.length < PAGE.rows) return;
        after = String(rows.at(-1)?.[0]);
      }
    } catch (error) {
      const isRefused = error instanceof UnsupportedFormatError;
      if (!isRefused && !(error instanceof CheckpointCorruptError)) throw error;
      yield { finding: { kind: isRefused ? "refused" : "damaged", location: place, reason: error.message } };
    }
  }

  async *#inspectTask(taskId: string, quick: boolean): AsyncGenerator<Damage | CheckedRecord, void, void> {
    const { place, call } = this.#access;
    const query = { taskId, order: "oldest" } as const;
    let isIntact = true;
    for (let range = rangeOf(query); ; ) {
      const page = await call(({ reader, connection }) =>
        quick ? reader.summaries(connection, query, range, PAGE) : reader.checkpoints(connection, query, range, PAGE),
      );
      for (const { found, sequence } of page?.entries ?? []) {
        yield { kind: "checked", taskId, sizeBytes: isCorrupt(found) ? 0 : found.sizeBytes };
        const location = `${place}, table checkpoints, task ${JSON.stringify(taskId)}, sequence ${sequence}`;
        const finding = findingOf(found, () => location);
        if (finding === undefined) continue;
        isIntact = false;
        yield { finding, move: (tables, run) => moveCheckpoint(tables, run, { taskId, sequence, location }) };
      }
      if (page?.rest === undefined) break;
      range = page.rest;
    }
    // A damaged checkpoint may be why the task's row differs; moving it writes the row again.
    const row = isIntact ? await call(({ connection, sql }) => taskRow(connection, sql, taskId)) : undefined;
    const reason = row && damageInTaskRow(row);
    if (reason === undefined) return;
    const location = `${place}, table tasks, task ${JSON.stringify(taskId)}`;
    yield {
      finding: { kind: "damaged", location, reason, taskId },
      move: ({ sql }, run) => rewriteTaskRow(run, sql, taskId),
    };
  }
}

async function moveCheckpoint(
  { reader, sql }: OpenTables,
  run: Statements,
  { taskId, sequence, location }: { readonly taskId: string; readonly sequence: string; readonly location: string },
): Promise<boolean> {
  await run.rows(sql.lock, taskId);
  const found = await reader.at(run, taskId, sequence);
  const finding = found && findingOf(found, () => location);
  if (finding === undefined) return false;
  await run.change(sql.quarantineCheckpoint, taskId, sequence, new Date().toISOString(), finding.reason);
  await run.change(sql.shortenTask, taskId, await run.change(sql.removeAt, taskId, sequence));
  return true;
}

/** Makes the task's row say what its checkpoints say. */
async function rewriteTaskRow(run: Statements, sql: PostgresStatements, taskId: string): Promise<boolean> {
  await run.rows(sql.lock, taskId);
  const row = await taskRow(run, sql, taskId);
  const reason = damageInTaskRow(row);
  if (reason === undefined) return false;
  await run.change(sql.quarantineTask, taskId, new Date().toISOString(), reason);
  await run.change(sql.replaceTask, taskId, ...taskRowOf(row));
  return true;
}

/** As damageInTaskRow takes it. */
async function taskRow(from: Statements, sql: PostgresStatements, taskId: string): Promise<SqlRow> {
  const [row = []] = await from.rows(sql.taskRow, taskId);
  return row.map((value, column) => ([3, 4, 7, 8].includes(column) ? value : numberIn(value)));
}
