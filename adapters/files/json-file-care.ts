import { join } from "node:path";
import type {
  CheckedRecord,
  NumberingFinding,
  RecordFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
} from "../../src/adapter.js";
import { CheckpointFolder } from "./checkpoint-folder.js";
import { syncFolder } from "./durable-write.js";
import type { FolderLock } from "./folder-lock.js";
import type { FolderStore } from "./folder-store.js";
import { isCheckpointFileName, NUMBERING_FILE, renderNumbering } from "./json-file-format.js";
import { FolderInspection, isOurs, whyUnreadable } from "./json-file-inspection.js";
import { isOlder, leftoversIn, removeLeftover } from "./leftovers.js";
import { recoverLastSequence } from "./numbering-recovery.js";
import { QUARANTINE, quarantine, quarantinePath } from "./quarantine.js";
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
    const reason = "it holds checkpoints, under a name that no task's folder has";
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
    else yield* options.dryRun ? planFolder(store.root, folder, options) : repairFolder(store, folder, options);
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

async function* planFolder(
  root: string,
  folder: TaskFolder,
  { leftoversOlderThanMs }: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  for await (const { finding, isMovable } of inspectFolder(folder, false)) {
    if (finding === undefined) continue;
    const to = quarantinePath(root, folder.name, finding.location.slice(folder.path.length + 1));
    const isMoved = finding.kind === "record" && isMovable && (await copyable(finding.location)) !== undefined;
    if (isMoved) yield { action: "quarantined", finding, to };
    else if (finding.kind === "leftover" && isOlder(finding, leftoversOlderThanMs))
      yield { action: "removed", finding };
    else if (finding.kind === "numbering" && finding.taskId !== undefined) {
      const lastSequence = await recoveredSequence(finding, finding.taskId, folder);
      yield { action: "renumbered", finding, to, lastSequence };
    } else yield leaveFinding(finding);
  }
}

async function* repairFolder(
  store: FolderStore,
  folder: TaskFolder,
  options: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  const findings: StorageFinding[] = [];
  for await (const item of verifyFolder(folder, false)) if (item.kind !== "checked") findings.push(item);
  const old = findings.filter(
    (finding) => finding.kind === "leftover" && isOlder(finding, options.leftoversOlderThanMs),
  );
  const isDamaged = findings.some(({ kind }) => kind === "record" || kind === "numbering");
  const steps = new Map<string, RepairStep>(findings.map((finding) => [finding.location, leaveFinding(finding)]));
  if (isDamaged || old.length > 0) {
    await store.write({
      taskId: folder.taskId ?? folder.name,
      folderName: folder.name,
      verb: "repair",
      claim: "folder",
      absent: () => undefined,
      work: async (lock, path) => {
        // Taking the lock has taken the claims away that were left in it.
        for (const finding of old) {
          removeLeftover(finding.location);
          if (finding.kind === "leftover") steps.set(finding.location, { action: "removed", finding });
        }
        // What was damaged a moment ago may have been removed, or put back.
        if (isDamaged) await new FolderRepair(store.root, folder, path, lock, steps).run();
      },
    });
  }
  for (const step of steps.values()) {
    // What somebody else has moved meanwhile, another repair too, isn't left.
    if (step.action !== "left" || statsOf(step.finding.location) !== undefined) yield step;
  }
}

/** The repair of one task's folder, under its lock. */
class FolderRepair {
  readonly #root: string;
  readonly #folder: TaskFolder;
  readonly #path: string;
  readonly #lock: FolderLock;
  readonly #steps: Map<string, RepairStep>;

  constructor(root: string, folder: TaskFolder, path: string, lock: FolderLock, steps: Map<string, RepairStep>) {
    this.#root = root;
    this.#folder = folder;
    this.#path = path;
    this.#lock = lock;
    this.#steps = steps;
  }

  /** The numbering goes first: without it, nothing could be taken away. */
  async run(): Promise<void> {
    const inspection = FolderInspection.of(this.#path, this.#folder.taskId);
    const numbering = await inspection.numbering();
    if (numbering?.kind === "refused") return;
    if (numbering) await this.#renumber(numbering);
    else this.#forget(join(this.#path, NUMBERING_FILE));
    for (const file of inspection.files) {
      const inspected = await inspection.inspect(file, false);
      if (inspected && inspected.finding === undefined) this.#forget(inspected.path);
      const finding = inspected?.isMovable ? inspected.finding : undefined;
      if (finding?.kind === "record") await this.#takeAway(finding, file.sequence, inspection);
    }
    await syncFolder(this.#path);
  }

  /** What was put right before the lock was taken isn't left; what this repair did before it lost a lock is done. */
  #forget(location: string): void {
    if (this.#steps.get(location)?.action === "left") this.#steps.delete(location);
  }

  async #renumber(finding: NumberingFinding): Promise<void> {
    const { taskId } = finding;
    const bytes = await copyable(finding.location);
    if (taskId === undefined || bytes === undefined) return;
    const lastSequence = await recoveredSequence(finding, taskId, this.#folder);
    const to = await this.#quarantine(NUMBERING_FILE, bytes, finding);
    await this.#writeNumbering(taskId, lastSequence);
    this.#steps.set(finding.location, { action: "renumbered", finding, to, lastSequence });
  }

  async #takeAway(finding: RecordFinding, sequence: number, inspection: FolderInspection): Promise<void> {
    const bytes = await copyable(finding.location);
    if (bytes === undefined) return;
    const folder = new CheckpointFolder(this.#path, undefined);
    if (folder.newestSequence === sequence && (await folder.keptSequence()) < sequence) {
      // First the sequence is kept, then its checkpoint is taken away.
      if (inspection.taskId === undefined) return;
      await this.#writeNumbering(inspection.taskId, sequence);
    }
    const to = await this.#quarantine(finding.location.slice(this.#path.length + 1), bytes, finding);
    this.#lock.discard(finding.location);
    this.#steps.set(finding.location, { action: "quarantined", finding, to });
  }

  #quarantine(fileName: string, bytes: Buffer, finding: StorageFinding): Promise<string> {
    const place = { root: this.#root, folderName: this.#folder.name, fileName };
    return quarantine(this.#lock, place, bytes, finding);
  }

  async #writeNumbering(taskId: string, lastSequence: number): Promise<void> {
    const content = renderNumbering({ taskId, lastSequence });
    await this.#lock.write(join(this.#path, NUMBERING_FILE), content, { firstInFolder: false });
  }
}

async function recoveredSequence(finding: NumberingFinding, taskId: string, { path }: TaskFolder): Promise<number> {
  const { newestSequence } = new CheckpointFolder(path, undefined);
  const source = (await copyable(finding.location))?.toString("latin1") ?? "";
  return recoverLastSequence(source, taskId, newestSequence);
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
