import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type CorruptRecord, checkKeys, type StorageWarning, type TaskQuery } from "../../src/contract/adapter.js";
import type { TaskSummary } from "../../src/contract/checkpoint.js";
import { ClosedError } from "../../src/contract/errors.js";
import { exposuresOf } from "../exposure.js";
import { syncFolder } from "./durable-write.js";
import { FolderLock } from "./folder-lock.js";
import { type ClaimKind, type ClaimOptions, removeIfEmpty, removeLockFolders } from "./lock-claim.js";
import { LOCK_TIMEOUT_MS, LockTurns, underLock } from "./lock-turns.js";
import { makeFolder, makeFolders } from "./make-folders.js";
import { codeOf, storageFailure } from "./storage-failure.js";
import { isFolder } from "./store-folders.js";
import { nameOf } from "./task-folder.js";
import { type ReadContents, scanTasks } from "./task-scan.js";

/** The options that every adapter on files has. */
export interface FolderStoreOptions {
  /** The root folder, made by the first save. Each task gets a folder in it. */
  readonly path: string;
  /** How long a write waits for other processes' writes of the same task, in milliseconds. Default 15,000. */
  readonly lockTimeoutMs?: number | undefined;
}

/** How a store locks what belongs to a task. */
interface StoreLock extends Pick<ClaimOptions, "leavesFolder"> {
  /**
   * What the lock's folder is named, in the task's. A function: tasks have no folders, their files stand side by side
   * in the root, and each task's lock has a name of its own there that no file begins with.
   */
  readonly name: string | ((taskId: string) => string);
}

/** Where a task's files are, and its lock. */
interface Place {
  readonly folder: string;
  readonly lockName: string;
  /** The folder is this task's alone. */
  readonly isOwn: boolean;
}

/** A write of one task. */
interface TaskWrite<Result> {
  readonly taskId: string;
  /** The name of the task's folder, where nobody can tell whose it is. Then `taskId` is for messages alone. */
  readonly folderName?: string | undefined;
  /** In the words of a message: `save`. */
  readonly verb: string;
  /** The answer where the task has no folder. Without it, the folder is made. */
  readonly absent?: () => Result;
  /** The kind of lock it takes; see {@link FolderLock.acquire}. */
  readonly claim: ClaimKind;
  /** Takes the folder away afterwards, if nothing is left in it. */
  readonly removesTask?: boolean;
  /** Reads what it goes by after it was called: what was known before the lock was taken may no longer be true. */
  readonly work: (lock: FolderLock, folder: string) => Promise<Result>;
}

const READ = "read";

/**
 * A root folder with a folder for each task: which folder is whose, one write of a task at a time, in call order and
 * under a lock that processes share, and an end that waits for what is under way.
 */
export class FolderStore {
  readonly #adapter: string;
  readonly #root: string;
  readonly #lock: StoreLock;
  readonly #lockTimeoutMs: number;
  readonly #turns = new LockTurns();
  readonly #underWay = new Set<Promise<unknown>>();
  #closed = false;

  /**
   * @param adapter - What messages call it: `json-file`.
   * @throws {TypeError | RangeError} A wrong option.
   */
  constructor(adapter: string, options: FolderStoreOptions, lock: StoreLock) {
    checkKeys(`The options of the ${adapter} adapter`, options, ["path", "lockTimeoutMs"]);
    const { path, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
    if (typeof path !== "string" || path === "" || path.includes("\0")) {
      throw new TypeError(`The ${adapter} adapter needs a path: the folder to keep checkpoints in.`);
    }
    if (typeof lockTimeoutMs !== "number" || !(lockTimeoutMs >= 0)) {
      throw new RangeError(`lockTimeoutMs must be a number of milliseconds from 0; it is ${String(lockTimeoutMs)}.`);
    }
    this.#adapter = adapter;
    this.#root = resolve(path);
    this.#lock = lock;
    this.#lockTimeoutMs = lockTimeoutMs;
  }

  /** Absolute. */
  get root(): string {
    return this.#root;
  }

  /**
   * The folder of a task that has one.
   *
   * @throws {StorageError} A link or a file stands in its place.
   */
  existingFolder(taskId: string): string | undefined {
    const folder = join(this.#root, nameOf(taskId));
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

  /**
   * A write: after those of the task that were called before it, under the task's lock, and once more from the
   * beginning where the lock was stolen before it could commit.
   */
  async write<Result>(write: TaskWrite<Result>): Promise<Result> {
    this.#assertOpen();
    const place = this.#placeOf(write.taskId, write.folderName);
    const run = async (): Promise<Result> => {
      const result = await this.#underLock(place, write);
      if (write.removesTask) await this.#removeRest(place);
      return result;
    };
    return this.#track(this.#turns.take(join(place.folder, place.lockName), run)).catch((error: unknown) =>
      this.#fail(error, write.verb, write.taskId),
    );
  }

  /** The tasks that a query asks for; see {@link StorageAdapter.tasks}. */
  tasks(query: TaskQuery, read: ReadContents): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    return this.iterate(scanTasks(this.#root, query, read));
  }

  /** See {@link StorageAdapter.warnings}. */
  async warnings(): Promise<readonly StorageWarning[]> {
    return exposuresOf(this.#root);
  }

  async close(): Promise<void> {
    this.#closed = true;
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
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
      taskId === undefined ? ["tasks", this.#root] : [`task ${JSON.stringify(taskId)}`, this.#placeOf(taskId).folder];
    throw storageFailure(error, { doing: `${verb} ${what}`, path, isRead: verb === READ });
  }

  #placeOf(taskId: string, folderName = nameOf(taskId)): Place {
    const { name } = this.#lock;
    return typeof name === "string"
      ? { folder: join(this.#root, folderName), lockName: name, isOwn: true }
      : { folder: this.#root, lockName: name(taskId), isOwn: false };
  }

  #underLock<Result>(place: Place, { absent, claim, work }: TaskWrite<Result>): Promise<Result> {
    const { folder, isOwn } = place;
    return underLock(folder, {
      acquire: () => this.#acquire(place, claim),
      absent,
      make: async () => {
        // A task's own name is put on the disk with the first file in it, those above it now.
        for (const changed of makeFolders(isOwn ? dirname(folder) : folder)) await syncFolder(changed);
        if (isOwn) makeFolder(folder);
      },
      work: (lock) => work(lock, folder),
    });
  }

  /** `undefined` where there is no folder. */
  async #acquire({ folder, lockName, isOwn }: Place, kind: ClaimKind): Promise<FolderLock | undefined> {
    // The root is the user's, who may have made it a link.
    // Each time: a link may have been put in its place since the last write.
    if (isOwn && !isFolder(folder)) return undefined;
    try {
      const { leavesFolder } = this.#lock;
      return await FolderLock.acquire(join(folder, lockName), { kind, leavesFolder }, this.#lockTimeoutMs);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      // Another process removed the task just now, or removed no more than the lock's folder.
      return existsSync(folder) ? this.#acquire({ folder, lockName, isOwn }, kind) : undefined;
    }
  }

  /** What locks have left behind, and the task's folder, if it has one and nothing is left in it. */
  async #removeRest({ folder, lockName, isOwn }: Place): Promise<void> {
    removeLockFolders(folder, lockName);
    // Otherwise other programs have files there, or the task is back already, or another process was first.
    if (!isOwn || !removeIfEmpty(folder)) return;
    await syncFolder(dirname(folder));
  }
}
