import { lstatSync, readdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { CorruptRecord, TaskQuery } from "../../src/adapter.js";
import { type CheckpointSummary, compareTaskIds, type TaskSummary } from "../../src/checkpoint.js";
import { ClosedError, StorageError } from "../../src/errors.js";
import { makeFolder, makeFolderUnsynced, syncFolder } from "./durable-write.js";
import { FolderLock, LockLostError } from "./folder-lock.js";
import { type ClaimKind, removeIfEmpty, removeLockFolders } from "./lock-claim.js";
import { RecentMap } from "./recent-map.js";
import { codeOf, storageFailure } from "./storage-failure.js";
import { idOf, isHashedName, nameOf } from "./task-folder.js";
import { TimeSlices } from "./time-slices.js";

/** The options that every adapter on files has. */
export interface FolderStoreOptions {
  /** The root folder, made by the first save. Each task gets a folder in it. */
  readonly path: string;
  /** How long a write waits for other processes' writes of the same task, in milliseconds. Default 15,000. */
  readonly lockTimeoutMs?: number | undefined;
}

/** The folder that locks a task's folder, inside of it. */
export interface StoreLock {
  readonly name: string;
  /** Leaves it there between writes, which makes them a good deal cheaper: disks are slow at making folders. */
  readonly stays: boolean;
}

/** A write of one task. */
export interface TaskWrite<Result> {
  readonly taskId: string;
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

/** What a task's folder holds. */
export interface TaskContents {
  /** Whose it is, as far as that can be told. */
  readonly taskId: string | undefined;
  readonly count: number;
  /** The newest readable checkpoint. */
  readonly newest: CheckpointSummary | undefined;
  /** What is newer than that and can't be read. */
  readonly corrupt: readonly CorruptRecord[];
}

/** Reads a task's folder; `undefined` where it holds no checkpoint. `taskId` is what its name says, if it says it. */
export type ReadContents = (
  folder: string,
  taskId: string | undefined,
) => TaskContents | undefined | Promise<TaskContents | undefined>;

/** Longer than a dead holder's lock takes to go stale. */
const LOCK_TIMEOUT_MS = 15_000;
/** Far more than are lost in a row by accident. */
const MAX_LOST_LOCKS = 20;

/**
 * A root folder with a folder for each task: which folder is whose, one write of a task at a time, in call order and
 * under a lock that processes share, and an end that waits for what is under way.
 */
export class FolderStore {
  readonly #adapter: string;
  readonly #root: string;
  readonly #lock: StoreLock;
  readonly #lockTimeoutMs: number;
  /** The end of each folder's last write. */
  readonly #queues = new Map<string, Promise<void>>();
  readonly #underWay = new Set<Promise<unknown>>();
  /** Folders that were no links when this store first wrote to them. */
  readonly #folders = new RecentMap<true>();
  #closed = false;

  /**
   * @param adapter - What messages call it: `json-file`.
   * @throws {TypeError | RangeError} A wrong option.
   */
  constructor(adapter: string, options: FolderStoreOptions, lock: StoreLock) {
    const { path, lockTimeoutMs = LOCK_TIMEOUT_MS, ...unknown } = options;
    for (const key of Object.keys(unknown)) throw new TypeError(`The ${adapter} adapter has no option "${key}".`);
    if (typeof path !== "string" || path === "") {
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
    return this.#track(work()).catch((error: unknown) => this.#fail(error, "read", taskId));
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
      this.#fail(error, "read", taskId);
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
    const folder = join(this.#root, nameOf(write.taskId));
    const run = async (): Promise<Result> => {
      const result = await this.#underLock(folder, write);
      if (write.removesTask) await this.#removeFolderIfEmpty(folder);
      return result;
    };
    return this.#track(this.#enqueue(folder, run)).catch((error: unknown) =>
      this.#fail(error, write.verb, write.taskId),
    );
  }

  /** The tasks that a query asks for; see {@link StorageAdapter.tasks}. Reads no more folders than it must. */
  async *tasks(query: TaskQuery, read: ReadContents): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    const slices = new TimeSlices();
    const candidates = await this.#candidates(query, read, slices);
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    for (const candidate of candidates) {
      if (left === 0) return;
      const contents = candidate.contents ?? (await read(candidate.folder, candidate.taskId));
      if (contents) {
        yield* contents.corrupt;
        const task = taskSummary(contents, query);
        if (task) {
          left -= 1;
          yield task;
        }
      }
      if (slices.due) await slices.pause();
    }
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
      taskId === undefined
        ? ["tasks", this.#root]
        : [`task ${JSON.stringify(taskId)}`, join(this.#root, nameOf(taskId))];
    throw storageFailure(error, { doing: `${verb} ${what}`, path });
  }

  #enqueue<Result>(folder: string, run: () => Promise<Result>): Promise<Result> {
    const before = this.#queues.get(folder);
    const running = before ? before.then(run) : run();
    const dequeue = (): void => {
      if (this.#queues.get(folder) === ended) this.#queues.delete(folder);
    };
    // The next one goes its own way, however this one ends.
    const ended: Promise<void> = running.then(dequeue, dequeue);
    this.#queues.set(folder, ended);
    return running;
  }

  async #underLock<Result>(folder: string, { absent, claim, work }: TaskWrite<Result>): Promise<Result> {
    let lost: LockLostError | undefined;
    for (let attempt = 0; attempt < MAX_LOST_LOCKS; attempt++) {
      const lock = await this.#acquire(folder, claim);
      if (lock === undefined) {
        if (absent) return absent();
        await makeFolder(dirname(folder));
        await makeFolderUnsynced(folder);
        continue;
      }
      try {
        return await work(lock, folder);
      } catch (error) {
        if (!(error instanceof LockLostError)) throw error;
        lost = error;
      } finally {
        lock.release();
        if (!this.#lock.stays) removeIfEmpty(join(folder, this.#lock.name));
      }
    }
    throw new StorageError(
      `The lock in ${folder} was stolen ${MAX_LOST_LOCKS} times before a write could be committed. Nothing was changed. ` +
        "Try again once this machine is under less load.",
      { cause: lost, retryable: true },
    );
  }

  /** `undefined` where there is no folder. */
  async #acquire(folder: string, claim: ClaimKind): Promise<FolderLock | undefined> {
    if (!this.#folders.get(folder)) {
      if (!isFolder(folder)) return undefined;
      this.#folders.set(folder, true);
    }
    try {
      return await FolderLock.acquire(join(folder, this.#lock.name), claim, this.#lockTimeoutMs);
    } catch (error) {
      // Another process removed the task just now.
      if (codeOf(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  async #removeFolderIfEmpty(folder: string): Promise<void> {
    removeLockFolders(folder, this.#lock.name);
    // Otherwise other programs have files there, or the task is back already, or another process was first.
    if (!removeIfEmpty(folder)) return;
    await syncFolder(dirname(folder));
  }

  /** In the query's order, with the contents that had to be read to find it. */
  async #candidates(query: TaskQuery, read: ReadContents, slices: TimeSlices): Promise<readonly Candidate[]> {
    const candidates: Candidate[] = [];
    for (const name of folderNames(this.#root)) {
      const folder = join(this.#root, name);
      let taskId = idOf(name);
      let contents: TaskContents | undefined;
      if (taskId === undefined && !isHashedName(name)) continue;
      if (taskId !== undefined && !isAskedFor(taskId, query)) continue;
      if (taskId === undefined || query.order === "recent") {
        contents = await read(folder, taskId);
        if (contents === undefined) continue;
        taskId ??= contents.taskId;
      }
      if (taskId === undefined || isAskedFor(taskId, query)) candidates.push({ folder, taskId, contents });
      if (slices.due) await slices.pause();
    }
    return candidates.sort(query.order === "recent" ? byRecency : byTaskId);
  }
}

interface Candidate {
  readonly folder: string;
  readonly taskId: string | undefined;
  readonly contents: TaskContents | undefined;
}

/** Whether a record's task is the one that the folder's name stands for. */
export function isOwner(taskId: string, folder: string): boolean {
  return nameOf(taskId) === basename(folder);
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

function isAskedFor(taskId: string, { prefix, after }: TaskQuery): boolean {
  return (
    (prefix === undefined || taskId.startsWith(prefix)) && (after === undefined || compareTaskIds(taskId, after) > 0)
  );
}

function taskSummary({ taskId, count, newest }: TaskContents, { status }: TaskQuery): TaskSummary | undefined {
  if (taskId === undefined || newest === undefined) return undefined;
  return status === undefined || status.includes(newest.status) ? { taskId, count, newest } : undefined;
}

/** Those that nobody can tell the id of come first. */
function byTaskId(a: Candidate, b: Candidate): number {
  return compareTaskIds(a.taskId ?? "", b.taskId ?? "");
}

/** Those without a readable checkpoint come first: a limit must not hide the damage. */
function byRecency(a: Candidate, b: Candidate): number {
  const [left, right] = [a.contents?.newest?.createdAt, b.contents?.newest?.createdAt];
  if (left === right) return byTaskId(a, b);
  if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
  return left > right ? -1 : 1;
}

/** Links are no folders here. */
function folderNames(root: string): string[] {
  try {
    return readdirSync(root, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

function isFolder(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined || stats.isDirectory()) return stats !== undefined;
  throw new StorageError(
    `${path} is ${stats.isSymbolicLink() ? "a symbolic link, and links inside the store are not followed" : "not a folder"}. ` +
      "It was left untouched; move it away.",
  );
}
