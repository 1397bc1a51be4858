import { join } from "node:path";
import type {
  CheckedRecord,
  NumberingFinding,
  RecordFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
  StrayFinding,
} from "../../src/contract/adapter.js";
import { damageIn } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type { FolderLock } from "./folder-lock.js";
import type { FolderStore } from "./folder-store.js";
import { whyUnreadable } from "./json-file-inspection.js";
import { isOlder, leftoversIn, removeLeftover } from "./leftovers.js";
import { recoverLastSequence } from "./numbering-recovery.js";
import { QUARANTINE, Quarantine } from "./quarantine.js";
import { leaveFinding, linkFinding } from "./repair-steps.js";
import { storedCheckpoint } from "./sealed-record.js";
import { readStart, readStored } from "./stored-file.js";
import { MAX_TASK_FILE_BYTES, TaskFileEntries } from "./task-file-entries.js";
import { type Entry, isDamaged, TASK_FILE_NAME } from "./task-file-format.js";
import type { AdoptRecord } from "./task-file-record.js";
import { entryNames, isOwner, otherEntries, type TaskFolder, taskFolders } from "./task-scan.js";

/** The name of the folder that is the lock of a task's file. */
export const TASK_LOCK_NAME = `${TASK_FILE_NAME}.lock`;
/** What `setAside` names a file. */
const SET_ASIDE_PREFIX = `${TASK_FILE_NAME}.damaged-`;
/** By which a file of ours is told from another program's, if it is in the wrong place. */
const OURS = /"waymark":\{"taskId":/;

/** All that is wrong below a root folder, task by task. */
export async function* verifyTaskFiles(
  root: string,
  adopt: AdoptRecord | undefined,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  for (const folder of taskFolders(root)) {
    if (folder.isLink) yield linkFinding(folder);
    else yield* verifyFolder(folder, adopt, quick);
  }
  for (const entry of otherEntries(root)) {
    const path = entry.isDirectory() ? join(root, entry.name, TASK_FILE_NAME) : join(root, entry.name);
    const reason = "it holds a task's checkpoints, and isn't in a task's folder: nothing reads it";
    if (entry.name !== QUARANTINE && isOurs(path)) yield { kind: "stray", location: path, reason };
  }
}

/** Moves what is damaged below a root folder to quarantine, one task at a time, each under its lock. */
export async function* repairTaskFiles(
  store: FolderStore,
  adopt: AdoptRecord | undefined,
  options: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  for (const folder of taskFolders(store.root)) {
    if (folder.isLink) yield leaveFinding(linkFinding(folder));
    else yield* repairFolder(store, folder, adopt, options);
  }
}

async function* verifyFolder(
  { path, taskId }: TaskFolder,
  adopt: AdoptRecord | undefined,
  quick: boolean,
): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
  const inspected = await inspect(join(path, TASK_FILE_NAME), path, taskId, adopt, quick);
  for (const { finding, sizeBytes, isCheckpoint } of inspected.items) {
    const known = inspected.taskId === undefined ? undefined : { taskId: inspected.taskId };
    if (isCheckpoint) yield { kind: "checked", ...known, sizeBytes };
    if (finding) yield finding;
  }
  yield* straysIn(path, inspected.taskId);
  yield* leftoversIn(path, TASK_LOCK_NAME, inspected.taskId);
}

/** Files of ours under other names: nothing looks for them. One that was set aside was told of when it was. */
function straysIn(folder: string, taskId: string | undefined): StrayFinding[] {
  return entryNames(folder)
    .filter((name) => name !== TASK_FILE_NAME && !name.startsWith(SET_ASIDE_PREFIX) && isOurs(join(folder, name)))
    .map((name) => ({
      kind: "stray",
      location: join(folder, name),
      reason: "it holds a task's checkpoints, under a name that nothing reads",
      ...(taskId === undefined ? undefined : { taskId }),
    }));
}

/** Whether a file begins as this adapter's do. */
function isOurs(path: string): boolean {
  try {
    return OURS.test(readStart(path)?.toString("latin1") ?? "");
  } catch (error) {
    whyUnreadable(error);
    return false;
  }
}

/** A line of a task's file, or what is wrong with the file as a whole. */
interface InspectedEntry {
  /** `undefined` where there is nothing to keep or to move. */
  readonly entry: Entry | undefined;
  readonly isCheckpoint: boolean;
  readonly sizeBytes: number;
  readonly finding: StorageFinding | undefined;
}

interface InspectedTaskFile {
  /** `undefined` where it can't be read at all, or mustn't be. */
  readonly file: TaskFileEntries | undefined;
  /** As far as the folder's name or anything in the file tells. */
  readonly taskId: string | undefined;
  readonly items: readonly InspectedEntry[];
}

async function inspect(
  path: string,
  folder: string,
  named: string | undefined,
  adopt: AdoptRecord | undefined,
  quick: boolean,
): Promise<InspectedTaskFile> {
  let file: TaskFileEntries;
  try {
    file = await TaskFileEntries.read(path, adopt);
  } catch (error) {
    const known = { location: path, ...(named === undefined ? undefined : { taskId: named }) };
    const finding: StorageFinding =
      error instanceof UnsupportedFormatError
        ? { kind: "refused", ...known, reason: error.message }
        : { kind: "record", ...known, reason: whyUnreadable(error) };
    return { file: undefined, taskId: named, items: [whole(finding)] };
  }
  const taskId = named ?? (file.owner !== undefined && isOwner(file.owner, folder) ? file.owner : undefined);
  const isSalvaged = file.entries.some((entry) => !isDamaged(entry) || entry.line !== undefined);
  const items = file.entries.map((entry): InspectedEntry => {
    if (!isDamaged(entry)) return inspectIntact(entry, path, folder, quick);
    const { corrupt: _corrupt, cause: _cause, ...found } = file.corrupt(entry, taskId);
    if (entry.line !== undefined) {
      const finding: RecordFinding = { kind: "record", ...found, ...createdAtIn(entry.line) };
      return { entry, isCheckpoint: true, sizeBytes: 0, finding };
    }
    return whole({ kind: entry.reason === file.refusal && isSalvaged ? "numbering" : "record", ...found });
  });
  return { file, taskId, items };
}

function inspectIntact(
  entry: Exclude<Entry, { readonly reason: string }>,
  path: string,
  folder: string,
  quick: boolean,
): InspectedEntry {
  const { taskId, id, sequence, createdAt, sizeBytes } = entry.head;
  const found = { location: path, taskId, id, sequence };
  const checked = (finding?: StorageFinding) => ({ entry, isCheckpoint: true, sizeBytes, finding });
  if (!isOwner(taskId, folder)) {
    const reason = `checkpoint ${id} belongs to task ${JSON.stringify(taskId)}, whose folder this isn't`;
    return checked({ kind: "stray", ...found, reason });
  }
  const reason = quick ? undefined : damageIn(storedCheckpoint(entry));
  return checked(reason === undefined ? undefined : { kind: "record", ...found, reason, createdAt });
}

function whole(finding: StorageFinding): InspectedEntry {
  return { entry: undefined, isCheckpoint: finding.kind === "record", sizeBytes: 0, finding };
}

async function* repairFolder(
  store: FolderStore,
  folder: TaskFolder,
  adopt: AdoptRecord | undefined,
  { leftoversOlderThanMs, dryRun }: StorageRepair,
): AsyncGenerator<RepairStep, void, void> {
  const steps: RepairStep[] = [];
  const before = await inspect(join(folder.path, TASK_FILE_NAME), folder.path, folder.taskId, adopt, false);
  const isDamaged = before.items.some(({ finding }) => finding?.kind === "record" || finding?.kind === "numbering");
  const leftovers = leftoversIn(folder.path, TASK_LOCK_NAME, before.taskId);
  const old = leftovers.filter((leftover) => isOlder(leftover, leftoversOlderThanMs));
  if (dryRun) steps.push(...(await new FileRepair(store.root, folder, undefined).run(before)));
  else if (isDamaged || old.length > 0) {
    await store.write({
      taskId: folder.taskId ?? folder.name,
      folderName: folder.name,
      verb: "repair",
      claim: "folder",
      absent: () => undefined,
      work: async (lock, path) => {
        // Taking the lock has taken the claims away that were left in it.
        for (const { location } of old) removeLeftover(location);
        const now = await inspect(join(path, TASK_FILE_NAME), path, folder.taskId, adopt, false);
        const done = await new FileRepair(store.root, folder, lock).run(now);
        // Where the lock was stolen after the repair was committed, there is nothing left to do.
        if (done.length > 0 || steps.length === 0) steps.push(...done);
      },
    });
  } else steps.push(...before.items.flatMap(({ finding }) => (finding ? [leaveFinding(finding)] : [])));
  yield* steps;
  yield* straysIn(folder.path, before.taskId).map(leaveFinding);
  for (const finding of leftovers) yield old.includes(finding) ? { action: "removed", finding } : leaveFinding(finding);
}

/** The repair of one task's file; without a lock, what it would do. */
class FileRepair {
  readonly #folder: TaskFolder;
  readonly #lock: FolderLock | undefined;
  readonly #quarantine: Quarantine;

  constructor(root: string, folder: TaskFolder, lock: FolderLock | undefined) {
    this.#folder = folder;
    this.#lock = lock;
    this.#quarantine = new Quarantine(root, folder.name, lock);
  }

  /** First every damaged line is in quarantine, then the file is written without them, in one step. */
  async run({ file, taskId, items }: InspectedTaskFile): Promise<RepairStep[]> {
    const path = join(this.#folder.path, TASK_FILE_NAME);
    const findings = items.flatMap(({ finding }) => (finding ? [finding] : []));
    const bytes = await bytesOf(path);
    const doomed = items.filter(({ finding }) => finding?.kind === "record" || finding?.kind === "numbering");
    if (file === undefined || taskId === undefined || bytes === undefined || doomed.length === 0) {
      return findings.map(leaveFinding);
    }
    const first = bytes.toString("latin1", 0, Math.max(0, bytes.indexOf("\n")) || bytes.length);
    const { lastSequence: atLeast, refusal } = file;
    const lastSequence = refusal === undefined ? atLeast : await recoverLastSequence(first, taskId, atLeast);

    const steps: RepairStep[] = [];
    for (const { entry, finding } of items) {
      if (finding?.kind === "record") {
        steps.push({ action: "quarantined", finding, to: await this.#keep(entry, finding, bytes) });
      } else if (finding?.kind === "numbering") {
        steps.push({ action: "renumbered", finding, to: await this.#keep(undefined, finding, bytes), lastSequence });
      } else if (finding) steps.push(leaveFinding(finding));
    }
    const kept = items.filter((item) => !doomed.includes(item)).flatMap(({ entry }) => (entry ? [entry] : []));
    const content = file.renderRepaired(taskId, kept, lastSequence);
    await this.#lock?.write(path, content, { firstInFolder: false });
    return steps;
  }

  /** A line as it stood there; the whole file where the line can't be told, or is not what is wrong. */
  async #keep(entry: Entry | undefined, finding: RecordFinding | NumberingFinding, file: Buffer): Promise<string> {
    const line = entry && isDamaged(entry) && entry.lineNumber === undefined ? undefined : entry?.line;
    const name = finding.sequence === undefined ? numberIn(finding.location) : `checkpoint-${finding.sequence}.json`;
    return line === undefined
      ? this.#quarantine.keep(TASK_FILE_NAME, file, finding)
      : this.#quarantine.keep(name, Buffer.from(line), finding);
  }
}

function numberIn(location: string): string {
  return `line-${/\(line (\d+)\)$/.exec(location)?.[1] ?? "unknown"}.json`;
}

function createdAtIn(line: string | Uint8Array): { readonly createdAt?: string } {
  const [, createdAt] = /"createdAt":"(\d{4}-[\dT:.-]{1,30}Z)"/.exec(Buffer.from(line).toString("latin1")) ?? [];
  return createdAt === undefined ? {} : { createdAt };
}

/** Of a link, a folder, or what a disk no longer gives, there are none. */
async function bytesOf(path: string): Promise<Buffer | undefined> {
  try {
    return await readStored(path, MAX_TASK_FILE_BYTES);
  } catch (error) {
    whyUnreadable(error);
    return undefined;
  }
}
