import { join, resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import {
  type AppendCondition,
  type AppendOptions,
  type CheckpointQuery,
  type CorruptRecord,
  isCorrupt,
  matchesQuery,
  matchRetry,
  nextSequence,
  requireNewest,
  type StorageAdapter,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import { AdapterCalls } from "../../src/contract/adapter-calls.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  copyPayload,
  copyRecord,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  summaryOf,
  type TaskSummary,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { type LeaseStore, leaseStore } from "../../src/contract/leases.js";
import type { ClaimedTask, DueQuery, TaskQueue } from "../../src/contract/task-queue.js";
import { claimDue, type DueTask, DueTasks } from "./due.js";
import { type FailedCall, storageFailure } from "./failure.js";
import {
  assertCanBeMade,
  isFolder,
  makeFolder,
  makeFolders,
  SLICE,
  statsOf,
  syncFolder,
  UnreadableError,
} from "./file-io.js";
import { readLease, readLeases, requireLease, writeLease } from "./leases.js";
import { type FolderLock, withLock } from "./lock.js";
import { repairFolders, verifyFolders } from "./maintenance.js";
import { nameOf } from "./names.js";
import {
  attempt,
  findReplaced,
  type LoadedTask,
  type LoadTask,
  type RecordSource,
  readEntries,
  readEntry,
} from "./record.js";
import { scanTasks } from "./task-scan.js";

/** The options of every adapter on files. */
export interface FolderStoreOptions {
  /** The root folder. The first save makes it. Each task gets a folder in it. */
  readonly path: string;
  /** How long a write waits for other processes that write to the same task, in milliseconds. Default 15,000. */
  readonly lockTimeoutMs?: number | undefined;
}

/** The default of `lockTimeoutMs`. It is longer than a dead holder's lock takes to become stale. */
const LOCK_TIMEOUT_MS = 15_000;
/**
 * The most folders whose names are remembered to be on the disk. Other folders are synced again before their next
 * write.
 */
const MAX_KNOWN_FOLDERS = 10_000;

/**
 * The base of all adapters on files: a root folder with a folder for each task. `load` decides how checkpoints are
 * stored in a task's folder. A task's writes run one at a time, in call order, under a lock that processes share.
 */
export abstract class FolderStore implements StorageAdapter {
  readonly name: string;
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly maintenance: StorageMaintenance = {
    verify: ({ quick }) => this.#iterate(verifyFolders(this.#root, this.#load, quick)),
    repair: (options) => {
      const write = (folder: string, work: (lock: FolderLock) => Promise<void>): Promise<void> =>
        this.write(folder, "repair a task", work, () => undefined);
      return this.#iterate(repairFolders(this.#root, this.#load, write, options));
    },
  };
  readonly leases: LeaseStore = leaseStore(
    {
      read: (taskId) => this.#read(taskId, "read the lease of", () => readLease(this.folderOf(taskId))),
      all: () => this.#iterate(readLeases(this.#root)),
      update: (taskId, change) => {
        const folder = this.folderOf(taskId);
        return this.write(folder, `change the lease of ${nameTask(taskId)}`, async (lock) => {
          const lease = change(readLease(folder));
          if (lease) await writeLease(folder, taskId, lease, lock);
        });
      },
    },
    { oneMachine: true },
  );
  readonly queue: TaskQueue = {
    claimNext: (query, holder, ttlMs) => this.#claimNext(query, holder, ttlMs),
    count: async (query) => {
      const due = await this.#findDue(query);
      return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
    },
  };
  readonly #root: string;
  readonly #load: LoadTask;
  readonly #lockTimeoutMs: number;
  readonly #calls: AdapterCalls;
  readonly #dueTasks = new DueTasks();
  readonly #known = new Set<string>();
  /** Tasks whose folders were checked to contain no other task's checkpoints. */
  readonly #owned = new WeakSet<LoadedTask>();
  #hasLooked = false;

  /**
   * @param options - The subclass has checked that there are no other keys.
   * @throws {TypeError | RangeError} An option is wrong.
   */
  constructor(name: string, options: FolderStoreOptions, load: LoadTask) {
    const { path, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
    if (typeof path !== "string" || path === "" || path.includes("\0")) {
      throw new TypeError(`The ${name} adapter needs a path: the folder to keep checkpoints in.`);
    }
    if (typeof lockTimeoutMs !== "number" || !(lockTimeoutMs >= 0)) {
      throw new RangeError(`lockTimeoutMs must be a number of milliseconds from 0; it is ${String(lockTimeoutMs)}.`);
    }
    this.name = name;
    // Each call explains its errors itself.
    this.#calls = new AdapterCalls({ name, explain: (error) => error });
    this.#root = resolve(path);
    this.#load = load;
    this.#lockTimeoutMs = lockTimeoutMs;
  }

  async append(
    draft: CheckpointDraft,
    condition?: AppendCondition,
    { sequence: exact, replaces }: AppendOptions = {},
  ): Promise<number> {
    const copy = copyRecord(draft);
    const { taskId, id } = copy;
    const folder = this.folderOf(taskId);
    return this.write(folder, `save to ${nameTask(taskId)}`, async (lock) => {
      const task = this.#loadOwn(folder, lock);
      const replaced = replaces === id ? [] : findReplaced(task, replaces);
      const stored = task.find(id)?.checkpoint();
      if (stored) {
        const same = matchRetry(requireIntact(stored), copy);
        // The process that stored the checkpoint may have died before it synced the folder, or before it removed the
        // checkpoints that this one replaced.
        await task.remove(replaced, lock);
        return same;
      }
      requireLease(folder, taskId, condition);
      const sequence = nextSequence(taskId, task, condition, { sequence: exact });
      await task.add(sealDraft(copy, sequence), lock, replaced);
      return sequence;
    });
  }

  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#read(taskId, "read", () => {
      const task = this.#loadExisting(taskId);
      // If a record is damaged, its id may be damaged too. So any such record may be the wanted one.
      const entry = task?.find(id) ?? task?.findDamaged?.();
      return entry && readEntry(entry, taskId, () => entry.checkpoint());
    });
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    return this.#iterate(
      this.#select(query, (entry) => entry.checkpoint()),
      query.taskId,
    );
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    const readSummary = (entry: RecordSource): CheckpointSummary | undefined => {
      const head = entry.head();
      return head && summaryOf(head);
    };
    return this.#iterate(this.#select(query, readSummary), query.taskId);
  }

  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    return this.#iterate(scanTasks(this.#root, query, this.#load));
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const wanted = structuredClone(change);
    return this.#replace("change a status of", taskId, id, condition, (stored, { newestSequence }) => {
      requireNewest(taskId, newestSequence, condition);
      // The state's bytes and digest stay as they are, so damage stays visible.
      return withStatus(stored, wanted);
    });
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const copy = copyPayload(payload);
    return this.#replace("replace a payload of", taskId, id, undefined, (stored) =>
      stored.payload.sha256 === expectedSha256 ? withPayload(stored, copy) : undefined,
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const doomed = ids === "all" ? ids : [...ids];
    const requireExpected = (newestSequence: number): void => requireNewest(taskId, newestSequence, condition);
    const remove = async (task: LoadedTask, lock: FolderLock): Promise<number> => {
      requireExpected(task.newestSequence);
      if (doomed !== "all") {
        const found = doomed.flatMap((id) => task.find(id) ?? []);
        return task.remove(found, lock);
      }
      const removed = await task.remove(doomed, lock);
      lock.releaseAndRemoveFolder();
      this.#known.delete(this.folderOf(taskId));
      await syncFolder(this.#root);
      return removed;
    };
    return this.#change("remove from", taskId, condition, remove, () => {
      requireExpected(0);
      return 0;
    });
  }

  close(): Promise<void> {
    return this.#calls.close();
  }

  /**
   * Runs a write in a task's folder, after earlier calls of this process and under the folder's lock.
   *
   * @param doing - The action, for a message that begins with "Could not": `save to task "t"`.
   * @param absent - If there is no such folder, returns the write's result. Without this function, the folder is made.
   */
  protected write<Result>(
    folder: string,
    doing: string,
    work: (lock: FolderLock) => Promise<Result>,
    absent?: () => Result,
  ): Promise<Result> {
    const makeFolder = (): Promise<void> => this.#makeTaskFolder(folder);
    const options = { timeoutMs: this.#lockTimeoutMs, makeFolder: absent ? undefined : makeFolder, absent };
    return this.#call({ doing, path: folder }, async () => {
      isFolder(folder);
      return withLock(folder, options, async (lock) => {
        // This makes the folder durable, since a process may have made it and died before syncing its name.
        if (!this.#known.has(folder)) await makeFolder();
        return work(lock);
      });
    });
  }

  /** @throws {StorageError} The folder's newest readable checkpoint belongs to another task. */
  #loadOwn(folder: string, lock: FolderLock): LoadedTask {
    const task = this.#load(folder, lock);
    const isReadable = (entry: RecordSource): boolean => !(attempt(() => entry.head()) instanceof UnreadableError);
    if (!this.#owned.has(task)) for (const entry of task.select({ order: "newest" })) if (isReadable(entry)) break;
    this.#owned.add(task);
    return task;
  }

  /** Changes a task under its lease. If the task has no folder, returns the result of `absent`. */
  #change<Result>(
    verb: string,
    taskId: string,
    condition: AppendCondition | undefined,
    work: (task: LoadedTask, lock: FolderLock) => Promise<Result>,
    absent: () => Result,
  ): Promise<Result> {
    const folder = this.folderOf(taskId);
    const change = (lock: FolderLock): Promise<Result> => {
      requireLease(folder, taskId, condition);
      return work(this.#loadOwn(folder, lock), lock);
    };
    return this.write(folder, `${verb} ${nameTask(taskId)}`, change, () => {
      requireLease(folder, taskId, condition);
      return absent();
    });
  }

  /** Replaces a checkpoint by the result of `change`. Returns false if there is no such checkpoint, or no result. */
  #replace(
    verb: string,
    taskId: string,
    id: string,
    condition: AppendCondition | undefined,
    change: (stored: StoredCheckpoint, task: LoadedTask) => StoredCheckpoint | undefined,
  ): Promise<boolean> {
    const replace = async (task: LoadedTask, lock: FolderLock): Promise<boolean> => {
      const entry = task.find(id);
      const stored = entry?.checkpoint();
      const changed = stored && change(stored, task);
      // The process that changed or removed the checkpoint may have died before syncing.
      if (entry === undefined || changed === undefined) await syncFolder(this.folderOf(taskId));
      else await task.replace(entry, changed, lock);
      return changed !== undefined;
    };
    return this.#change(verb, taskId, condition, replace, () => false);
  }

  /**
   * Claims one task, since the folder of the next one may be locked for seconds. If a task can't be claimed, because
   * its lease is damaged for example, the next one is tried, so that it doesn't stop the others. The error is thrown if
   * no other task is due.
   */
  async #claimNext(query: DueQuery, holder: string, ttlMs: number): Promise<readonly ClaimedTask[]> {
    let failure: { readonly error: unknown } | undefined;
    for (const { taskId } of await this.#findDue(query)) {
      const folder = this.folderOf(taskId);
      const claim = (lock: FolderLock) =>
        claimDue(this.#load, { path: folder, taskId }, query.dueBy, lock, holder, ttlMs);
      try {
        const claimed = await this.write(folder, `claim ${nameTask(taskId)}`, claim, () => undefined);
        if (claimed) return [claimed];
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure) throw failure.error;
    return [];
  }

  #findDue(query: DueQuery): Promise<readonly DueTask[]> {
    const find = () => this.#dueTasks.find(this.#root, this.#load, query);
    return this.#call({ doing: "read tasks", path: this.#root, isRead: true }, find);
  }

  #read<Result>(taskId: string, verb: string, read: () => Result): Promise<Result> {
    const call = { doing: `${verb} ${nameTask(taskId)}`, path: this.folderOf(taskId), isRead: true };
    return this.#call(call, async () => read());
  }

  /** Runs one call, and explains its errors. */
  #call<Result>(call: FailedCall, work: () => Promise<Result>): Promise<Result> {
    return this.#calls.run(async () => {
      try {
        // At the first call, throws if there is no store and none can be made.
        if (!this.#hasLooked) assertCanBeMade(this.#root);
        this.#hasLooked = true;
        return await work();
      } catch (error) {
        if (!(error instanceof UnreadableError)) throw storageFailure(error, call);
        const intact = "It was left untouched, and nothing was changed. Move it away, or repair the storage.";
        const damage = `Could not ${call.doing}: ${call.path} is damaged: ${error.message}. ${intact}`;
        throw new CheckpointCorruptError(damage, { cause: error });
      }
    });
  }

  #loadExisting(taskId: string): LoadedTask | undefined {
    const folder = this.folderOf(taskId);
    return isFolder(folder) ? this.#load(folder) : undefined;
  }

  async *#select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    read: (entry: RecordSource) => Item | undefined,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const { taskId, limit = Number.POSITIVE_INFINITY } = query;
    let [left, seen] = [limit, 0];
    if (left === 0) return;
    let last: number | undefined;
    const load = (): LoadedTask | undefined => this.#loadExisting(taskId);
    // A page never ends between two checkpoints with the same sequence, because the next page would skip the second
    // one.
    const next = (entry: RecordSource) =>
      left <= 0 && entry.known.sequence !== last ? "over" : readEntry(entry, taskId, () => read(entry));
    for (const found of readEntries(load, query, next)) {
      if (found === "over") return;
      if (isCorrupt(found)) yield found;
      else if (matchesQuery(found, query)) {
        left -= 1;
        last = found.sequence;
        yield found;
      }
      seen += 1;
      if (seen % SLICE === 0) await setImmediate();
    }
  }

  /** Reads step by step. If the store is closed in between, the next step throws a ClosedError. */
  async *#iterate<Item>(items: AsyncGenerator<Item, void, void>, taskId?: string): AsyncGenerator<Item, void, void> {
    const path = taskId === undefined ? this.#root : this.folderOf(taskId);
    const call = { doing: `read ${taskId === undefined ? "tasks" : nameTask(taskId)}`, path, isRead: true };
    try {
      for (;;) {
        const next = await this.#call(call, () => items.next());
        if (next.done) return;
        yield next.value;
      }
    } finally {
      await items.return();
    }
  }

  protected folderOf(taskId: string): string {
    return join(this.#root, nameOf(taskId));
  }

  async #makeTaskFolder(folder: string): Promise<void> {
    if (!this.#known.has(this.#root) || statsOf(this.#root) === undefined) makeFolders(this.#root);
    makeFolder(folder);
    await syncFolder(this.#root);
    if (this.#known.size >= MAX_KNOWN_FOLDERS) this.#known.clear();
    this.#known.add(this.#root).add(folder);
  }
}

function nameTask(taskId: string): string {
  return `task ${JSON.stringify(taskId)}`;
}
