import { readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { type CorruptRecord, checkKeys, type TaskQuery } from "../../src/contract/adapter.js";
import type { TaskSummary } from "../../src/contract/checkpoint.js";
import { ClosedError, StorageError } from "../../src/contract/errors.js";
import { makeFolder, makeFolders, syncFolder } from "./durable-write.js";
import { codeOf, storageFailure } from "./failure.js";
import { type FolderLock, newOwner, withLock } from "./lock.js";
import { nameOf } from "./names.js";
import { statsOf } from "./read-file.js";
import { type ReadContents, scanTasks } from "./task-scan.js";

/** The options that every adapter on files has. */
export interface FolderStoreOptions {
  /** The root folder, made by the first save. Each task gets a folder in it. */
  readonly path: string;
  /** How long a write waits for other processes' writes of the same task, in milliseconds. Default 15,000. */
  readonly lockTimeoutMs?: number | undefined;
}

/** A write of one task. */
interface TaskWrite<Result> {
  readonly taskId: string;
  /** The task's folder, where its id is not known. Then `taskId` is for messages alone. */
  readonly folder?: string | undefined;
  /** In the words of a message: `save to`. */
  readonly verb: string;
  /** The answer where the task has no folder. Without it, the folder is made. */
  readonly absent?: () => Result;
  /** Reads what it goes by after it was called: it is called again where the lock was stolen before a commit. */
  readonly work: (lock: FolderLock, folder: string) => Promise<Result>;
}

/** The lock's folder in each task's. While nobody holds the lock, it has no files in it, so Git doesn't see it. */
export const LOCK_NAME = ".lock";
/** Longer than the lock of a dead holder takes to go stale. */
export const LOCK_TIMEOUT_MS = 15_000;

const READ = "read";
/** More folders than that are looked at again before their next write. */
const MAX_KNOWN_FOLDERS = 10_000;

/**
 * A root folder with a folder for each task: which folder is whose, one write of a task at a time, in call order and
 * under a lock that processes share, and an end that waits for what is under way.
 */
export class FolderStore {
  /** Absolute. */
  readonly root: string;
  /** Who holds the locks. */
  readonly owner = newOwner();
  readonly #adapter: string;
  readonly #lockTimeoutMs: number;
  readonly #underWay = new Set<Promise<unknown>>();
  /** Folders whose names are on the disk. */
  readonly #known = new Set<string>();
  #closed = false;

  /**
   * @param adapter - What messages call it: `json-file`.
   * @throws {TypeError | RangeError} A wrong option.
   */
  constructor(adapter: string, options: FolderStoreOptions) {
    checkKeys(`The options of the ${adapter} adapter`, options, ["path", "lockTimeoutMs"]);
    const { path, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
    if (typeof path !== "string" || path === "" || path.includes("\0")) {
      throw new TypeError(`The ${adapter} adapter needs a path: the folder to keep checkpoints in.`);
    }
    if (typeof lockTimeoutMs !== "number" || !(lockTimeoutMs >= 0)) {
      throw new RangeError(`lockTimeoutMs must be a number of milliseconds from 0; it is ${String(lockTimeoutMs)}.`);
    }
    this.root = resolve(path);
    this.#adapter = adapter;
    this.#lockTimeoutMs = lockTimeoutMs;
  }

  /**
   * The folder of a task that has one.
   *
   * @throws {StorageError} A link or a file stands in its place.
   */
  existingFolder(taskId: string): string | undefined {
    const folder = this.#folderOf(taskId);
    return isFolder(folder) ? folder : undefined;
  }

  /** A read of one task. */
  async read<Result>(taskId: string, work: () => Promise<Result>): Promise<Result> {
    this.#assertOpen();
    return this.#track(work()).catch((error: unknown) => this.#fail(error, READ, taskId));
  }

  /** A read of one task, or of all, in steps. It ends with a ClosedError where the store is closed meanwhile. */
  async *iterate<Item>(items: AsyncGenerator<Item, void, void>, taskId?: string): AsyncGenerator<Item, void, void> {
    try {
      for (;;) {
        this.#assertOpen();
        const next = await this.#track(items.next());
        if (next.done) return;
        yield next.value;
      }
    } catch (error) {
      this.#fail(error, READ, taskId);
    } finally {
      await items.return();
    }
  }

  /** The tasks that a query asks for; see {@link StorageAdapter.tasks}. */
  tasks(query: TaskQuery, read: ReadContents): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    return this.iterate(scanTasks(this.root, query, read));
  }

  /** A write: after those of the task that this process called before it, and under the task's lock. */
  async write<Result>({ taskId, folder: given, verb, absent, work }: TaskWrite<Result>): Promise<Result> {
    this.#assertOpen();
    const folder = given ?? this.#folderOf(taskId);
    const makeTaskFolder = (): Promise<void> => this.#makeTaskFolder(folder);
    const lockOptions = {
      name: LOCK_NAME,
      timeoutMs: this.#lockTimeoutMs,
      owner: this.owner,
      makeFolder: absent ? undefined : makeTaskFolder,
    };
    const run = async (): Promise<Result> => {
      isFolder(folder);
      return withLock(folder, lockOptions, async (lock) => {
        // Where a process died that had made the folder, its name may not be on the disk yet.
        if (!this.#known.has(folder)) await makeTaskFolder();
        return work(lock, folder);
      });
    };
    return this.#track(run()).catch((error: unknown) => {
      if (absent && codeOf(error) === "ENOENT" && statsOf(folder) === undefined) return absent();
      return this.#fail(error, verb, taskId);
    });
  }

  /** Ends a write of which nothing is left: takes the task's folder away, unless something else is in it. */
  async removeFolder(lock: FolderLock, folder: string): Promise<void> {
    lock.releaseAndRemoveFolder();
    this.#known.delete(folder);
    await syncFolder(this.root);
  }

  async close(): Promise<void> {
    this.#closed = true;
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }

  #folderOf(taskId: string): string {
    return join(this.root, nameOf(taskId));
  }

  async #makeTaskFolder(folder: string): Promise<void> {
    if (!this.#known.has(this.root) || statsOf(this.root) === undefined) await makeFolders(this.root);
    if (!isFolder(folder)) makeFolder(folder);
    await syncFolder(this.root);
    if (this.#known.size >= MAX_KNOWN_FOLDERS) this.#known.clear();
    this.#known.add(this.root).add(folder);
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError(`The ${this.#adapter} adapter`);
  }

  #track<Result>(call: Promise<Result>): Promise<Result> {
    this.#underWay.add(call);
    const ended = (): void => {
      this.#underWay.delete(call);
    };
    call.then(ended, ended);
    return call;
  }

  #fail(error: unknown, verb: string, taskId: string | undefined): never {
    const [what, path] =
      taskId === undefined ? ["tasks", this.root] : [`task ${JSON.stringify(taskId)}`, this.#folderOf(taskId)];
    throw storageFailure(error, { doing: `${verb} ${what}`, path, isRead: verb === READ });
  }
}

/**
 * Whether there is a folder.
 *
 * @throws {StorageError} A link or a file stands in its place.
 */
function isFolder(path: string): boolean {
  const stats = statsOf(path);
  if (stats === undefined || stats.isDirectory()) return stats !== undefined;
  throw new StorageError(
    `${path} is ${stats.isSymbolicLink() ? "a symbolic link, and links inside the store are not followed" : "not a folder"}. ` +
      "It was left untouched; move it away.",
  );
}

/**
 * @param path - What was found there names its task: `owner`.
 * @throws {StorageError} It is another one than the one asked for.
 */
export function assertSameTask(taskId: string, owner: string, path: string): void {
  if (owner === taskId) return;
  throw new StorageError(
    `${path} belongs to task ${JSON.stringify(owner)}, not to ${JSON.stringify(taskId)}. Nothing was changed. ` +
      "Where the two differ in case alone, this disk takes their folders for one: rename a task. " +
      "Otherwise the file was copied there: move it away.",
  );
}

/** Whether a record's task is the one that the folder's name stands for, on a disk too that ignores case. */
export function isOwner(taskId: string, folder: string): boolean {
  return nameOf(taskId).toLowerCase() === basename(folder).toLowerCase();
}

/** What there is in a folder; nothing where there is none, or no longer. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}
