import { setImmediate as nextTurn } from "node:timers/promises";
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
import type { SqliteConnection } from "./connection.js";
import type { SqliteReader } from "./reader.js";
import { COLUMNS, locationOf } from "./rows.js";
import { removeRows } from "./writer.js";

/** How maintenance gets at the open database. Both resolve to `undefined` if there is none. */
export interface StoreAccess {
  readonly path: string;
  readonly read: <Result>(work: (store: Store) => Result) => Promise<Result | undefined>;
  readonly write: <Result>(work: (store: Store) => Result) => Promise<Result | undefined>;
}

type Store = { readonly database: SqliteConnection; readonly reader: SqliteReader };

const PAGE_SIZE = 100;
const ADVICE = {
  refused: "It isn't damaged: its reason says what to do.",
  damaged:
    "Repair doesn't write to a malformed database. Copy the file and its -wal; then put back a backup, or save what can " +
    "be read: sqlite3 FILE .recover | sqlite3 recovered.db",
};

const TASK_IDS = "SELECT task_id FROM waymark_tasks UNION SELECT task_id FROM waymark_checkpoints ORDER BY task_id";
/** A task's row, and what it must say, in one statement: other processes may write between two. */
const TASK_ROW = `
  SELECT t.last_sequence, t.count, t.newest_sequence, t.newest_created_at, t.newest_status,
    (SELECT count(*) FROM waymark_checkpoints WHERE task_id = i.task_id), c.sequence, c.created_at, c.status
  FROM (SELECT ? AS task_id) i LEFT JOIN waymark_tasks t ON t.task_id = i.task_id
  LEFT JOIN waymark_checkpoints c ON c.task_id = i.task_id
    AND c.sequence = (SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = i.task_id)`;
const REPLACE_TASK = "INSERT OR REPLACE INTO waymark_tasks VALUES (?, ?, ?, ?, ?, ?)";
const QUARANTINE_CHECKPOINT = `
  INSERT INTO waymark_quarantine SELECT ?, ?, c.task_id, ${COLUMNS}, p.body
  FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON p.number = c.number WHERE c.number = ?`;
const QUARANTINE_TASK = "INSERT INTO waymark_quarantine (quarantined_at, reason, task_id) VALUES (?, ?, ?)";

/** A finding, and how to move what it is about, in a transaction. */
interface Damage {
  readonly finding: DamagedFinding | RefusedFinding;
  /** Gives false if another process has moved, removed or repaired it since. Without it, repair writes nothing. */
  readonly move?: (store: Store) => boolean;
}

/** Finds damaged rows and moves them to the table waymark_quarantine. */
export class SqliteMaintenance implements StorageMaintenance {
  readonly #access: StoreAccess;

  constructor(access: StoreAccess) {
    this.#access = access;
  }

  /** SQLite's own check reads the whole database and blocks this process; `quick` is quicker. */
  async *verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    for await (const item of this.#inspect(quick)) yield "finding" in item ? item.finding : item;
  }

  /** Moves each damaged row in one transaction. Writes nothing to a database that SQLite finds malformed. */
  async *repair({ dryRun }: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    const { path, write } = this.#access;
    for await (const item of this.#inspect(false)) {
      if (!("finding" in item)) continue;
      const { finding, move } = item;
      if (move === undefined || finding.kind === "refused") {
        yield { action: "left", finding, advice: ADVICE[finding.kind] };
      } else if (dryRun || (await write((store) => store.database.atomically(() => move(store)))) === true) {
        yield { action: "quarantined", finding, to: `${path}, table waymark_quarantine` };
      }
    }
  }

  /** Rows are looked at only if SQLite finds the database well formed. */
  async *#inspect(quick: boolean): AsyncGenerator<Damage | CheckedRecord, void, void> {
    const { path, read } = this.#access;
    try {
      const reasons = (await read(({ database }) => integrity(database, quick))) ?? [];
      for (const reason of reasons) yield { finding: { kind: "damaged", location: path, reason } };
      if (reasons.length > 0) return;
      const rows = (await read(({ database }) => database.all(TASK_IDS))) ?? [];
      for (const [taskId] of rows) yield* this.#inspectTask(String(taskId), quick);
    } catch (error) {
      const isRefused = error instanceof UnsupportedFormatError;
      if (!isRefused && !(error instanceof CheckpointCorruptError)) throw error;
      yield { finding: { kind: isRefused ? "refused" : "damaged", location: path, reason: error.message } };
    }
  }

  async *#inspectTask(taskId: string, quick: boolean): AsyncGenerator<Damage | CheckedRecord, void, void> {
    const { path, read } = this.#access;
    let isIntact = true;
    for (let afterSequence: number | undefined; ; ) {
      const query = { taskId, order: "oldest", afterSequence } as const;
      const page = await read(({ reader }) => reader[quick ? "summaries" : "checkpoints"](query, PAGE_SIZE));
      for (const entry of page?.entries ?? []) {
        yield { kind: "checked", taskId, sizeBytes: isCorrupt(entry.found) ? 0 : entry.found.sizeBytes };
        const finding = findingOf(entry.found, () => locationOf(path, entry.number));
        if (!finding) continue;
        isIntact = false;
        yield { finding, move: (store) => moveCheckpoint(store, path, taskId, entry.number) };
      }
      await nextTurn();
      if (page?.next === undefined) break;
      afterSequence = page.next;
    }
    // A damaged checkpoint may be why the task's row differs; moving it writes the row again.
    const reason = isIntact ? await read(({ database }) => differenceOf(database, taskId)) : undefined;
    if (reason === undefined) return;
    const location = `${path}, table waymark_tasks, task ${JSON.stringify(taskId)}`;
    const finding = { kind: "damaged", location, reason, taskId } as const;
    yield { finding, move: ({ database }) => rewriteTaskRow(database, taskId) };
  }
}

/** What SQLite's own check reports. */
function integrity(database: SqliteConnection, quick: boolean): readonly string[] {
  const rows = database.all(`PRAGMA ${quick ? "quick_check" : "integrity_check"}`);
  return rows.map(([message]) => String(message)).filter((message) => message !== "ok");
}

function moveCheckpoint({ database, reader }: Store, path: string, taskId: string, number: unknown): boolean {
  const found = reader.at(taskId, number);
  const finding = found && findingOf(found, () => locationOf(path, number));
  if (!finding) return false;
  database.run(QUARANTINE_CHECKPOINT, new Date().toISOString(), finding.reason, number);
  removeRows(database, taskId, [number]);
  return true;
}

/** How a task's row differs from the task's checkpoints. */
function differenceOf(database: SqliteConnection, taskId: string): string | undefined {
  return damageInTaskRow(database.one(TASK_ROW, taskId) ?? []);
}

/** Makes the task's row say what its checkpoints say. */
function rewriteTaskRow(database: SqliteConnection, taskId: string): boolean {
  const row = database.one(TASK_ROW, taskId) ?? [];
  const reason = damageInTaskRow(row);
  if (reason === undefined) return false;
  database.run(QUARANTINE_TASK, new Date().toISOString(), reason, taskId);
  database.run(REPLACE_TASK, taskId, ...taskRowOf(row));
  return true;
}
