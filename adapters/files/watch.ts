import { type FSWatcher, utimesSync, watch } from "node:fs";
import { readCode } from "../../src/contract/errors.js";
import { readStats } from "./file-io.js";

/** The interval at which a missing root folder is polled for, in milliseconds. */
const ROOT_MS = 500;

/**
 * Watches a root folder and the folders of tasks through the system's notifications (inotify on Linux). Each change of
 * a task changes a file in its folder. If the system can't watch a folder, for example because too many are watched,
 * there are no notifications.
 */
export class FolderWatches {
  readonly #root: string;
  readonly #folders = new Map<string, WatchedFolder>();

  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Calls `changed` once the folder is watched, and after each change of a file in it. Returns a function that ends the
   * watch.
   */
  add(path: string, changed: () => void): () => void {
    let folder = this.#folders.get(path);
    if (folder === undefined) {
      const watchRoot = path === this.#root ? undefined : (made: () => void) => this.add(this.#root, made);
      folder = new WatchedFolder(path, watchRoot);
      this.#folders.set(path, folder);
    }
    const remove = folder.add(changed);
    return () => {
      remove();
      if (!folder.isUnused) return;
      folder.end();
      if (this.#folders.get(path) === folder) this.#folders.delete(path);
    };
  }

  /** Ends all watches. */
  end(): void {
    for (const folder of this.#folders.values()) folder.end();
    this.#folders.clear();
  }
}

/** A watched folder. It may not exist yet, or may be removed and made again. */
class WatchedFolder {
  readonly #path: string;
  readonly #watchRoot: ((made: () => void) => () => void) | undefined;
  readonly #watchers = new Set<() => void>();
  #watcher: FSWatcher | undefined;
  #inode: number | undefined;
  /** Ends the wait for a missing folder. */
  #stopWaiting: (() => void) | undefined;

  /** @param watchRoot - Watches the root folder; `undefined` if this is the root folder. */
  constructor(path: string, watchRoot: ((made: () => void) => () => void) | undefined) {
    this.#path = path;
    this.#watchRoot = watchRoot;
  }

  get isUnused(): boolean {
    return this.#watchers.size === 0;
  }

  add(changed: () => void): () => void {
    const watcher = () => changed();
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) setImmediate(() => this.#open());
    // `#open` notifies the first watcher; later ones are notified here.
    else if (this.#watcher !== undefined) watcher();
    return () => void this.#watchers.delete(watcher);
  }

  end(): void {
    this.#watchers.clear();
    this.#close();
  }

  #open(): void {
    this.#close();
    if (this.isUnused) return;
    this.#inode = readStats(this.#path)?.ino;
    if (this.#inode === undefined) {
      this.#waitForFolder();
      return;
    }
    try {
      this.#watcher = watch(this.#path, { persistent: false });
    } catch (error) {
      // The folder was removed, or the system can't watch it. The watchers still poll.
      if (readCode(error) === "ENOENT") this.#waitForFolder();
      return;
    }
    this.#watcher.on("error", () => this.#close());
    this.#watcher.on("change", (type) => {
      // The old watch ends with a removed folder, so watch the folder that now has its name.
      if (type === "rename" && readStats(this.#path)?.ino !== this.#inode) this.#open();
      this.#tell();
    });
    this.#tell();
  }

  #close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#stopWaiting?.();
    this.#stopWaiting = undefined;
  }

  #waitForFolder(): void {
    const openMade = () => {
      if (readStats(this.#path) !== undefined) this.#open();
    };
    if (this.#watchRoot !== undefined) {
      this.#stopWaiting = this.#watchRoot(openMade);
      return;
    }
    const timer = setInterval(openMade, ROOT_MS).unref();
    this.#stopWaiting = () => clearInterval(timer);
  }

  #tell(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** Notifies the folder's watchers although no file in it has changed. */
export function touchFolder(path: string): void {
  try {
    const now = new Date();
    utimesSync(path, now, now);
  } catch {
    // The folder was removed or belongs to another user. The notification is only a hint: watchers also poll.
  }
}
