import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { askingOnce, holderHasEnded } from "../../src/contract/holder.js";
import { type LeaseRecord, monotonicMs, nextLease, standingOf } from "../../src/contract/leases.js";
import { dueAtOf } from "../../src/contract/passing.js";
import type { ClaimedTask, DueCount, DueQuery, TaskQueue } from "../../src/contract/task-queue.js";
import { namesIn, SLICE, statsOf, UnreadableError } from "./file-io.js";
import { leaseIn, updateLease } from "./leases.js";
import type { FolderLock } from "./lock.js";
import { idOf, isHashedName, nameOf } from "./names.js";
import { attempt } from "./record.js";
import { contentsOf, type LoadTask, type TaskFolder } from "./task-scan.js";

/** The parts of a store that its queue needs. */
export interface QueueStore {
  readonly root: string;
  readonly load: LoadTask;
  /** Runs a call that reads the tasks' folders. */
  read<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Runs a claim under a folder's lock. Returns `undefined` if there is no such folder. */
  claim(taskId: string, work: (lock: FolderLock) => Promise<ClaimedTask | undefined>): Promise<ClaimedTask | undefined>;
}

/** A task that workers may run, perhaps later. */
interface OpenTask {
  readonly taskId: string;
  readonly dueAt: string;
  readonly lease: LeaseRecord | undefined;
}

/**
 * Finds the due tasks below a root folder. Workers ask several times a second, so it remembers each folder's task, and
 * reads a folder again only after the folder has changed.
 *
 * Tasks that this program can't read are left out; `verify` lists them.
 */
export class FolderQueue implements TaskQueue {
  readonly #store: QueueStore;
  readonly #folders = new Map<string, KnownFolder>();

  constructor(store: QueueStore) {
    this.#store = store;
  }

  /**
   * Claims one task, since the folder of the next one may be locked for seconds. If a task can't be claimed, because its
   * lease is damaged for example, the next one is tried, so that it doesn't stop the others. The error is thrown if no
   * other task is due.
   */
  async claimNext(query: DueQuery, holder: string, ttlMs: number): Promise<readonly ClaimedTask[]> {
    let failure: { readonly error: unknown } | undefined;
    for (const { taskId } of await this.#due(query)) {
      try {
        const claimed = await this.#store.claim(taskId, (lock) => this.#claim(taskId, query, holder, ttlMs, lock));
        if (claimed) return [claimed];
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure) throw failure.error;
    return [];
  }

  async count(query: DueQuery): Promise<DueCount> {
    const due = await this.#due(query);
    return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
  }

  #due({ prefix, dueBy, except }: DueQuery): Promise<readonly OpenTask[]> {
    const excepted = new Set(except);
    const isAsked = ({ taskId }: OpenTask) => taskId.startsWith(prefix) && !excepted.has(taskId);
    return this.#store.read(async () => {
      const { load } = this.#store;
      const hasDied = askingOnce(holderHasEnded);
      const due: OpenTask[] = [];
      const names = namesIn(this.#store.root);
      for (const [index, name] of names.entries()) {
        const folder = this.#folderNamed(name);
        const task = folder.mayHold(prefix) ? folder.task(load) : undefined;
        if (task && isAsked(task) && isDue(task, dueBy, monotonicMs(), hasDied)) due.push(task);
        if (index % SLICE === SLICE - 1) await setImmediate();
      }
      if (this.#folders.size > names.length) this.#forgetAllBut(new Set(names));
      return due.sort((a, b) => (a.dueAt === b.dueAt ? 0 : a.dueAt < b.dueAt ? -1 : 1));
    });
  }

  /** Claims the task, unless it isn't due any more. */
  async #claim(
    taskId: string,
    { dueBy }: DueQuery,
    holder: string,
    ttlMs: number,
    lock: FolderLock,
  ): Promise<ClaimedTask | undefined> {
    const { root, load } = this.#store;
    const path = join(root, nameOf(taskId));
    const now = leaseIn(path);
    const task = openTaskIn({ path, taskId }, () => load(path, lock), now.lease);
    if (task === undefined || !isDue(task, dueBy, now.nowMs, holderHasEnded)) return undefined;
    const next = nextLease(now, holder, ttlMs);
    await updateLease(path, taskId, lock, () => next);
    return { taskId, token: next.token };
  }

  #folderNamed(name: string): KnownFolder {
    let folder = this.#folders.get(name);
    if (folder === undefined) {
      folder = new KnownFolder(this.#store.root, name);
      this.#folders.set(name, folder);
    }
    return folder;
  }

  #forgetAllBut(names: ReadonlySet<string>): void {
    for (const name of this.#folders.keys()) if (!names.has(name)) this.#folders.delete(name);
  }
}

/**
 * A folder that changed less than this before it was read is read again, because a later change may get the same
 * modification time. Some file systems count in steps of two seconds.
 */
const SETTLING_MS = 3_000;

/** A folder below the root, and its task when it was last read. Each change of a task changes its folder's time. */
class KnownFolder {
  readonly #path: string;
  /** The id that the folder's name tells. */
  readonly #taskId: string | undefined;
  readonly #isHashed: boolean;
  #task: OpenTask | undefined;
  #modifiedMs: number | undefined;
  #isSettled = false;

  constructor(root: string, name: string) {
    this.#path = join(root, name);
    this.#taskId = idOf(name);
    this.#isHashed = isHashedName(name);
  }

  /** Whether its task's id may begin with the prefix. */
  mayHold(prefix: string): boolean {
    return this.#taskId?.startsWith(prefix) ?? this.#isHashed;
  }

  task(load: LoadTask): OpenTask | undefined {
    const stats = statsOf(this.#path);
    if (!stats?.isDirectory()) return undefined;
    if (!this.#isSettled || stats.mtimeMs !== this.#modifiedMs) {
      const readAtMs = Date.now();
      this.#task = this.#read(load);
      this.#modifiedMs = stats.mtimeMs;
      this.#isSettled = readAtMs - stats.mtimeMs > SETTLING_MS;
    }
    return this.#task;
  }

  #read(load: LoadTask): OpenTask | undefined {
    const lease = attempt(() => leaseIn(this.#path).lease);
    try {
      // A damaged lease counts as none here. The claim refuses it.
      const readable = lease instanceof UnreadableError ? undefined : lease;
      return openTaskIn({ path: this.#path, taskId: this.#taskId }, load, readable);
    } catch (error) {
      // A newer program wrote the task, and its workers run it.
      if (error instanceof UnsupportedFormatError) return undefined;
      throw error;
    }
  }
}

function openTaskIn(folder: TaskFolder, load: LoadTask, lease: LeaseRecord | undefined): OpenTask | undefined {
  const { task } = contentsOf(folder, load);
  if (task === undefined) return undefined;
  const dueAt = dueAtOf(task.newest);
  return dueAt === undefined ? undefined : { taskId: task.taskId, dueAt, lease };
}

function isDue(
  { dueAt, lease }: OpenTask,
  dueBy: string,
  nowMs: number,
  hasDied: (holder: string) => boolean,
): boolean {
  const standing = standingOf({ lease, nowMs }, hasDied);
  return standing === "unreleased" || (standing === "free" && dueAt <= dueBy);
}
