import { rmSync } from "node:fs";
import { damageIn, type StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type {
  CheckedRecord,
  LeftoverFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
} from "../../src/contract/findings.js";
import { abandonedIn } from "./claims.js";
import { codeOf } from "./failure.js";
import type { FolderLock } from "./lock.js";
import { keepInQuarantine, type Movable } from "./quarantine.js";
import { statsOf, UnreadableError } from "./read-file.js";
import type { RecordHead } from "./record.js";
import { LOCK_NAME } from "./task.js";
import { isOwner, type LoadTask, type TaskFolder, taskFolders } from "./task-scan.js";

/** Does a write in a task's folder, under its lock; once more from the beginning where the lock was stolen. */
type WriteFolder = (folder: TaskFolder, work: (lock: FolderLock) => Promise<void>) => Promise<void>;

/** What one look at something in a task's folder has given. */
interface Examined {
  readonly checked?: CheckedRecord;
  readonly finding?: StorageFinding | undefined;
  /** What repair moves into quarantine. Without it, it stays. */
  readonly movable?: Movable | undefined;
}

/** All that is wrong below a root folder, task by task. */
export async function* verifyFolders(
  root: string,
  load: LoadTask,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  for (const folder of foldersOf(root)) {
    for await (const { checked, finding } of examine(folder, load, quick)) {
      if (checked) yield checked;
      if (finding) yield finding;
    }
  }
}

/** Moves what is damaged below a root folder into quarantine, and removes old leftovers, one task at a time. */
export async function* repairFolders(
  root: string,
  load: LoadTask,
  write: WriteFolder,
  { dryRun, leftoversOlderThanMs }: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  for (const folder of foldersOf(root)) {
    const steps = new Map<string, RepairStep>();
    /** Without a lock it changes nothing, and the steps are what it would do. */
    const run = async (lock?: FolderLock): Promise<void> => {
      // Drop findings that were fixed before we got the lock; taking it has removed what killed holders left in it.
      for (const [location, { action }] of steps) if (action !== "removed") steps.delete(location);
      const moved: Movable[] = [];
      for await (const { finding, movable } of examine(folder, load, false)) {
        if (finding === undefined) continue;
        const { location } = finding;
        if (finding.kind === "damaged" && movable) {
          const to = await keepInQuarantine(root, folder.name, movable, finding, lock);
          moved.push(movable);
          steps.set(location, { action: "quarantined", finding, to });
        } else if (finding.kind === "leftover" && isOlder(finding, leftoversOlderThanMs)) {
          if (lock) rmSync(location, { recursive: true, force: true });
          steps.set(location, { action: "removed", finding });
        } else steps.set(location, { action: "left", finding, advice: ADVICE[finding.kind] });
      }
      if (lock && moved.length > 0) await (await load(folder, lock)).takeAway(moved, lock);
    };
    await run();
    if (!dryRun && [...steps.values()].some(({ action }) => action !== "left")) await write(folder, run);
    yield* steps.values();
  }
}

const ADVICE = {
  damaged: "There are no bytes that could be moved: look at the path, and move it away by hand.",
  leftover: "Its writer may still live; a later repair removes it.",
  refused: "It isn't damaged: run the program that wrote it, or move it to where it belongs.",
} as const;

/** By name, so that a second run finds the same in the same order. */
function foldersOf(root: string): TaskFolder[] {
  return taskFolders(root).sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function* examine(folder: TaskFolder, load: LoadTask, quick: boolean): AsyncGenerator<Examined, void, void> {
  const { path } = folder;
  let known = folder.taskId === undefined ? undefined : { taskId: folder.taskId };
  const task = await resultOrReason(() => load(folder));
  if ("kind" in task) {
    yield { finding: { ...task, location: path, ...known } };
    return;
  }
  for (const entry of task.select({ order: "oldest" })) {
    const { location } = entry;
    const record = await resultOrReason(async () => (quick ? entry.head() : entry.checkpoint()));
    if (record === undefined) continue;
    const isRead = !("kind" in record);
    // A hashed name doesn't tell the task.
    if (isRead && isOwner(record.taskId, path)) known ??= { taskId: record.taskId };
    const wrong = isRead ? wrongIn(record, path) : record;
    yield {
      checked: { kind: "checked", ...known, sizeBytes: isRead ? record.sizeBytes : 0 },
      finding: wrong && { ...wrong, location, ...known, ...entry.known },
      movable: wrong?.reason !== DISK_ERROR && canMove(entry.movable) ? entry.movable : undefined,
    };
  }
  for (const location of abandonedIn(path, LOCK_NAME)) {
    const modified = statsOf(location)?.mtime;
    const reason = "a write that was killed left it behind";
    if (modified)
      yield { finding: { kind: "leftover", location, reason, ...known, modifiedAt: modified.toISOString() } };
  }
}

/** It may be readable the next time, so it isn't moved. */
const DISK_ERROR = "the disk reports an error: check it";

type Wrong = { readonly kind: "damaged" | "refused"; readonly reason: string; readonly createdAt?: string };

/** What is asked for, or why it can't be had. */
async function resultOrReason<Result>(ask: () => Promise<Result>): Promise<Result | Wrong> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof UnreadableError) return damaged(error.message);
    if (error instanceof UnsupportedFormatError) return { kind: "refused", reason: error.message };
    if (codeOf(error) === "EIO") return damaged(DISK_ERROR);
    throw error;
  }
}

function wrongIn(record: RecordHead | StoredCheckpoint, folder: string): Wrong | undefined {
  const { taskId, createdAt } = record;
  if (!isOwner(taskId, folder)) {
    return { kind: "refused", reason: `it belongs to task ${JSON.stringify(taskId)}, whose folder this isn't` };
  }
  const reason = isWhole(record) ? damageIn(record) : undefined;
  return reason === undefined ? undefined : { ...damaged(reason), createdAt };
}

function damaged(reason: string): Wrong {
  return { kind: "damaged", reason };
}

function isWhole(record: RecordHead | StoredCheckpoint): record is StoredCheckpoint {
  return "body" in record.payload;
}

/** A folder, a link or a pipe in a file's place stays where it is. */
function canMove(what: Movable): boolean {
  return "record" in what || statsOf(what.path)?.isFile() === true;
}

function isOlder({ modifiedAt }: LeftoverFinding, thanMs: number): boolean {
  return Date.parse(modifiedAt) <= Date.now() - thanMs;
}
