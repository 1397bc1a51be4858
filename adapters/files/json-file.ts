import { statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { checkBoolean, checkKeys, formWith, listKeys } from "../../src/contract/arguments.js";
import type { StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { listNames, SLICE, syncFolder } from "./file-io.js";
import {
  CHECKPOINT_FILE,
  CheckpointFile,
  compareFileNames,
  nameCheckpointFile,
  nameTombstone,
  parseSequence,
  renderCheckpoint,
  TOMBSTONE,
} from "./json-file-format.js";
import { type FolderLock, wasHeldLastHere } from "./lock.js";
import { toFileName } from "./names.js";
import type { LoadedTask, RecordQuery } from "./record.js";
import { FolderStore, type FolderStoreOptions } from "./store.js";

/** The options of {@link JsonFileAdapter}. */
export interface JsonFileAdapterOptions extends FolderStoreOptions {
  /**
   * True to write each state over many lines, so that a diff shows its changes. Either layout can be read at any time.
   * Default false.
   */
  readonly pretty?: boolean | undefined;
}

const LOG_NAME = "log.jsonl";
/** How many folders the cache holds. A folder of 1,000 checkpoints takes 100 KB. */
const MAX_FOLDERS = 1_000;

/**
 * Stores one JSON file per checkpoint, in one folder per task. It is meant for people who read, search and commit their
 * checkpoints.
 *
 * ```
 * <path>/build-42/000000000007-a1.json
 * ```
 *
 * Saves survive a killed process and a power cut. Any number of processes on one machine may share a root folder. Files
 * have mode 0600, folders 0700.
 */
export class JsonFileAdapter extends FolderStore {
  /** @throws {TypeError | RangeError} An option is wrong. */
  constructor(options: JsonFileAdapterOptions) {
    checkKeys(
      "JsonFileAdapterOptions",
      options,
      listKeys<JsonFileAdapterOptions>({ path: true, lockTimeoutMs: true, pretty: true }),
      formWith("path", options),
    );
    const { pretty = false, ...rest } = options;
    super("json-file", rest, (path, lock) => loadFolder(path, lock, pretty), LOG_NAME);
    checkBoolean("JsonFileAdapterOptions.pretty", pretty);
  }

  /** @internal */
  protected override async writeBeside(path: string, lock: FolderLock, write: () => Promise<void>): Promise<void> {
    const folder = findCurrent(path, lock, readFolderStats(path));
    await (folder === undefined ? write() : folder.writeBeside(write));
  }
}

/**
 * Caches folder listings for all adapters of this process, so that the thousandth save costs as much as the first. The
 * lock shows whether another process has written, and the folder's modification time shows whether a person has changed
 * it. The key is the folder's inode, so that writes through another path are noticed. A listing is used only for the
 * path that loaded it, because on a disk that ignores case, two tasks' names may lead to one folder.
 */
const known = new Map<string, JsonFolder>();

function loadFolder(path: string, lock: FolderLock | undefined, isPretty: boolean): JsonFolder {
  const stats = readFolderStats(path);
  const current = findCurrent(path, lock, stats);
  const folder = current ?? new JsonFolder(path, stats.modified);
  if (lock === undefined) return folder;
  // Adapters of this process share the folder object but may differ in `pretty`. Only the lock's holder writes, so use
  // its option.
  folder.isPretty = isPretty;
  if (current !== undefined) return folder;
  // If the lock was stolen, this listing may lack the thief's writes.
  lock.assertHeld();
  if (known.size === MAX_FOLDERS) known.clear();
  known.set(stats.inode, folder);
  return folder;
}

/** Returns the cached listing, unless another process or a person has changed the folder since. */
function findCurrent(path: string, lock: FolderLock | undefined, { inode, modified }: FolderStats) {
  const former = known.get(inode);
  const isSame = former?.path === path && former.modified !== undefined && former.modified === modified;
  return isSame && (lock?.isUninterrupted ?? wasHeldLastHere(path)) ? former : undefined;
}

/** A task's folder with one file per checkpoint, and the cached names of these files. */
class JsonFolder implements LoadedTask {
  readonly path: string;
  isPretty = false;
  /** The folder's modification time for which the cached names are right; `undefined` if they may be out of date. */
  modified: bigint | undefined;
  /** Names of the tombstones that keep the sequences of removed newest checkpoints. */
  #tombstones: readonly string[];
  /**
   * The names of the checkpoint files, the oldest first. An append adds to this array, and a removal makes a new array,
   * so neither disturbs an iteration.
   */
  #names: string[];
  /** File names by `toFileName(id)`. Made at the first search for an id. */
  #byId: Map<string, string> | undefined;

  constructor(path: string, modified: bigint | undefined) {
    this.path = path;
    this.modified = modified;
    const names = listNames(path);
    this.#tombstones = names.filter((name) => TOMBSTONE.test(name));
    this.#names = names.filter((name) => CHECKPOINT_FILE.test(name)).sort(compareFileNames);
  }

  get count(): number {
    return this.#names.length;
  }

  get newestSequence(): number {
    return parseSequence(this.#names.at(-1) ?? "0");
  }

  get lastSequence(): number {
    return Math.max(this.newestSequence, ...this.#tombstones.map(parseSequence));
  }

  find(id: string): CheckpointFile | undefined {
    this.#byId ??= new Map(this.#names.map((name) => [this.#makeFile(name).idName, name]));
    const name = this.#byId.get(toFileName(id));
    return name === undefined ? undefined : this.#makeFile(name);
  }

  /** Applies range, order and `skip` to the files' names, so that only files that the query needs are opened. */
  *select({ order, skip = 0, afterSequence, beforeSequence }: RecordQuery): Generator<CheckpointFile, void, void> {
    const names = this.#names;
    const first = afterSequence === undefined ? 0 : countBefore(names, afterSequence + 1);
    const end = beforeSequence === undefined ? names.length : countBefore(names, beforeSequence);
    for (let at = skip; at < end - first; at++) {
      yield this.#makeFile(names[order === "oldest" ? first + at : end - 1 - at] ?? "");
    }
  }

  async add(record: StoredCheckpoint, lock: FolderLock, replaced: readonly CheckpointFile[]): Promise<void> {
    const file = this.#makeFile(nameCheckpointFile(record.sequence, record.id));
    await this.#write(file, record, lock, replaced.length === 0);
    this.#names.push(file.name);
    this.#byId?.set(file.idName, file.name);
    if (replaced.length > 0) await this.remove(replaced, lock);
  }

  async replace(file: CheckpointFile, record: StoredCheckpoint, lock: FolderLock): Promise<void> {
    await this.#write(file, record, lock, true);
  }

  async remove(doomed: readonly CheckpointFile[] | "all", lock: FolderLock): Promise<number> {
    // If a removal fails, the cached names may be out of date.
    this.modified = undefined;
    const gone = new Set(doomed === "all" ? this.#names : doomed.map(({ name }) => name));
    const left = this.#names.filter((name) => !gone.has(name));
    const last = this.lastSequence;
    const tombstones = doomed === "all" || parseSequence(left.at(-1) ?? "0") === last ? [] : [nameTombstone(last)];
    // The tombstone is written first, because a kill in between must not lose the last sequence.
    for (const name of tombstones) {
      if (!this.#tombstones.includes(name)) await lock.write(join(this.path, name), new Uint8Array());
    }
    let removed = 0;
    for (const [at, name] of [...gone].entries()) {
      if (lock.remove(join(this.path, name))) removed += 1;
      this.#byId?.delete(this.#makeFile(name).idName);
      if (at % SLICE === SLICE - 1) await setImmediate();
    }
    // Tombstones are removed last, so a kill can't lose the last sequence while checkpoints remain.
    for (const name of this.#tombstones) if (!tombstones.includes(name)) lock.remove(join(this.path, name));
    // Sync even if nothing was removed, because an earlier process may have died between a removal and its sync.
    await syncFolder(this.path);
    this.#names = left;
    this.#tombstones = tombstones;
    this.modified = readFolderStats(this.path).modified;
    return removed;
  }

  async #write(
    { location }: CheckpointFile,
    record: StoredCheckpoint,
    lock: FolderLock,
    isLast: boolean,
  ): Promise<void> {
    const content = renderCheckpoint(record, this.isPretty);
    await this.writeBeside(() => (isLast ? lock.writeLast(location, content) : lock.write(location, content)));
  }

  /** Runs a write in the folder that changes none of the cached names. The caller holds the lock. */
  async writeBeside(write: () => Promise<void>): Promise<void> {
    // If the write fails, the cached names may be out of date.
    this.modified = undefined;
    await write();
    this.modified = readFolderStats(this.path).modified;
  }

  #makeFile(name: string): CheckpointFile {
    return new CheckpointFile(this.path, name);
  }
}

interface FolderStats {
  readonly inode: string;
  readonly modified: bigint | undefined;
}

/** Counts the names with a lower sequence, by binary search. The names must be sorted. */
function countBefore(names: readonly string[], sequence: number): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (parseSequence(names[middle] ?? "") < sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}

function readFolderStats(path: string): FolderStats {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return { inode: `${stats?.dev} ${stats?.ino}`, modified: stats?.mtimeNs };
}
