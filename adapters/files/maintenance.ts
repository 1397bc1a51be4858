import { rmSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { setImmediate } from "node:timers/promises";
import { types } from "node:util";
import { findDamage, type StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { CheckpointError } from "../../src/contract/errors.js";
import type {
  CheckedRecord,
  DamagedFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
} from "../../src/contract/findings.js";
import { findRecordDamage } from "../../src/contract/log.js";
import { isFolder, makeFolders, readStats, UnreadableError } from "./file-io.js";
import type { HeldLog } from "./held-log.js";
import { type FolderLock, listAbandoned } from "./lock.js";
import { describeRecord, keepLine, readEntries, rewriteLog } from "./log.js";
import { readIndex, requireOwner } from "./log-file.js";
import { joinHeader, joinLogRecord } from "./log-line.js";
import type { LogEntry } from "./log-scan.js";
import { shortDigest } from "./names.js";
import { attempt, type LoadTask, type RecordHead, type RecordSource } from "./record.js";
import { listTaskFolders, type TaskFolder } from "./task-scan.js";

/** A checkpoint, a line of the log, or a leftover. */
interface Examined {
  readonly checked?: CheckedRecord;
  readonly finding?: StorageFinding | undefined;
  readonly entry?: RecordSource;
  readonly line?: LogEntry;
}

export async function* verifyFolders(
  root: string,
  load: LoadTask,
  logName: string,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  for (const folder of sortTaskFolders(root)) {
    for await (const { checked, finding } of examine(folder, load, logName, quick)) {
      if (checked) yield checked;
      if (finding) yield finding;
      await setImmediate();
    }
  }
}

/**
 * Moves damaged records below a root folder into quarantine and removes old leftovers, one task at a time.
 *
 * @param write - Runs a write in a task's folder, under its lock. If the lock was stolen, runs it again from the
 *   beginning.
 */
export async function* repairFolders(
  root: string,
  load: LoadTask,
  write: (folder: string, work: (lock: FolderLock, log: HeldLog) => Promise<void>) => Promise<void>,
  logName: string,
  { dryRun, leftoversOlderThanMs, signal }: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  const oldestMs = Date.now() - leftoversOlderThanMs;
  for (const folder of sortTaskFolders(root)) {
    if (signal?.aborted) return;
    const steps = new Map<string, RepairStep>();
    /**
     * Examines the folder and notes the steps. Without a lock, changes nothing, and the steps show what a repair would
     * do.
     */
    const run = async (lock?: FolderLock, log?: HeldLog): Promise<void> => {
      // The folder is examined again, so earlier findings are dropped. Steps that removed leftovers are kept, because
      // this walk can't find those leftovers again.
      for (const [location, { action }] of steps) if (action !== "removed") steps.delete(location);
      const moved: RecordSource[] = [];
      const movedLines = new Set<number>();
      for await (const { finding, entry, line } of examine(folder, load, logName, false)) {
        await setImmediate();
        // After an abort, the entries that are already in quarantine are still removed below.
        if (signal?.aborted) break;
        if (finding === undefined) continue;
        const { location } = finding;
        const bytes = finding.kind === "damaged" ? attempt(() => line?.bytes ?? entry?.bytes()) : undefined;
        if (finding.kind === "damaged" && types.isUint8Array(bytes)) {
          const to = await keepInQuarantine(folder.path, bytes, finding, lock);
          if (entry) moved.push(entry);
          if (line) movedLines.add(line.offset);
          steps.set(location, { action: "quarantined", finding, to });
        } else if (finding.kind === "leftover" && Date.parse(finding.modifiedAt) <= oldestMs) {
          if (lock) rmSync(location, { recursive: true, force: true });
          steps.set(location, { action: "removed", finding });
        } else steps.set(location, { action: "left", finding, advice: ADVICE[finding.kind] });
      }
      if (lock && log && movedLines.size > 0) {
        const task = load(folder.path, lock);
        await rewriteLog({ taskId: folder.taskId ?? "", task, log }, (entry) =>
          movedLines.has(entry.offset) ? undefined : keepLine(entry),
        );
      }
      if (lock && moved.length > 0) await load(folder.path, lock).remove(moved, lock);
    };
    await run();
    if (signal?.aborted) return;
    if (!dryRun && [...steps.values()].some(({ action }) => action !== "left")) await write(folder.path, run);
    yield* steps.values();
  }
}

const ADVICE = {
  damaged: "It has no bytes that repair could move: look at the path, and move it away by hand.",
  leftover: "Its writer may still be running. If not, a later repair removes it.",
  merged: "Both checkpoints are intact, and reads return both. To keep only one, remove the other by its id.",
  refused:
    "It isn't damaged. If a newer program wrote it, use that program. If it belongs to another task, move it into that task's folder.",
} as const;

/** Lists the tasks' folders, sorted by name so that each run has the same order. */
function sortTaskFolders(root: string): TaskFolder[] {
  return listTaskFolders(root).sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function* examine(
  { path, taskId }: TaskFolder,
  load: LoadTask,
  logName: string,
  quick: boolean,
): AsyncGenerator<Examined, void, void> {
  let known = taskId === undefined ? undefined : { taskId };
  const task = examinePart(() => load(path));
  if ("kind" in task) return yield { finding: { ...task, location: path, ...known } };
  let last: RecordSource["known"] = {};
  for (const entry of task.select({ order: "oldest" })) {
    const { location } = entry;
    const record = examinePart(() => (quick ? entry.head() : entry.checkpoint()));
    if (record === undefined) continue;
    const isRead = !("kind" in record);
    // If the folder's name is hashed, the task's id comes from the first readable record.
    if (isRead) known ??= { taskId: record.taskId };
    const wrong = isRead ? findWrong(record, last) : record;
    if (isRead) last = record;
    yield {
      checked: { kind: "checked", ...known, sizeBytes: isRead ? record.sizeBytes : 0 },
      finding: wrong && { ...wrong, location, ...known, ...entry.known },
      entry,
    };
  }
  yield* examineLog(path, join(path, logName), known);
  const abandoned = examinePart(() => listAbandoned(path));
  if ("kind" in abandoned) return yield { finding: { ...abandoned, location: path, ...known } };
  for (const location of abandoned) {
    const modifiedAt = readStats(location)?.mtime.toISOString();
    const reason = "a killed write left it behind";
    if (modifiedAt) yield { finding: { kind: "leftover", location, reason, ...known, modifiedAt } };
  }
}

/** Examines each line of a log. */
async function* examineLog(
  folder: string,
  path: string,
  known: { readonly taskId: string } | undefined,
): AsyncGenerator<Examined, void, void> {
  try {
    const index = await readIndex(path);
    requireOwner(index, folder);
    if (index === undefined) return;
    const taskId = index.taskId ?? known?.taskId;
    const owner = taskId === undefined ? undefined : { taskId };
    for await (const entry of readEntries(index)) {
      const { line, sequence } = entry;
      const record = line && joinHeader(line, taskId ?? "");
      const whole = line && joinLogRecord(line, taskId ?? "");
      const reason = whole ? findRecordDamage(whole) : entry.damage;
      if (record) yield { checked: { kind: "checked", ...owner, isRecord: true, sizeBytes: record.sizeBytes } };
      if (reason === undefined) continue;
      const location = describeRecord(path, sequence);
      const { id, createdAt } = record ?? {};
      const known = { ...(id !== undefined && { id }), ...(createdAt !== undefined && { createdAt }) };
      const finding = {
        kind: "damaged",
        location,
        reason,
        ...owner,
        ...known,
        ...(sequence > 0 && { sequence }),
      } as const;
      yield { finding, line: entry };
    }
  } catch (error) {
    yield { finding: { ...describeWrong(error), location: path, ...known } };
  }
}

type Wrong = { readonly kind: "damaged" | "refused" | "merged"; readonly reason: string; readonly createdAt?: string };

function examinePart<Result>(ask: () => Result): Result | Wrong {
  try {
    return ask();
  } catch (error) {
    return describeWrong(error);
  }
}

function describeWrong(error: unknown): Wrong {
  if (error instanceof UnreadableError) return { kind: "damaged", reason: error.message };
  // The data was written by a newer program, or belongs to another task.
  if (error instanceof CheckpointError) return { kind: "refused", reason: error.message };
  throw error;
}

/**
 * Finds damage inside a readable checkpoint, or a sequence that a merge has duplicated. A head's seal was checked when
 * it was read.
 */
function findWrong(record: RecordHead | StoredCheckpoint, last: RecordSource["known"]): Wrong | undefined {
  const { sequence, createdAt } = record;
  const reason = "body" in record.payload ? findDamage(record) : undefined;
  if (reason !== undefined) return { kind: "damaged", reason, createdAt };
  return last.sequence === sequence
    ? { kind: "merged", reason: `${last.id} also has sequence ${sequence}` }
    : undefined;
}

/**
 * Damaged records are moved to this folder below a store's root. No task's folder has this name, since a leading dot in
 * a task's id is escaped.
 */
const QUARANTINE = ".quarantine";

/**
 * Writes damaged bytes and the reason into quarantine. Resolves once both files are on the disk, so that the caller may
 * remove the original. The copy's name contains a digest of the bytes, so a repair after a kill doesn't store them
 * twice.
 *
 * @param folder - The task's folder.
 * @param lock - The lock of the task's folder. Without a lock, nothing is written, as in a dry run.
 * @returns The path in quarantine.
 * @throws {LockLostError} The lock was stolen.
 * @throws {StorageError} The quarantine is a link.
 */
async function keepInQuarantine(
  folder: string,
  bytes: Uint8Array,
  finding: DamagedFinding,
  lock: FolderLock | undefined,
): Promise<string> {
  const root = dirname(folder);
  const { kind: _kind, location, ...rest } = finding;
  // If the location is a line of a file, only the file's name is used.
  const stem = basename(location).replace(/\.jsonl?( .*)?$/, "");
  const to = join(root, QUARANTINE, basename(folder), `${stem}-${shortDigest(bytes)}.json`);
  for (const own of [dirname(dirname(to)), dirname(to)]) isFolder(own);
  if (lock === undefined) return to;
  // The location is stored relative to the root and with "/", since the whole store may be moved, even to another
  // system.
  const reason = {
    from: relative(root, location).split(sep).join("/"),
    ...rest,
    quarantinedAt: new Date().toISOString(),
  };
  await makeFolders(dirname(to));
  await lock.write(to, bytes);
  await lock.write(`${to}.reason.json`, Buffer.from(`${JSON.stringify(reason, undefined, 2)}\n`));
  return to;
}
