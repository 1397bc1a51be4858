import { join } from "node:path";
import { damageIn, type StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type {
  DamagedFinding,
  RefusedFinding,
  StorageFinding,
  StorageMaintenance,
} from "../../src/contract/findings.js";
import { syncFolder } from "./durable-write.js";
import { codeOf } from "./failure.js";
import { readCheckpoint, readHead, readNumbering, renderNumbering } from "./json-file-format.js";
import { CheckpointFolder, knownByName, NUMBERING_FILE, type RecentFolders } from "./json-folder.js";
import type { FolderLock } from "./lock.js";
import { type Examined, maintenanceOf } from "./maintenance.js";
import type { Movable } from "./quarantine.js";
import { statsOf, UnreadableError } from "./read-file.js";
import type { RecordHead } from "./record.js";
import { type FolderStore, isOwner } from "./store.js";
import type { TaskFolder } from "./task-scan.js";

/** Verify and repair for one JSON file per checkpoint. */
export function jsonFileMaintenance(store: FolderStore, folders: RecentFolders): StorageMaintenance {
  return maintenanceOf(store, {
    examine,
    async takeAway(lock, folder, moved) {
      folders.forget(folder.path);
      await takeAway(lock, folder, moved);
      folders.forget(folder.path);
    },
  });
}

async function* examine({ path, taskId }: TaskFolder, quick: boolean): AsyncGenerator<Examined, void, void> {
  const folder = new CheckpointFolder(path);
  // A hashed name doesn't tell the task.
  let owner = taskId;
  for (const file of folder.select({ order: "oldest" })) {
    const record = await recordOrReason(async () => (quick ? readHead(file) : await readCheckpoint(file)));
    if (record === undefined) continue;
    const isRecord = !("kind" in record);
    if (isRecord && isOwner(record.taskId, path)) owner ??= record.taskId;
    const known = owner === undefined ? undefined : { taskId: owner };
    const found = isRecord ? wrongIn(record, path) : record;
    const finding = found && { ...found, location: file.path, ...known, ...knownByName(file) };
    yield {
      checked: { kind: "checked", ...known, sizeBytes: isRecord ? record.sizeBytes : 0 },
      finding,
      movable: movableAt(file.path, finding),
    };
  }
  if (!folder.hasNumbering) return;
  const location = join(path, NUMBERING_FILE);
  const found = await recordOrReason(async () => void (await readNumbering(location)));
  if (found === undefined) return;
  const finding = { ...found, location, ...(owner === undefined ? undefined : { taskId: owner }) };
  yield { finding, movable: movableAt(location, finding) };
}

/** First the last sequence is kept, then the checkpoint that had it is taken away. */
async function takeAway(lock: FolderLock, { path }: TaskFolder, moved: readonly Movable[]): Promise<void> {
  const gone = new Set(moved.map((what) => ("path" in what ? what.path : "")));
  const folder = new CheckpointFolder(path);
  const files = [...folder.select({ order: "oldest" })];
  const lastStaying = files.findLast((file) => !gone.has(file.path))?.sequence ?? 0;
  const last = folder.newest?.sequence ?? 0;
  const numbering = join(path, NUMBERING_FILE);
  const kept = gone.has(numbering) ? 0 : await readNumbering(numbering);
  if (last > Math.max(lastStaying, kept)) {
    await lock.write(numbering, renderNumbering(last));
    gone.delete(numbering);
  }
  for (const doomed of gone) lock.remove(doomed);
  await syncFolder(path);
}

type Reason = Pick<DamagedFinding | RefusedFinding, "kind" | "reason">;

/** What was read, or why it can't be. */
async function recordOrReason<Result>(read: () => Promise<Result>): Promise<Result | Reason> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof UnreadableError) return { kind: "damaged", reason: error.message };
    if (error instanceof UnsupportedFormatError) return { kind: "refused", reason: error.message };
    // A sector that the disk can't read any more.
    if (codeOf(error) === "EIO") return { kind: "damaged", reason: "the disk can't read it: EIO" };
    throw error;
  }
}

function wrongIn(record: RecordHead | StoredCheckpoint, folder: string): (Reason & { createdAt?: string }) | undefined {
  const { taskId, createdAt } = record;
  if (!isOwner(taskId, folder)) {
    return { kind: "refused", reason: `it belongs to task ${JSON.stringify(taskId)}, whose folder this isn't` };
  }
  const reason = isWhole(record) ? damageIn(record) : undefined;
  return reason === undefined ? undefined : { kind: "damaged", reason, createdAt };
}

function isWhole(record: RecordHead | StoredCheckpoint): record is StoredCheckpoint {
  return "body" in record.payload;
}

/** A folder or a pipe can't be linked into quarantine. */
function movableAt(path: string, finding: StorageFinding | undefined): Movable | undefined {
  return finding?.kind === "damaged" && statsOf(path)?.isFile() ? { path } : undefined;
}
