import { lstatSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type CorruptRecord, isCorrupt } from "../../src/contract/adapter.js";
import {
  type CheckpointSummary,
  compareTaskIds,
  damageIn,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import type {
  CheckedRecord,
  DamagedFinding,
  LeftoverFinding,
  RefusedFinding,
  RepairStep,
  StorageFinding,
  StorageMaintenance,
  StorageRepair,
  StorageVerification,
} from "../../src/contract/findings.js";
import type { SqliteConnection } from "./connection.js";
import { explain, isDamaged } from "./errors.js";
import { type Entry, SqliteReader } from "./reader.js";
import { COLUMNS, damagedRow, numberOr0 } from "./rows.js";

/** How maintenance gets at the open store: `undefined` where there is none. */
export interface StoreAccess {
  readonly path: string;
  readonly read: <Result>(work: (database: SqliteConnection) => Result) => Promise<Result | undefined>;
  readonly write: <Result>(work: (database: SqliteConnection) => Result) => Promise<Result | undefined>;
}

const PAGE_SIZE = 100;
const MOST_MESSAGES = 100;
/** Nobody takes so long to make a database. */
const STALE_DRAFT_MS = 60_000;

const NEXT_TASK = `
  SELECT min(task_id) FROM (
    SELECT min(task_id) AS task_id FROM waymark_tasks WHERE task_id > ?
    UNION ALL SELECT min(task_id) FROM waymark_checkpoints WHERE task_id > ?)`;
/** A task's row, and what it must say, in one statement: other processes may write between two. */
const TASK_ROW = `
  SELECT t.last_sequence, t.count, t.newest_sequence, t.newest_created_at, t.newest_status,
    (SELECT count(*) FROM waymark_checkpoints WHERE task_id = i.task_id), c.sequence, c.created_at, c.status
  FROM (SELECT ? AS task_id) i LEFT JOIN waymark_tasks t ON t.task_id = i.task_id
  LEFT JOIN waymark_checkpoints c ON c.task_id = i.task_id
    AND c.sequence = (SELECT max(sequence) FROM waymark_checkpoints WHERE task_id = i.task_id)`;
const REPLACE_TASK = "INSERT OR REPLACE INTO waymark_tasks VALUES (?, ?, ?, ?, ?, ?)";
const PARTS = COLUMNS.replace("c.number, ", "c.number, c.task_id, ");
const QUARANTINE_CHECKPOINT = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, ${PARTS.replaceAll("c.", "")}, body)
  SELECT ?, ?, ${PARTS}, p.body FROM waymark_checkpoints c LEFT JOIN waymark_payloads p ON p.number = c.number
  WHERE c.number = ?`;
const QUARANTINE_TASK = `
  INSERT INTO waymark_quarantine (quarantined_at, reason, task_id, sequence, created_at, status, last_sequence, count)
  SELECT ?, ?, task_id, newest_sequence, newest_created_at, newest_status, last_sequence, count
  FROM waymark_tasks WHERE task_id = ?`;

/** Looks for damage and leftovers, and moves them away. */
export class SqliteMaintenance implements StorageMaintenance {
  readonly #access: StoreAccess;

  constructor(access: StoreAccess) {
    this.#access = access;
  }

  /** SQLite's own check reads the whole database, and nothing else in this process runs meanwhile; `quick` is quicker. */
  async *verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    yield* draftsBeside(this.#access.path);
    for await (const item of this.#inspect(quick)) yield "what" in item ? item.finding : item;
  }

  /** Moves damaged rows to the table waymark_quarantine. Writes nothing to a database that SQLite finds malformed. */
  async *repair({ leftoversOlderThanMs, dryRun }: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    const { path, write } = this.#access;
    for (const finding of draftsBeside(path)) {
      if (Date.parse(finding.modifiedAt) > Date.now() - leftoversOlderThanMs) {
        yield { action: "left", finding, advice: "Its writer may still live; a later repair removes it." };
      } else yield dryRun ? { action: "removed", finding } : removeDraft(finding);
    }
    let isMalformed = false;
    for await (const item of this.#inspect(false)) {
      if (!("what" in item)) continue;
      isMalformed ||= item.what === "database";
      if (isMalformed || item.what === "database") {
        yield { action: "left", finding: item.finding, advice: adviceOn(item.finding, path) };
        continue;
      }
      const isMoved = dryRun || (await write((database) => move(database, path, item)));
      // Another process may have moved or removed it in the meantime.
      if (isMoved === true) {
        yield { action: "quarantined", finding: item.finding, to: `${path}, table waymark_quarantine` };
      }
    }
  }

  /** SQLite's own check comes first: what it finds decides whether anything may be written. */
  async *#inspect(quick: boolean): AsyncGenerator<Damage | CheckedRecord, void, void> {
    const { path, read } = this.#access;
    try {
      for (const reason of (await read((database) => integrity(database, quick))) ?? []) {
        yield { what: "database", finding: { kind: "damaged", location: path, reason } };
      }
      for (let last = ""; ; ) {
        const taskId = await read((database) => database.one(NEXT_TASK, last, last)?.[0]);
        if (taskId === null || taskId === undefined) return;
        // What is no UTF-8 comes as another text, and would come forever.
        if (typeof taskId !== "string" || compareTaskIds(taskId, last) <= 0) {
          const reason = `after task ${JSON.stringify(last)} comes an id that is no text, so what follows can't be found`;
          yield { what: "database", finding: { kind: "damaged", location: path, reason } };
          return;
        }
        yield* this.#inspectTask(taskId, quick);
        last = taskId;
      }
    } catch (error) {
      if (error instanceof UnsupportedFormatError) {
        yield { what: "database", finding: { kind: "refused", location: path, reason: error.message } };
      } else if (error instanceof CheckpointCorruptError) {
        yield { what: "database", finding: { kind: "damaged", location: path, reason: error.message } };
      } else throw error;
    }
  }

  async *#inspectTask(taskId: string, quick: boolean): AsyncGenerator<Damage | CheckedRecord, void, void> {
    const { path, read } = this.#access;
    let isNewestDamaged = false;
    for (let afterSequence: number | undefined; ; ) {
      const query = { taskId, order: "oldest", afterSequence } as const;
      const page = await read((database) => {
        const reader = new SqliteReader(database, path);
        return quick ? reader.summaries(query, PAGE_SIZE) : reader.checkpoints(query, PAGE_SIZE);
      });
      for (const { number, found } of page?.entries ?? []) {
        yield { kind: "checked", taskId, sizeBytes: isCorrupt(found) ? 0 : found.sizeBytes };
        const finding = findingOf({ number, found }, path);
        isNewestDamaged = finding !== undefined;
        if (finding) yield { what: "checkpoint", finding, taskId, number };
      }
      await nextTurn();
      if (page?.next === undefined) break;
      afterSequence = page.next;
    }
    const reason = await read((database) => damageInTaskRow(database, taskId, isNewestDamaged));
    if (reason === undefined) return;
    const location = `${path}, table waymark_tasks, task ${JSON.stringify(taskId)}`;
    yield { what: "task", finding: { kind: "damaged", location, reason, taskId }, taskId, number: undefined };
  }
}

/** A finding, with what is needed to move it. */
type Damage = { readonly what: "database"; readonly finding: DamagedFinding | RefusedFinding } | DamagedRow;

interface DamagedRow {
  readonly what: "checkpoint" | "task";
  readonly finding: DamagedFinding;
  readonly taskId: string;
  readonly number: unknown;
}

/** What SQLite's own check says; empty where all is well. */
function integrity(database: SqliteConnection, quick: boolean): readonly string[] {
  try {
    const rows = database.all(`PRAGMA ${quick ? "quick_check" : "integrity_check"}(${MOST_MESSAGES})`);
    const messages = rows.map(([message]) => String(message));
    return messages.length === 1 && messages[0] === "ok" ? [] : messages;
  } catch (error) {
    if (!isDamaged(error)) throw error;
    return [error instanceof Error ? error.message : String(error)];
  }
}

function findingOf(
  { number, found }: Entry<CheckpointSummary | StoredCheckpoint>,
  path: string,
): DamagedFinding | undefined {
  if (isCorrupt(found)) return damaged(found);
  const reason = "payload" in found ? damageIn(found) : undefined;
  if (reason === undefined) return undefined;
  return { ...damaged(damagedRow(path, number, found, reason)), createdAt: found.createdAt };
}

function damaged({ corrupt: _corrupt, cause: _cause, ...found }: CorruptRecord): DamagedFinding {
  return { kind: "damaged", ...found };
}

/** What is wrong with a task's row. A damaged newest checkpoint says nothing about it. */
function damageInTaskRow(database: SqliteConnection, taskId: string, isNewestDamaged: boolean): string | undefined {
  const row = database.one(TASK_ROW, taskId) ?? [];
  const [last, count, newest, createdAt, status, actualCount, sequence, itsCreatedAt, itsStatus] = row;
  if (isNewestDamaged) return undefined;
  if (last === null && count === null)
    return actualCount === 0 ? undefined : "its row, which has its numbering, is gone";
  if (!Number.isSafeInteger(last) || numberOr0(last) < numberOr0(newest)) return `its last sequence is ${String(last)}`;
  if (count !== actualCount) return `it should have ${String(count)} checkpoints, and ${String(actualCount)} are there`;
  if (newest !== sequence) return `its newest checkpoint should be ${String(newest)}, and is ${String(sequence)}`;
  const isSame = createdAt === itsCreatedAt && status === itsStatus;
  return isSame ? undefined : "it says another time or status than its newest checkpoint";
}

/** Moves what the finding is about, in one transaction, unless it is whole by now. */
function move(database: SqliteConnection, path: string, { what, finding, taskId, number }: DamagedRow): boolean {
  const nowIso = new Date().toISOString();
  return database.atomically(() => {
    if (what === "task") {
      if (damageInTaskRow(database, taskId, false) === undefined) return false;
      database.run(QUARANTINE_TASK, nowIso, finding.reason, taskId);
      rewriteTaskRow(database, taskId, true);
      return true;
    }
    const entry = new SqliteReader(database, path).at(taskId, number);
    if (entry === undefined || findingOf(entry, path) === undefined) return false;
    database.run(QUARANTINE_CHECKPOINT, nowIso, finding.reason, number);
    database.run("DELETE FROM waymark_payloads WHERE number = ?", number);
    database.run("DELETE FROM waymark_checkpoints WHERE number = ?", number);
    rewriteTaskRow(database, taskId, false);
    return true;
  });
}

/**
 * Makes the task's row say what its checkpoints say.
 *
 * @param isIntact - Whether they are: a damaged sequence must not become the last one given.
 */
function rewriteTaskRow(database: SqliteConnection, taskId: string, isIntact: boolean): void {
  const [last, , , , , count, sequence, createdAt, status] = database.one(TASK_ROW, taskId) ?? [];
  const known = Number.isSafeInteger(last) ? numberOr0(last) : 0;
  const lastSequence = isIntact || known === 0 ? Math.max(known, numberOr0(sequence)) : known;
  // A damaged value may be of another type than the column takes.
  const texts = [createdAt, status].map((value) => (typeof value === "string" ? value : null));
  database.run(REPLACE_TASK, taskId, lastSequence, count, sequence, ...texts);
}

function adviceOn({ kind }: StorageFinding, path: string): string {
  if (kind === "refused") return "It isn't damaged: its reason says what to do.";
  return (
    "A malformed database isn't written to. Copy the file and its -wal; then put back a backup, or save what can be " +
    `read: sqlite3 ${basename(path)} .recover | sqlite3 recovered.db`
  );
}

/** Databases that were being made when their maker was killed. A folder or a link of such a name is somebody else's. */
function draftsBeside(path: string): LeftoverFinding[] {
  const start = `${basename(path)}.new-`;
  const isDraft = /^\d+-[0-9a-f]{12}(-wal|-shm)?$/;
  try {
    return readdirSync(dirname(path)).flatMap((name): LeftoverFinding[] => {
      if (!name.startsWith(start) || !isDraft.test(name.slice(start.length))) return [];
      const location = join(dirname(path), name);
      const stats = lstatSync(location, { throwIfNoEntry: false });
      if (!stats?.isFile() || stats.mtimeMs > Date.now() - STALE_DRAFT_MS) return [];
      const modifiedAt = stats.mtime.toISOString();
      return [{ kind: "leftover", location, reason: "a killed process was making a database here", modifiedAt }];
    });
  } catch (error) {
    // Without the folder there is no database either.
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw explain(error, path, 0);
  }
}

/** What fails here is reported, and is no reason to leave damaged rows where they are. */
function removeDraft(finding: LeftoverFinding): RepairStep {
  try {
    rmSync(finding.location, { force: true });
    return { action: "removed", finding };
  } catch (error) {
    return { action: "left", finding, advice: `It could not be removed, and harms nothing: ${String(error)}` };
  }
}
