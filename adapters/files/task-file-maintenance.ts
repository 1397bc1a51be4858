import { join } from "node:path";
import { isCorrupt } from "../../src/contract/adapter.js";
import { damageIn } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type { DamagedFinding, RefusedFinding, StorageMaintenance } from "../../src/contract/findings.js";
import { syncFolder } from "./durable-write.js";
import type { FolderLock } from "./lock.js";
import { type Examined, maintenanceOf } from "./maintenance.js";
import type { Movable } from "./quarantine.js";
import { statsOf } from "./read-file.js";
import { type FolderStore, isOwner } from "./store.js";
import { TASK_FILE_NAME, TaskFile } from "./task-file-content.js";
import { type AdoptRecord, checkpointOf, type Entry, isDamaged } from "./task-file-format.js";
import type { TaskFolder } from "./task-scan.js";

/** Verify and repair for one file per task. */
export function taskFileMaintenance(store: FolderStore, adopt: AdoptRecord | undefined): StorageMaintenance {
  return maintenanceOf(store, {
    examine: (folder, quick) => examine(folder, quick, adopt),
    takeAway: (lock, folder, moved) => takeAway(lock, folder, moved, adopt),
  });
}

async function* examine(
  folder: TaskFolder,
  quick: boolean,
  adopt: AdoptRecord | undefined,
): AsyncGenerator<Examined, void, void> {
  const path = join(folder.path, TASK_FILE_NAME);
  const file = await readOrRefuse(path, adopt);
  if (typeof file === "string") {
    yield { finding: { kind: "refused", location: path, reason: file } };
    return;
  }
  const { taskId = file.taskId } = folder;
  const known = taskId === undefined ? undefined : { taskId };
  for (const [at, entry] of file.entries.entries()) {
    const { line, lineNumber } = entry;
    const place = lineNumber === undefined ? `record ${at + 1}` : `line ${lineNumber}`;
    const location = line === undefined ? path : `${path} (${place})`;
    const checked = { kind: "checked", ...known, sizeBytes: isDamaged(entry) ? 0 : entry.head.sizeBytes } as const;
    const found = wrongIn(file, entry, folder, quick);
    yield {
      ...(line !== undefined && { checked }),
      finding: found && { ...found, location, ...known },
      // Of a file that is damaged as a whole, what is intact is written anew.
      movable: found?.kind === "damaged" ? movableOf(line, path) : undefined,
    };
  }
}

async function takeAway(
  lock: FolderLock,
  folder: TaskFolder,
  moved: readonly Movable[],
  adopt: AdoptRecord | undefined,
): Promise<void> {
  const path = join(folder.path, TASK_FILE_NAME);
  const file = await TaskFile.read(path, adopt);
  const gone = new Set(moved.map((what) => ("record" in what ? Buffer.from(what.record).toString("latin1") : "")));
  const kept = file.entries.filter((entry) => !isDamaged(entry) && !gone.has(entry.line.toString("latin1")));
  const { taskId = folder.taskId } = file;
  if (taskId !== undefined && (kept.length > 0 || file.refusal === undefined)) {
    await lock.write(path, file.render(taskId, kept));
  } else {
    lock.remove(path);
    await syncFolder(folder.path);
  }
}

type Found =
  | Pick<DamagedFinding, "kind" | "reason" | "id" | "sequence" | "createdAt">
  | Pick<RefusedFinding, "kind" | "reason">;

function wrongIn(file: TaskFile, entry: Entry, { path }: TaskFolder, quick: boolean): Found | undefined {
  if (isDamaged(entry)) return { kind: "damaged", reason: entry.reason, ...(entry.id && { id: entry.id }) };
  const { taskId, id, sequence, createdAt } = entry.head;
  if (!isOwner(taskId, path)) {
    return { kind: "refused", reason: `it belongs to task ${JSON.stringify(taskId)}, whose folder this isn't` };
  }
  if (quick) return undefined;
  const record = file.open(entry, taskId, checkpointOf);
  const reason = isCorrupt(record) ? record.reason : damageIn(record);
  return reason === undefined ? undefined : { kind: "damaged", reason, id, sequence, createdAt };
}

/** A folder, a link or a pipe in the file's place isn't moved. */
function movableOf(line: Buffer | undefined, path: string): Movable | undefined {
  if (line !== undefined) return { record: line };
  return statsOf(path)?.isFile() ? { path } : undefined;
}

/** The file, or why this program must not touch it. */
async function readOrRefuse(path: string, adopt: AdoptRecord | undefined): Promise<TaskFile | string> {
  try {
    return await TaskFile.read(path, adopt);
  } catch (error) {
    if (error instanceof UnsupportedFormatError) return error.message;
    throw error;
  }
}
