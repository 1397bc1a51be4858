import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { type CheckpointQuery, inRange } from "../../src/contract/adapter.js";
import { type FolderLock, filesFolderOf } from "./lock.js";
import { idOf, nameOf } from "./names.js";
import { LOCK_NAME, namesIn } from "./store.js";

/** The file in a task's folder that keeps the last sequence, from when its checkpoint is removed on. */
export const NUMBERING_FILE = "numbering.json";

const SEQUENCE_DIGITS = 12;
const EXTENSION = ".json";
/** A sequence of more digits has no zeros before it: each has one form. */
const CHECKPOINT_FILE = /^(?:\d{12}|[1-9]\d{12,14})-.+\.json$/;

/** What a checkpoint file's name tells. */
export interface CheckpointFile {
  readonly name: string;
  readonly path: string;
  readonly sequence: number;
  /** The id, as `nameOf` writes it. */
  readonly idName: string;
}

/** The sequence comes first, with zeros before it, so that folders show a task's checkpoints in their order. */
export function checkpointFileName(sequence: number, id: string): string {
  return `${String(sequence).padStart(SEQUENCE_DIGITS, "0")}-${nameOf(id)}${EXTENSION}`;
}

/** Whether a file of that name is a checkpoint's. */
export function isCheckpointFileName(name: string): boolean {
  return CHECKPOINT_FILE.test(name);
}

/** What a checkpoint file's name tells of the checkpoint where the file itself can't be read. */
export function knownByName({ sequence, idName }: CheckpointFile): { readonly sequence: number; readonly id?: string } {
  const id = idOf(idName);
  return { sequence, ...(id === undefined ? undefined : { id }) };
}

/** Which checkpoints a task's folder holds, by the names of their files. */
export class CheckpointFolder {
  readonly path: string;
  /** Whether it keeps the sequence of a checkpoint that was removed. */
  readonly hasNumbering: boolean;
  /** That sequence, once it was read. */
  keptSequence: number | undefined;
  /** Whether it was made sure that it is the task's own. */
  isOwnerChecked = false;
  /** Only its end changes: an iteration isn't disturbed by later writes. */
  #names: string[];
  #newest: string | undefined;
  #isSorted = false;
  /** File names by the ids' names. Made at the first search for an id. */
  #byId: Map<string, string> | undefined;

  constructor(path: string) {
    const names = namesIn(path);
    this.path = path;
    this.hasNumbering = names.includes(NUMBERING_FILE);
    this.#names = names.filter(isCheckpointFileName);
    for (const name of this.#names) {
      if (this.#newest === undefined || compareNames(name, this.#newest) > 0) this.#newest = name;
    }
  }

  get count(): number {
    return this.#names.length;
  }

  /** A damaged one counts: the name says which sequence it has. */
  get newest(): CheckpointFile | undefined {
    return this.#newest === undefined ? undefined : this.#file(this.#newest);
  }

  find(id: string): CheckpointFile | undefined {
    this.#byId ??= new Map(this.#sorted().map((name) => [this.#file(name).idName, name]));
    const name = this.#byId.get(nameOf(id));
    return name === undefined ? undefined : this.#file(name);
  }

  /** Those in the query's range and order, after those it skips. */
  *select(query: Omit<CheckpointQuery, "taskId">): Generator<CheckpointFile, void, void> {
    const { order, beforeSequence, afterSequence } = query;
    let { skip = 0 } = query;
    const { newest } = this;
    // The newest is known without putting thousands in order.
    if (order === "newest" && skip === 0 && newest && inRange(newest.sequence, { ...query, taskId: "" })) {
      yield newest;
      skip = 1;
    }
    const names = this.#sorted();
    const from = afterSequence === undefined ? 0 : firstAbove(names, afterSequence);
    const to = beforeSequence === undefined ? names.length : firstAbove(names, beforeSequence - 1);
    for (let at = from + skip; at < to; at++) {
      const name = names[order === "oldest" ? at : to - 1 - (at - from)];
      if (name !== undefined) yield this.#file(name);
    }
  }

  /** A checkpoint was saved there. */
  add(name: string): void {
    const idName = this.#file(name).idName;
    this.#isSorted &&= this.#newest === undefined || compareNames(name, this.#newest) > 0;
    this.#names.push(name);
    if (this.#newest === undefined || compareNames(name, this.#newest) > 0) this.#newest = name;
    this.#byId?.set(idName, name);
  }

  #sorted(): readonly string[] {
    if (!this.#isSorted) this.#names = this.#names.toSorted(compareNames);
    this.#isSorted = true;
    return this.#names;
  }

  #file(name: string): CheckpointFile {
    const dash = name.indexOf("-");
    const idName = name.slice(dash + 1, -EXTENSION.length);
    return { name, path: join(this.path, name), sequence: Number(name.slice(0, dash)), idName };
  }
}

/** At most so many names are remembered, of all folders together. They take some 20 MB. */
const MAX_NAMES = 200_000;
/** Later changes of a folder whose time is older than this show in its time: the system's clock has moved on. */
const SETTLED_MS = 100;

interface Remembered {
  readonly folder: CheckpointFolder;
  /** The folder's own time. */
  readonly modified: bigint | undefined;
  readonly isSettled: boolean;
}

/**
 * Remembers what folders hold, so that they aren't listed for each call, as long as nobody else has written there. Other
 * processes show in the lock: what this owner left there is gone. Changes by hand show in the folder's own time.
 */
export class RecentFolders {
  readonly #owner: string;
  readonly #entries = new Map<string, Remembered>();
  #names = 0;

  /** @param owner - Who holds the folders' locks. */
  constructor(owner: string) {
    this.#owner = owner;
  }

  /**
   * The folder as it is now, for a write.
   *
   * @throws {LockLostError}
   */
  underLock(lock: FolderLock, path: string): CheckpointFolder {
    const modified = modifiedOf(path);
    const known = this.#entries.get(path);
    if (known && lock.isUninterrupted && known.modified === modified) return known.folder;
    const folder = new CheckpointFolder(path);
    // What a thief of the lock wrote meanwhile may be missing.
    lock.assertHeld();
    this.#remember({ folder, modified, isSettled: false });
    return folder;
  }

  /** The folder as it is now, for a read. */
  now(path: string): CheckpointFolder {
    const modified = modifiedOf(path);
    const known = this.#entries.get(path);
    const isSame = known !== undefined && known.modified === modified;
    if (isSame && (known.isSettled || this.#wroteLast(path))) return known.folder;
    const isSettled = modified !== undefined && Date.now() - Number(modified / 1_000_000n) > SETTLED_MS;
    const folder = new CheckpointFolder(path);
    if (isSettled) this.#remember({ folder, modified, isSettled });
    return folder;
  }

  /** After a write that has kept the folder up to date, while the lock is still held. */
  changed(folder: CheckpointFolder): void {
    if (this.#entries.get(folder.path)?.folder !== folder) return;
    this.#remember({ folder, modified: modifiedOf(folder.path), isSettled: false });
  }

  /** After a write that hasn't. */
  forget(path: string): void {
    this.#names -= this.#entries.get(path)?.folder.count ?? 0;
    this.#entries.delete(path);
  }

  #wroteLast(path: string): boolean {
    return existsSync(join(path, LOCK_NAME, filesFolderOf(this.#owner)));
  }

  #remember(remembered: Remembered): void {
    const { path, count } = remembered.folder;
    this.forget(path);
    if (this.#names + count > MAX_NAMES) {
      this.#entries.clear();
      this.#names = 0;
    }
    if (count > MAX_NAMES) return;
    this.#entries.set(path, remembered);
    this.#names += count;
  }
}

/** The order of checkpoint files' names, the oldest first, without taking them apart. */
function compareNames(a: string, b: string): number {
  const digits = a.indexOf("-") - b.indexOf("-");
  if (digits !== 0) return digits;
  return a === b ? 0 : a < b ? -1 : 1;
}

/** How many of the names, which are in order, have a sequence up to this one. */
function firstAbove(names: readonly string[], sequence: number): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (Number.parseInt(names[middle] ?? "", 10) <= sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}

function modifiedOf(path: string): bigint | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.mtimeNs;
}
