import { basename } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  CheckedRecord,
  CorruptRecord,
  DatabaseFinding,
  RecordFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
} from "../../src/contract/adapter.js";
import { CheckpointCorruptError, StorageError, UnsupportedFormatError } from "../../src/contract/errors.js";
import { BELOW_ALL, ENTRIES_AT_ONCE, type Entry, type InspectedRow, type SqliteCare } from "./care.js";
import { draftsBeside, removeDraft } from "./drafts.js";
import { damageInLog } from "./log-check.js";

/** How an adapter gets at its open store: `undefined` where there is none. */
export interface CareAccess {
  readonly path: string;
  /** Whether it is open already. Opening is no matter of course: see {@link inspectStore}. */
  readonly isOpen: () => boolean;
  readonly read: <Result>(work: (care: SqliteCare) => Result) => Promise<Result | undefined>;
  readonly write: <Result>(work: (care: SqliteCare) => Result) => Promise<Result | undefined>;
}

const STRAY_PAYLOAD = "it is the payload of a checkpoint that isn't there";
/** Of an id that can't be shown as text. */
const SHOWN_BYTES = 32;
const QUARANTINE = "table waymark_quarantine";
const LOG_ADVICE =
  "Copy the file and its -wal before anything else: the next program that opens the database goes on without what the " +
  "damage hides, and deletes the log.";

/** All that is wrong with a database, and beside it. */
export async function* verifyDatabase(
  access: CareAccess,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  yield* draftsBeside(access.path);
  try {
    for await (const item of inspectStore(access, quick)) yield item.kind === "row" ? rowFinding(item) : item;
  } catch (error) {
    yield databaseFinding(access.path, error);
  }
}

/** Moves damaged rows to a table of their own. A database that SQLite finds malformed isn't written to. */
export async function* repairDatabase(
  access: CareAccess,
  { leftoversOlderThanMs, dryRun }: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  const { path } = access;
  for (const finding of draftsBeside(path)) {
    if (Date.parse(finding.modifiedAt) > Date.now() - leftoversOlderThanMs) {
      yield { action: "left", finding, advice: "Its writer may still live; a later repair removes it." };
    } else {
      yield dryRun ? { action: "removed", finding } : removeDraft(finding);
    }
  }
  let isMalformed = false;
  try {
    for await (const item of inspectStore(access, false)) {
      if (item.kind === "checked") continue;
      isMalformed ||= item.kind === "database";
      if (isMalformed) yield malformed(item.kind === "row" ? rowFinding(item) : item, path);
      else if (item.kind === "row") {
        const step = await moveRow(access, item, dryRun);
        if (step !== undefined) yield step;
      } else yield await settle(access, item, dryRun);
    }
  } catch (error) {
    yield malformed(databaseFinding(path, error), path);
  }
}

/** A damaged row, with what is needed to move it. */
interface DamagedRow extends Omit<InspectedRow, "sizeBytes" | "damage"> {
  readonly kind: "row";
  readonly damage: CorruptRecord;
  readonly number: string;
  readonly taskId: string;
}

type Inspected = Exclude<StorageFinding, RecordFinding> | CheckedRecord | DamagedRow;

/**
 * SQLite's own check comes first: what it finds decides whether anything may be written. Before that its log, and where
 * that is damaged, nothing is opened: the last one to close a database takes in what can be read of the log and deletes
 * it, with all that the damage hides.
 */
async function* inspectStore(
  { path, isOpen, read }: CareAccess,
  quick: boolean,
): AsyncGenerator<Inspected, void, void> {
  const log = damageInLog(path);
  if (log && !isOpen()) {
    yield { ...log, reason: `${log.reason}. The database was not opened, which would delete the log` };
    return;
  }
  if (log) yield log;
  await read((care) => care.refuseChangedTables());
  const messages = await read((care) => care.integrity(quick));
  for (const reason of messages ?? []) yield { kind: "database", location: path, reason };

  for await (const task of tasksIn(path, read)) {
    if (typeof task === "string") yield* inspectTask(path, task, read, quick);
    else yield task;
  }
  // Where SQLite's check found something, it may be trees in which one payload comes up many times.
  if (quick || (messages ?? []).length > 0) return;
  for await (const stray of ascending(path, "waymark_payloads", (after) => read((care) => care.strayPayloads(after)))) {
    if (typeof stray !== "string") yield stray;
    else yield { kind: "stray", location: `${path}, table waymark_payloads, number ${stray}`, reason: STRAY_PAYLOAD };
  }
}

async function* inspectTask(
  path: string,
  taskId: string,
  read: CareAccess["read"],
  quick: boolean,
): AsyncGenerator<Inspected, void, void> {
  const entries = ascending(path, "waymark_checkpoints", (after) => read((care) => care.entriesOf(taskId, after)));
  for await (const number of entries) {
    if (typeof number !== "string") {
      yield number;
      continue;
    }
    const row = await read((care) => care.inspect(taskId, number, quick));
    if (row === undefined) continue;
    yield { kind: "checked", taskId, sizeBytes: row.sizeBytes };
    if (row.damage) yield { kind: "row", number, taskId, ...row, damage: row.damage };
    await nextTurn();
  }
  const reason = await read((care) => care.numberingDamage(taskId));
  if (reason !== undefined) yield { kind: "numbering", location: `${path}, table waymark_tasks`, reason, taskId };
}

/** Every task, by the bytes of its id. An id that is no text is found, and passed over: none of ours is. */
async function* tasksIn(path: string, read: CareAccess["read"]): AsyncGenerator<string | DatabaseFinding, void, void> {
  for (let last: Uint8Array = Buffer.alloc(0); ; ) {
    const after = last;
    const next = await read((care) => care.taskAfter(after));
    if (next === undefined) return;
    if (Buffer.compare(next, last) <= 0) {
      yield outOfOrder(path, "waymark_tasks");
      return;
    }
    const bytes = Buffer.from(next);
    const id = bytes.toString();
    yield Buffer.from(id).equals(bytes)
      ? id
      : { kind: "database", location: path, reason: `a task's id is no UTF-8: the bytes ${hexOf(bytes)}` };
    last = next;
  }
}

/** The numbers of what is read some at a time, in the order of its keys. A damaged tree may give the same for ever. */
async function* ascending(
  path: string,
  table: string,
  page: (after: string) => Promise<readonly Entry[] | undefined>,
): AsyncGenerator<string | DatabaseFinding, void, void> {
  for (let last = BELOW_ALL; ; ) {
    const entries = (await page(last)) ?? [];
    for (const { key, number } of entries) {
      if (!isAbove(key, last)) {
        yield outOfOrder(path, table);
        return;
      }
      yield number;
      last = key;
    }
    if (entries.length < ENTRIES_AT_ONCE) return;
  }
}

/** Of integers as text. A damaged one may be something else. */
function isAbove(key: string, last: string): boolean {
  return /^-?\d+$/.test(key) && BigInt(key) > BigInt(last);
}

function outOfOrder(path: string, table: string): DatabaseFinding {
  return { kind: "database", location: path, reason: `${table} is out of order, so what comes after can't be found` };
}

function hexOf(bytes: Buffer): string {
  return `${bytes.toString("hex", 0, SHOWN_BYTES)}${bytes.length > SHOWN_BYTES ? "…" : ""}`;
}

function rowFinding({ damage, createdAt, taskId }: DamagedRow): RecordFinding {
  const { corrupt: _corrupt, cause: _cause, ...found } = damage;
  return { kind: "record", ...found, taskId, ...(createdAt === undefined ? undefined : { createdAt }) };
}

/** @returns `undefined` where another process has moved or removed it meanwhile. */
async function moveRow({ write, path }: CareAccess, row: DamagedRow, dryRun: boolean): Promise<RepairStep | undefined> {
  const finding = rowFinding(row);
  if (!row.isReadable) return malformed(finding, path);
  const isMoved = dryRun || (await write((care) => care.quarantine(row.taskId, row.number, finding.reason)));
  if (isMoved !== true) return undefined;
  return { action: "quarantined", finding, to: `${path}, ${QUARANTINE}` };
}

async function settle(
  { read, write, path }: CareAccess,
  finding: Exclude<StorageFinding, RecordFinding>,
  dryRun: boolean,
): Promise<RepairStep> {
  const { taskId } = finding;
  if (finding.kind === "numbering" && taskId !== undefined) {
    const lastSequence = (await read((care) => care.newestSequence(taskId))) ?? 0;
    if (!dryRun) await write((care) => care.renumber(taskId));
    return { action: "renumbered", finding, lastSequence };
  }
  if (finding.kind === "stray") {
    const [number = ""] = /-?\d+$/.exec(finding.location) ?? [];
    if (!dryRun) await write((care) => care.quarantinePayload(number, finding.reason));
    return { action: "quarantined", finding, to: `${path}, ${QUARANTINE}` };
  }
  return malformed(finding, path);
}

function malformed(finding: StorageFinding, path: string): RepairStep {
  const name = basename(path);
  if (finding.kind === "refused") {
    return { action: "left", finding, advice: "It isn't damaged: what is wrong with it says what to do." };
  }
  if (finding.location.endsWith("-wal")) return { action: "left", finding, advice: LOG_ADVICE };
  return {
    action: "left",
    finding,
    advice:
      "A malformed database isn't written to. Copy the file and its -wal; then put back a backup, or save what can be " +
      `read: sqlite3 ${name} .recover | sqlite3 recovered.db`,
  };
}

function databaseFinding(path: string, error: unknown): DatabaseFinding | Extract<StorageFinding, { kind: "refused" }> {
  if (error instanceof UnsupportedFormatError) return { kind: "refused", location: path, reason: error.message };
  if (error instanceof CheckpointCorruptError || isOfSchema(error)) {
    return { kind: "database", location: path, reason: error.message };
  }
  throw error;
}

/** A table or an index is other than Waymark has made it, so that its statements can't be run. */
function isOfSchema(error: unknown): error is StorageError {
  return error instanceof StorageError && Object(error.cause).code === "SQLITE_ERROR";
}
