import { rmSync } from "node:fs";
import type {
  CheckedRecord,
  DamagedFinding,
  LeftoverFinding,
  RepairStep,
  StorageFinding,
  StorageMaintenance,
  StorageRepair,
} from "../../src/contract/findings.js";
import { abandonedIn, type FolderLock } from "./lock.js";
import { keepInQuarantine, type Movable } from "./quarantine.js";
import { statsOf } from "./read-file.js";
import { type FolderStore, LOCK_NAME } from "./store.js";
import { LINK_REASON, type TaskFolder, taskFolders } from "./task-scan.js";

/** What one look at something in a task's folder has given. */
export interface Examined {
  readonly checked?: CheckedRecord;
  readonly finding?: StorageFinding | undefined;
  /** What repair moves into quarantine. Without it, it stays. */
  readonly movable?: Movable | undefined;
}

/** How an adapter's task folders are looked at and put right. */
export interface FolderMaintenance {
  /** Looks at each checkpoint, and at what else can be damaged. Changes nothing. */
  examine(folder: TaskFolder, quick: boolean): AsyncGenerator<Examined, void, void>;
  /** Takes out of the folder what is in quarantine now. */
  takeAway(lock: FolderLock, folder: TaskFolder, moved: readonly Movable[]): Promise<void>;
}

/** Verify and repair of a store: one walk through its folders for both. */
export function maintenanceOf(store: FolderStore, adapter: FolderMaintenance): StorageMaintenance {
  return {
    verify: ({ quick }) => store.iterate(verifyFolders(store, adapter, quick)),
    repair: (options) => store.iterate(repairFolders(store, adapter, options)),
  };
}

async function* verifyFolders(
  store: FolderStore,
  adapter: FolderMaintenance,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  for (const folder of foldersOf(store)) {
    for await (const { checked, finding } of examine(adapter, folder, quick)) {
      if (checked) yield checked;
      if (finding) yield finding;
    }
  }
}

async function* repairFolders(
  store: FolderStore,
  adapter: FolderMaintenance,
  options: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  for (const folder of foldersOf(store)) {
    const repair = new FolderRepair(store.root, adapter, folder, options.leftoversOlderThanMs);
    await repair.run(undefined);
    if (!options.dryRun && repair.steps.some(({ action }) => action !== "left")) {
      const { taskId = folder.name, path } = folder;
      const work = (lock: FolderLock) => repair.run(lock);
      await store.write({ taskId, folder: path, verb: "repair", absent: () => undefined, work });
    }
    yield* repair.steps;
  }
}

/** The repair of one task's folder. */
class FolderRepair {
  readonly #root: string;
  readonly #adapter: FolderMaintenance;
  readonly #folder: TaskFolder;
  readonly #leftoversOlderThanMs: number;
  #steps = new Map<string, RepairStep>();

  constructor(root: string, adapter: FolderMaintenance, folder: TaskFolder, leftoversOlderThanMs: number) {
    this.#root = root;
    this.#adapter = adapter;
    this.#folder = folder;
    this.#leftoversOlderThanMs = leftoversOlderThanMs;
  }

  get steps(): readonly RepairStep[] {
    return [...this.#steps.values()];
  }

  /** Goes through the folder. Without a lock it does nothing, and `steps` are what it would do. */
  async run(lock: FolderLock | undefined): Promise<void> {
    // Drop findings that were fixed before we got the lock. Taking the lock has removed what killed holders left in it.
    const removed = this.steps.filter(({ action }) => action === "removed");
    this.#steps = new Map(removed.map((step) => [step.finding.location, step]));
    const moved: Movable[] = [];
    for await (const { finding, movable } of examine(this.#adapter, this.#folder, false)) {
      if (finding?.kind === "damaged" && movable) {
        const to = await keepInQuarantine(this.#root, this.#folder.name, movable, finding, lock);
        moved.push(movable);
        this.#add({ action: "quarantined", finding, to });
      } else if (finding?.kind === "leftover" && this.#isOld(finding)) {
        if (lock) rmSync(finding.location, { recursive: true, force: true });
        this.#add({ action: "removed", finding });
      } else if (finding) this.#add({ action: "left", finding, advice: ADVICE[finding.kind] });
    }
    if (lock && moved.length > 0) await this.#adapter.takeAway(lock, this.#folder, moved);
  }

  #add(step: RepairStep): void {
    this.#steps.set(step.finding.location, step);
  }

  #isOld({ modifiedAt }: LeftoverFinding): boolean {
    return Date.parse(modifiedAt) <= Date.now() - this.#leftoversOlderThanMs;
  }
}

const ADVICE = {
  damaged: "There are no bytes that could be moved: look at the path, and move it away by hand.",
  leftover: "Its writer may still live; a later repair removes it.",
  refused: "It isn't damaged: run the program that wrote it, or move it to where it belongs.",
} as const;

/** By name: those of one task come together, and a second run finds them in the same order. */
function foldersOf(store: FolderStore): TaskFolder[] {
  return taskFolders(store.root).sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function* examine(
  adapter: FolderMaintenance,
  folder: TaskFolder,
  quick: boolean,
): AsyncGenerator<Examined, void, void> {
  const { path, taskId, isLink } = folder;
  const known = taskId === undefined ? undefined : { taskId };
  if (isLink) {
    const finding: DamagedFinding = { kind: "damaged", location: path, reason: LINK_REASON, ...known };
    yield { finding };
    return;
  }
  yield* adapter.examine(folder, quick);
  for (const location of abandonedIn(path, LOCK_NAME)) {
    const modified = statsOf(location)?.mtime;
    if (modified === undefined) continue;
    const reason = "a write that was killed left it behind";
    yield { finding: { kind: "leftover", location, reason, ...known, modifiedAt: modified.toISOString() } };
  }
}
