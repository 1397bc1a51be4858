import { existsSync } from "node:fs";
import { join } from "node:path";
import { filesFolderOf } from "./claims.js";
import { JsonFolder, modifiedOf } from "./json-folder.js";
import type { FolderLock } from "./lock.js";
import { FolderStore, type FolderStoreOptions } from "./store.js";
import { LOCK_NAME } from "./task.js";

/** The options of {@link JsonFileAdapter}. */
export interface JsonFileAdapterOptions extends FolderStoreOptions {}

/** At most so many names are remembered, of all folders together. They take some 20 MB. */
const MAX_NAMES = 200_000;
/** A folder whose time is older than this shows later changes in its time: the system's clock has moved on. */
const SETTLED_MS = 100;

/**
 * One JSON file per checkpoint, in one folder per task: for people who read, search and commit their checkpoints.
 *
 * ```
 * <path>/build-42/000000000007-a1.json
 * ```
 *
 * Saves survive a killed process and a power cut. Any number of processes of one machine may use one root folder. Files
 * have mode 0600, folders 0700.
 *
 * It remembers the names in folders as long as nobody else has written there, so that the thousandth save costs what the
 * first does. Other processes show in the lock: what this adapter left there is gone. Changes by hand show in the
 * folder's own time.
 */
export class JsonFileAdapter extends FolderStore {
  readonly #recent = new Map<string, JsonFolder>();
  #names = 0;

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: JsonFileAdapterOptions) {
    super("json-file", options);
  }

  /** @throws {LockLostError} */
  protected override load(path: string, lock: FolderLock | undefined): JsonFolder {
    const known = this.#recent.get(path);
    const modified = modifiedOf(path);
    const isSame = known?.modified !== undefined && known.modified === modified;
    if (isSame && (lock?.isUninterrupted ?? (known.isSettled || this.#wroteLast(path)))) return known;
    const isSettled = modified !== undefined && Date.now() - Number(modified / 1_000_000n) > SETTLED_MS;
    const folder = new JsonFolder(path, { modified, isSettled });
    // What a thief of the lock wrote meanwhile may be missing.
    lock?.assertHeld();
    if (lock || isSettled) this.#remember(folder);
    return folder;
  }

  #wroteLast(path: string): boolean {
    return existsSync(join(path, LOCK_NAME, filesFolderOf(this.owner)));
  }

  #remember(folder: JsonFolder): void {
    const { path, count } = folder;
    if (this.#names + count > MAX_NAMES) {
      this.#recent.clear();
      this.#names = 0;
    }
    if (count > MAX_NAMES) return;
    this.#recent.set(path, folder);
    this.#names += 1 + count;
  }
}
