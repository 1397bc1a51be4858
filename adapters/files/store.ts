import { join, resolve } from "node:path";
import {
  type AppendOptions,
  type CheckpointQuery,
  matchRetry,
  type StatusOptions,
  type StorageAdapter,
  type StoredTask,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import { checkNoStorageUrl } from "../../src/contract/arguments.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  copyPayload,
  copyRecord,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  toSummary,
  withPayload,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { type AppendCondition, nextSequence, requireNewest, requireNoEvent } from "../../src/contract/conditions.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import { requireIntact } from "../../src/contract/header-index.js";
import { type LeaseRecord, type LeaseStore, leaseStore } from "../../src/contract/leases.js";
import { copyPayloadChange, copyRecordDraft, type TaskLog } from "../../src/contract/log.js";
import { PagedItems } from "../../src/contract/paged-items.js";
import type { DueQuery, TaskQueue } from "../../src/contract/task-queue.js";
import { FolderCalls } from "./calls.js";
import { claimFirst, type DueTask, DueTasks, nextDueLease } from "./due.js";
import type { FailedCall } from "./failure.js";
import { isFolder, makeFolder, makeFolders, readStats, syncFolder, UnreadableError } from "./file-io.js";
import { HeldLog } from "./held-log.js";
import { readLease, readLeases, requireLease, writeLease } from "./leases.js";
import { type FolderLock, withLock } from "./lock.js";
import {
  appendRecords,
  findPosition,
  type HeldTask,
  matchEvents,
  readLog,
  removeRecords,
  replaceRecords,
  storeWithRecords,
} from "./log.js";
import { requireOwner } from "./log-file.js";
import { repairFolders, verifyFolders } from "./maintenance.js";
import { toFileName } from "./names.js";
import {
  attempt,
  findReplaced,
  type LoadedTask,
  type LoadTask,
  type RecordSource,
  readEntry,
  selectRecords,
} from "./record.js";
import { scanTasks } from "./task-scan.js";
import { FolderWatches, touchFolder } from "./watch.js";

/** The options of every adapter on files. */
export interface FolderStoreOptions {
  /** The root folder. The first save makes it. Each task gets a folder in it. */
  readonly path: string;
  /** How long a write waits for other processes that write to the same task, in milliseconds. Default 15,000. */
  readonly lockTimeoutMs?: number | undefined;
}

/** The default of `lockTimeoutMs`. A dead holder's lock becomes stale in less time. */
const LOCK_TIMEOUT_MS = 15_000;
/**
 * How many folders the cache holds whose names are known to be on the disk. Other folders are synced again before their
 * next write.
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
    verify: ({ quick }) => this.#iterate(verifyFolders(this.#root, this.#load, this.#logName, quick)),
    repair: (options) =>
      this.#iterate(
        repairFolders(
          this.#root,
          this.#load,
          (folder, work) => this.write(folder, "repair a task", work, () => undefined),
          this.#logName,
          options,
        ),
      ),
  };
  readonly leases: LeaseStore = leaseStore(
    {
      read: (taskId) => this.#read(taskId, "read the lease of", () => readLease(this.findFolder(taskId))),
      all: () => this.#iterate(readLeases(this.#root)),
      update: (taskId, change) => {
        const folder = this.findFolder(taskId);
        return this.write(folder, `change the lease of ${nameTask(taskId)}`, async (lock) => {
          const lease = change(readLease(folder));
          if (lease) await this.#writeLease(taskId, lease, lock);
        });
      },
    },
    { oneMachine: true },
  );
  readonly queue: TaskQueue = {
    claimNext: async (query, holder, ttlMs) =>
      claimFirst(await this.#findDue(query), (taskId) => {
        const path = this.findFolder(taskId);
        const taskFolder = { path, taskId, logName: this.#logName };
        const claim = async (lock: FolderLock) => {
          const lease = await nextDueLease(this.#load, taskFolder, query.dueBy, lock, holder, ttlMs);
          if (lease === undefined) return undefined;
          await this.#writeLease(taskId, lease, lock);
          return { taskId, token: lease.token };
        };
        return this.write(path, `claim ${nameTask(taskId)}`, claim, () => undefined);
      }),
    count: async (query) => {
      const due = await this.#findDue(query);
      return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
    },
  };
  readonly log: TaskLog = {
    append: async (taskId, records, condition, options) => {
      const copies = records.map(copyRecordDraft);
      const [expected, chosen] = [{ ...condition }, { ...options }];
      const sequence = await this.#hold("append to", taskId, (held) => appendRecords(held, copies, expected, chosen));
      if (chosen.dueAt !== undefined) touchFolder(this.#root);
      return sequence;
    },
    read: (query) => {
      const folder = this.findFolder(query.taskId);
      const pages = readLog(folder, this.#findLog(folder), query, () => this.#loadExisting(query.taskId));
      return new PagedItems(this.#calls.iterate(this.#describeRead(query.taskId, "read"), pages));
    },
    remove: async (taskId, selection, condition) => {
      const [selected, expected] = [{ ...selection }, { ...condition }];
      return this.#change("remove from", taskId, expected, async (held) => {
        if (held) return removeRecords(held, selected, expected);
        requireNewest(taskId, 0, expected);
        return 0;
      });
    },
    replacePayloads: async (taskId, changes) => {
      const copies = changes.map(copyPayloadChange);
      return this.#change("replace payloads of", taskId, undefined, async (held) =>
        held ? replaceRecords(held, copies) : [],
      );
    },
    watch: (changed, taskId) =>
      this.#watches.add(taskId === undefined ? this.#root : this.findFolder(taskId), () => changed()),
  };
  readonly #root: string;
  readonly #load: LoadTask;
  readonly #logName: string;
  readonly #lockTimeoutMs: number;
  readonly #calls: FolderCalls;
  readonly #dueTasks = new DueTasks();
  readonly #watches: FolderWatches;
  readonly #known = new Set<string>();
  /** Tasks whose folders were checked not to contain another task's checkpoints. */
  readonly #owned = new WeakSet<LoadedTask>();

  /**
   * @internal
   * @param options - The subclass has already refused unknown keys.
   * @param logName - The name of the log's file in a task's folder.
   * @throws {TypeError | RangeError} An option is wrong.
   */
  constructor(name: string, options: FolderStoreOptions, load: LoadTask, logName: string) {
    const { path, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
    if (typeof path !== "string" || path === "" || path.includes("\0")) {
      throw new TypeError(`The ${name} adapter needs a path: the folder to keep checkpoints in.`);
    }
    checkNoStorageUrl(`The path of the ${name} adapter`, path);
    if (typeof lockTimeoutMs !== "number" || !(lockTimeoutMs >= 0)) {
      throw new RangeError(`lockTimeoutMs must be a number of milliseconds from 0; it is ${String(lockTimeoutMs)}.`);
    }
    this.name = name;
    this.#root = resolve(path);
    this.#calls = new FolderCalls(name, this.#root);
    this.#watches = new FolderWatches(this.#root);
    this.#load = load;
    this.#logName = logName;
    this.#lockTimeoutMs = lockTimeoutMs;
  }

  async append(
    draft: CheckpointDraft,
    condition?: AppendCondition,
    { sequence: exact, replaces, records = [] }: AppendOptions = {},
  ): Promise<number> {
    const copy = copyRecord(draft);
    const drafts = records.map(copyRecordDraft);
    const { taskId, id } = copy;
    const appended = await this.#hold("save to", taskId, async (held) => {
      const { folder, task, lock, log } = held;
      const replaced = replaces === id ? [] : findReplaced(task, replaces);
      const stored = task.find(id)?.checkpoint();
      if (stored) {
        const same = matchRetry(requireIntact(stored), copy);
        await log.syncLazy();
        // The process that stored the checkpoint may have died before it synced the folder, or before it removed the
        // replaced checkpoints.
        await task.remove(replaced, lock);
        return same;
      }
      matchEvents(held, drafts, true);
      requireLease(folder, taskId, condition);
      const position = findPosition(held);
      const sequence = nextSequence(taskId, position, condition, { sequence: exact, records: drafts });
      const checkpoint = sealDraft(copy, sequence);
      const first = sequence - drafts.length;
      await storeWithRecords(held, checkpoint, drafts, () => task.add(checkpoint, lock, replaced), first);
      return sequence;
    });
    if (copy.dueAt !== undefined) touchFolder(this.#root);
    return appended;
  }

  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#read(taskId, "read", () => {
      const task = this.#loadExisting(taskId);
      // A damaged record may have lost its id, so any such record may be the wanted one.
      const entry = task?.find(id) ?? task?.findDamaged?.();
      return entry && readEntry(entry, taskId, () => entry.checkpoint());
    });
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    return this.#select(query, (entry) => entry.checkpoint());
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    return this.#select(query, (entry) => {
      const head = entry.head();
      return head && toSummary(head);
    });
  }

  tasks(query: TaskQuery): AsyncIterable<StoredTask | CorruptRecord> {
    return this.#iterate(scanTasks(this.#root, query, this.#load, this.#logName));
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    { records = [] }: StatusOptions = {},
  ): Promise<boolean> {
    const wanted = structuredClone(change);
    const drafts = records.map(copyRecordDraft);
    const isChanged = await this.#change("change a status of", taskId, condition, async (held) => {
      const entry = held?.task.find(id);
      const stored = entry?.checkpoint();
      if (!held || !entry || !stored) return this.#replaceNothing(held);
      matchEvents(held, drafts, true);
      requireNewest(taskId, held.task.newestSequence, condition);
      requireNoEvent(taskId, held.log.index?.lastEvent ?? 0, condition);
      // The state's bytes and digest stay as they are, so damage stays visible.
      const changed = withStatus(stored, wanted);
      await storeWithRecords(held, changed, drafts, () => held.task.replace(entry, changed, held.lock));
      return true;
    });
    if (isChanged) touchFolder(this.#root);
    return isChanged;
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const copy = copyPayload(payload);
    return this.#change("replace a payload of", taskId, undefined, async (held) => {
      const entry = held?.task.find(id);
      const stored = entry?.checkpoint();
      if (!held || !entry || stored?.payload.sha256 !== expectedSha256) return this.#replaceNothing(held);
      await held.log.syncLazy();
      await held.task.replace(entry, withPayload(stored, copy), held.lock);
      return true;
    });
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const doomed = ids === "all" ? ids : [...ids];
    return this.#change("remove from", taskId, condition, async (held) => {
      requireNewest(taskId, held?.task.newestSequence ?? 0, condition);
      if (held === undefined) return 0;
      const { folder, task, lock, log } = held;
      requireNoEvent(taskId, log.index?.lastEvent ?? 0, condition);
      await log.syncLazy();
      const entries = doomed === "all" ? doomed : doomed.flatMap((id) => task.find(id) ?? []);
      const removed = await task.remove(entries, lock);
      if (doomed === "all") {
        // The log is removed last, since it keeps the numbering.
        if (log.remove()) await syncFolder(folder);
        lock.releaseAndRemoveFolder();
        this.#known.delete(folder);
        await syncFolder(this.#root);
      }
      return removed;
    });
  }

  close(): Promise<void> {
    this.#watches.end();
    return this.#calls.close();
  }

  /**
   * @internal Runs a write in a task's folder, after earlier calls of this process and under the folder's lock.
   *
   * @param doing - The action, for a message that begins with "Could not": `save to task "t"`.
   * @param absent - Returns the result if there is no such folder. Without this function, the folder is made.
   */
  protected write<Result>(
    folder: string,
    doing: string,
    work: (lock: FolderLock, log: HeldLog) => Promise<Result>,
    absent?: () => Result | Promise<Result>,
  ): Promise<Result> {
    const makeFolder = (): Promise<void> => this.#makeTaskFolder(folder);
    const options = { timeoutMs: this.#lockTimeoutMs, makeFolder: absent ? undefined : makeFolder, absent };
    return this.#calls.run({ doing, path: folder }, async () => {
      isFolder(folder);
      return withLock(folder, options, async (lock) => {
        // Makes the folder's name durable, even if the folder exists: the process that made it may have died before the
        // sync.
        if (!this.#known.has(folder)) await makeFolder();
        return work(lock, await HeldLog.open(this.#findLog(folder), lock, () => this.#load(folder, lock)));
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

  /** Runs a write under the lock of a task's folder. Makes the folder if it is missing. */
  #hold<Result>(verb: string, taskId: string, work: (held: HeldTask) => Promise<Result>): Promise<Result> {
    const folder = this.findFolder(taskId);
    return this.write(folder, `${verb} ${nameTask(taskId)}`, (lock, log) =>
      work(this.#makeHeldTask(taskId, lock, log)),
    );
  }

  /**
   * Loads and changes a task under its lease and its folder's lock. If the task has no folder, passes `undefined` to
   * `work`.
   */
  #change<Result>(
    verb: string,
    taskId: string,
    condition: AppendCondition | undefined,
    work: (held: HeldTask | undefined) => Promise<Result>,
  ): Promise<Result> {
    const folder = this.findFolder(taskId);
    const change = async (lock?: FolderLock, log?: HeldLog): Promise<Result> => {
      requireLease(folder, taskId, condition);
      return work(lock && log && this.#makeHeldTask(taskId, lock, log));
    };
    return this.write(folder, `${verb} ${nameTask(taskId)}`, change, change);
  }

  /** @throws {StorageError} The folder contains another task. */
  #makeHeldTask(taskId: string, lock: FolderLock, log: HeldLog): HeldTask {
    const folder = this.findFolder(taskId);
    requireOwner(log.index, folder);
    return { taskId, folder, task: this.#loadOwn(folder, lock), lock, log };
  }

  /**
   * Makes earlier changes durable if there is nothing to replace: the process that changed or removed the checkpoint
   * may have died before its sync.
   */
  async #replaceNothing(held: HeldTask | undefined): Promise<false> {
    if (held) await syncFolder(held.folder);
    return false;
  }

  #findDue(query: DueQuery): Promise<readonly DueTask[]> {
    return this.#calls.run({ doing: "read tasks", path: this.#root, isRead: true }, () =>
      this.#dueTasks.find(this.#root, this.#load, this.#logName, query),
    );
  }

  #read<Result>(taskId: string, verb: string, read: () => Result): Promise<Result> {
    return this.#calls.run(this.#describeRead(taskId, verb), async () => read());
  }

  #describeRead(taskId: string, verb: string): FailedCall {
    return { doing: `${verb} ${nameTask(taskId)}`, path: this.findFolder(taskId), isRead: true };
  }

  #loadExisting(taskId: string): LoadedTask | undefined {
    const folder = this.findFolder(taskId);
    return isFolder(folder) ? this.#load(folder) : undefined;
  }

  #select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    read: (entry: RecordSource) => Item | undefined,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const items = selectRecords(() => this.#loadExisting(query.taskId), query, read);
    return this.#calls.iterate(this.#describeRead(query.taskId, "read"), items);
  }

  #iterate<Item>(items: AsyncGenerator<Item, void, void>): AsyncGenerator<Item, void, void> {
    return this.#calls.iterate({ doing: "read tasks", path: this.#root, isRead: true }, items);
  }

  #findLog(folder: string): string {
    return join(folder, this.#logName);
  }

  #writeLease(taskId: string, lease: LeaseRecord, lock: FolderLock): Promise<void> {
    const folder = this.findFolder(taskId);
    return this.writeBeside(folder, lock, () => writeLease(folder, taskId, lease, lock));
  }

  /**
   * @internal Writes a file that isn't a checkpoint into a task's folder. This must be the last write under the lock.
   */
  protected writeBeside(_folder: string, _lock: FolderLock, write: () => Promise<void>): Promise<void> {
    return write();
  }

  /** @internal */
  protected findFolder(taskId: string): string {
    return join(this.#root, toFileName(taskId));
  }

  async #makeTaskFolder(folder: string): Promise<void> {
    if (!this.#known.has(this.#root) || readStats(this.#root) === undefined) await makeFolders(this.#root);
    makeFolder(folder);
    await syncFolder(this.#root);
    if (this.#known.size >= MAX_KNOWN_FOLDERS) this.#known.clear();
    this.#known.add(this.#root).add(folder);
  }
}

function nameTask(taskId: string): string {
  return `task ${JSON.stringify(taskId)}`;
}
