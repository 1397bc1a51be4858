import { join } from "node:path";
import type {
  CheckedRecord,
  NumberingFinding,
  RecordFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
} from "../../src/contract/adapter.js";
import { CheckpointFolder } from "./checkpoint-folder.js";
import { syncFolder } from "./durable-write.js";
import type { FolderLock } from "./folder-lock.js";
import type { FolderStore } from "./folder-store.js";
import { isCheckpointFileName, MAX_NUMBERING_BYTES, NUMBERING_FILE, renderNumbering } from "./json-file-format.js";
import { FolderInspection, isOurs, whyUnreadable } from "./json-file-inspection.js";
import { isOlder, leftoversIn, removeLeftover } from "./leftovers.js";
import { isCounted, recoverLastSequence } from "./numbering-recovery.js";
import { QUARANTINE, Quarantine } from "./quarantine.js";
import { leaveFinding, linkFinding } from "./repair-steps.js";
import { readStored, statsOf } from "./stored-file.js";
import { entryNames, otherEntries, type TaskFolder, taskFolders } from "./task-scan.js";

/** The name of the lock's folder in each task's. */
export const LOCK_NAME = ".lock";

/** All that is wrong below a root folder, task by task. */
export async function* verifyFolders(
  root: string,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  for (const folder of taskFolders(root)) {
    if (folder.isLink) yield linkFinding(folder);
    else yield* verifyFolder(folder, quick);
  }
  for (const entry of otherEntries(root)) {
    const path = join(root, entry.name);
    const holds = entry.isDirectory() ? entryNames(path).some(isCheckpointFileName) : entry.isFile() && isOurs(path);
    const reason = entry.isFile()
      ? "it seems to hold a checkpoint, outside of its task's folder: nothing reads it"
      : "it holds checkpoints, under a name that no task's folder has: nothing reads them";
    if (holds && entry.name !== QUARANTINE) yield { kind: "stray", location: path, reason };
  }
}

/** Moves what is damaged below a root folder to quarantine, one task at a time, each under its lock. */
export async function* repairFolders(
  store: FolderStore,
  options: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  for (const folder of taskFolders(store.root)) {
    if (folder.isLink) yield leaveFinding(linkFinding(folder));
    else yield* repairFolder(store, folder, options);
  }
}

async function* verifyFolder(
  folder: TaskFolder,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  for await (const { checked, finding } of inspectFolder(folder, quick)) {
    if (checked) yield checked;
    if (finding) yield finding;
  }
}

interface Inspected {
  readonly checked?: CheckedRecord;
  readonly finding: StorageFinding | undefined;
  readonly isMovable?: boolean;
}

async function* inspectFolder({ path, taskId }: TaskFolder, quick: boolean): AsyncGenerator<Inspected, void, void> {
  const inspection = FolderInspection.of(path, taskId);
  const known = inspection.taskId === undefined ? undefined : { taskId: inspection.taskId };
  for (const file of inspection.files) {
    const inspected = await inspection.inspect(file, quick);
    if (inspected === undefined) continue;
    const { finding, isMovable, sizeBytes } = inspected;
    yield { checked: { kind: "checked", ...known, sizeBytes }, finding, isMovable };
  }
  yield { finding: await inspection.numbering() };
  for (const finding of inspection.strays()) yield { finding };
  for (const finding of leftoversIn(path, LOCK_NAME, inspection.taskId)) yield { finding };
}

async function* repairFolder(
  store: FolderStore,
  folder: TaskFolder,
  { leftoversOlderThanMs, dryRun }: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  const findings: StorageFinding[] = [];
  for await (const item of verifyFolder(folder, false)) if (item.kind !== "checked") findings.push(item);
  const old = findings.filter((finding) => finding.kind === "leftover" && isOlder(finding, leftoversOlderThanMs));
  const isDamaged = findings.some(({ kind }) => kind === "record" || kind === "numbering");
  const steps = new Map<string, RepairStep>(findings.map((finding) => [finding.location, leaveFinding(finding)]));
  const mend = async (path: string, lock: FolderLock | undefined): Promise<void> => {
    // Taking the lock has taken the claims away that were left in it.
    for (const finding of old) {
      if (lock) removeLeftover(finding.location);
      if (finding.kind === "leftover") steps.set(finding.location, { action: "removed", finding });
    }
    // What was damaged a moment ago may have been removed, or put back.
    if (isDamaged) await new FolderRepair(store.root, folder, path, lock, steps).run();
  };
  if (dryRun) await mend(folder.path, undefined);
  else if (isDamaged || old.length > 0) {
    try {
      await store.write({
        taskId: folder.taskId ?? folder.name,
        folderName: folder.name,
        verb: "repair",
        claim: "folder",
        absent: () => undefined,
        work: (lock, path) => mend(path, lock),
      });
    } catch (error) {
      // What was done before is done, and told.
      for (const step of steps.values()) if (step.action !== "left") yield step;
      throw error;
    }
  }
  for (const step of steps.values()) {
    // What somebody else has moved meanwhile, another repair too, isn't left.
    if (step.action !== "left" || statsOf(step.finding.location) !== undefined) yield step;
  }
}

/** The repair of one task's folder, under its lock; without one, what it would do. */
class FolderRepair {
  readonly #folder: TaskFolder;
  readonly #path: string;
  readonly #lock: FolderLock | undefined;
  readonly #quarantine: Quarantine;
  readonly #steps: Map<string, RepairStep>;
  /** What a damaged numbering was mended to. */
  #renumberedTo: number | undefined;

  constructor(
    root: string,
    folder: TaskFolder,
    path: string,
    lock: FolderLock | undefined,
    steps: Map<string, RepairStep>,
  ) {
    this.#folder = folder;
    this.#path = path;
    this.#lock = lock;
    this.#quarantine = new Quarantine(root, folder.name, lock);
    this.#steps = steps;
  }

  /** The numbering goes first: where it can't be read and can't be mended, nothing is taken away. */
  async run(): Promise<void> {
    const inspection = FolderInspection.of(this.#path, this.#folder.taskId);
    const numbering = await inspection.numbering();
    if (numbering?.kind === "refused") return;
    if (numbering) {
      if (!(await this.#renumber(numbering))) return;
    } else this.#forget(join(this.#path, NUMBERING_FILE));
    const folder = new CheckpointFolder(this.#path, undefined);
    const kept = this.#renumberedTo ?? (await folder.keptSequence());
    // What is intact stays; of what goes, one sequence is to be kept at most.
    const last = folder.lastCounted(kept);
    const toKeep = last > kept ? last : undefined;
    for (const file of inspection.files) {
      const inspected = await inspection.inspect(file, false);
      if (inspected && inspected.finding === undefined) this.#forget(inspected.path);
      const finding = inspected?.isMovable ? inspected.finding : undefined;
      if (finding?.kind === "record")
        await this.#takeAway(finding, file.sequence === toKeep ? toKeep : undefined, inspection);
    }
    if (this.#lock) await syncFolder(this.#path);
  }

  /** What was put right before the lock was taken isn't left; what this repair did before it lost a lock is done. */
  #forget(location: string): void {
    if (this.#steps.get(location)?.action === "left") this.#steps.delete(location);
  }

  async #renumber(finding: NumberingFinding): Promise<boolean> {
    const { taskId } = finding;
    const bytes = await copyable(finding.location);
    if (taskId === undefined || bytes === undefined) return false;
    const lastSequence = await recoveredSequence(bytes, taskId, this.#folder);
    const to = await this.#quarantine.keep(NUMBERING_FILE, bytes, finding);
    await this.#writeNumbering(taskId, lastSequence);
    this.#renumberedTo = lastSequence;
    this.#steps.set(finding.location, { action: "renumbered", finding, to, lastSequence });
    return true;
  }

  /** @param lastSequence - That of the checkpoint, where it is the last that was given and nothing else keeps it. */
  async #takeAway(
    finding: RecordFinding,
    lastSequence: number | undefined,
    { taskId }: FolderInspection,
  ): Promise<void> {
    const bytes = await copyable(finding.location);
    if (bytes === undefined) return;
    if (lastSequence !== undefined) {
      // First the sequence is kept, then its checkpoint is taken away.
      if (taskId === undefined) return;
      await this.#writeNumbering(taskId, lastSequence);
    }
    const to = await this.#quarantine.keep(finding.location.slice(this.#path.length + 1), bytes, finding);
    this.#lock?.discard(finding.location);
    this.#steps.set(finding.location, { action: "quarantined", finding, to });
  }

  async #writeNumbering(taskId: string, lastSequence: number): Promise<void> {
    const content = renderNumbering({ taskId, lastSequence });
    await this.#lock?.write(join(this.#path, NUMBERING_FILE), content, { firstInFolder: false });
  }
}

async function recoveredSequence(numbering: Buffer, taskId: string, { path }: TaskFolder): Promise<number> {
  const folder = new CheckpointFolder(path, undefined);
  const last = folder.lastCounted(0);
  const atLeast = isCounted(folder.renamedSequence, last) ? Math.max(folder.renamedSequence, last) : last;
  return recoverLastSequence(numbering.toString("latin1", 0, MAX_NUMBERING_BYTES), taskId, atLeast);
}

/** The bytes of a file; of a link, a folder, or what a disk no longer gives, there are none. */
async function copyable(path: string): Promise<Buffer | undefined> {
  try {
    return await readStored(path);
  } catch (error) {
    whyUnreadable(error);
    return undefined;
  }
}
