import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { compareTexts } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { askOnce, holderHasEnded } from "../../src/contract/holder.js";
import { isDue, type LeaseRecord, nextLease } from "../../src/contract/leases.js";
import { monotonicMs } from "../../src/contract/runtime.js";
import type { ClaimedTask, DueQuery } from "../../src/contract/task-queue.js";
import { listNames, readStats, SLICE, UnreadableError } from "./file-io.js";
import { readLease } from "./leases.js";
import type { FolderLock } from "./lock.js";
import { isHashedName, parseFileName } from "./names.js";
import { attempt, type LoadTask } from "./record.js";
import { readContents, type TaskFolder } from "./task-scan.js";

/** A task that workers may run now or from a later time. */
export interface DueTask {
  readonly taskId: string;
  readonly dueAt: string;
  readonly lease: LeaseRecord | undefined;
}

/**
 * Finds the due tasks below a root folder. Workers ask several times a second, so each folder's task is cached, and a
 * folder is read again only after it has changed.
 *
 * Tasks that this program can't read are left out; `verify` lists them.
 */
export class DueTasks {
  #folders: ReadonlyMap<string, KnownFolder> = new Map();

  /** Returns the due tasks, the earliest first. */
  async find(
    root: string,
    load: LoadTask,
    logName: string,
    { prefix, dueBy, except }: DueQuery,
  ): Promise<readonly DueTask[]> {
    const excepted = new Set(except);
    const hasDied = askOnce(holderHasEnded);
    const due: DueTask[] = [];
    // A new map, so that removed folders are forgotten.
    const folders = new Map<string, KnownFolder>();
    for (const [index, name] of listNames(root).entries()) {
      const folder = this.#folders.get(name) ?? new KnownFolder(root, name, logName);
      folders.set(name, folder);
      const task = folder.mayHold(prefix) ? await folder.task(load) : undefined;
      if (
        task?.taskId.startsWith(prefix) &&
        !excepted.has(task.taskId) &&
        isDue({ lease: task.lease, nowMs: monotonicMs() }, task.dueAt, dueBy, hasDied)
      ) {
        due.push(task);
      }
      if (index % SLICE === SLICE - 1) await setImmediate();
    }
    this.#folders = folders;
    return due.sort((a, b) => compareTexts(a.dueAt, b.dueAt));
  }
}

/**
 * Claims one task only, since the folder of the next one may be locked for seconds. If a task can't be claimed, for
 * example because its lease is damaged, tries the next one. Throws the first error if no task could be claimed.
 */
export async function claimFirst(
  due: readonly DueTask[],
  claim: (taskId: string) => Promise<ClaimedTask | undefined>,
): Promise<readonly ClaimedTask[]> {
  const failures: unknown[] = [];
  for (const { taskId } of due) {
    try {
      const claimed = await claim(taskId);
      if (claimed) return [claimed];
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return [];
}

/**
 * Returns the lease for a runner that claims a task; `undefined` if the task isn't due any more. The caller holds the
 * folder's lock.
 */
export async function nextDueLease(
  load: LoadTask,
  { path, taskId, logName }: TaskFolder & { readonly taskId: string; readonly logName: string },
  dueBy: string,
  lock: FolderLock,
  holder: string,
  ttlMs: number,
): Promise<LeaseRecord | undefined> {
  const now = readLease(path);
  const task = await readDueTask({ path, taskId }, () => load(path, lock), logName, now.lease);
  if (task === undefined || !isDue(now, task.dueAt, dueBy, holderHasEnded)) return undefined;
  return nextLease(now, holder, ttlMs);
}

/**
 * A folder that was read within this time after its last change is read again, because a later change may get the same
 * modification time: some file systems count in steps of two seconds.
 */
const SETTLING_MS = 3_000;

/**
 * A folder below the root, with its task as of the last read. Each change of a task changes its folder's modification
 * time or its log's size.
 */
class KnownFolder {
  readonly #path: string;
  /** The task's id, if the folder's name contains it. */
  readonly #taskId: string | undefined;
  readonly #isHashed: boolean;
  readonly #logName: string;
  #task: DueTask | undefined;
  #modifiedMs: number | undefined;
  #logBytes: number | undefined;
  #isSettled = false;

  constructor(root: string, name: string, logName: string) {
    this.#logName = logName;
    this.#path = join(root, name);
    this.#taskId = parseFileName(name);
    this.#isHashed = isHashedName(name);
  }

  /** Whether the id of the folder's task may begin with the prefix. */
  mayHold(prefix: string): boolean {
    return this.#taskId?.startsWith(prefix) ?? this.#isHashed;
  }

  async task(load: LoadTask): Promise<DueTask | undefined> {
    const stats = readStats(this.#path);
    if (!stats?.isDirectory()) return undefined;
    const logBytes = readStats(join(this.#path, this.#logName))?.size;
    if (!this.#isSettled || stats.mtimeMs !== this.#modifiedMs || logBytes !== this.#logBytes) {
      const readAtMs = Date.now();
      this.#task = await this.#read(load);
      this.#logBytes = logBytes;
      this.#modifiedMs = stats.mtimeMs;
      this.#isSettled = readAtMs - stats.mtimeMs > SETTLING_MS;
    }
    return this.#task;
  }

  async #read(load: LoadTask): Promise<DueTask | undefined> {
    const lease = attempt(() => readLease(this.#path).lease);
    try {
      return await readDueTask(
        { path: this.#path, taskId: this.#taskId },
        load,
        this.#logName,
        // A damaged lease is ignored here: the claim reports it.
        lease instanceof UnreadableError ? undefined : lease,
      );
    } catch (error) {
      // A newer program wrote the task, and its workers run it.
      if (error instanceof UnsupportedFormatError) return undefined;
      throw error;
    }
  }
}

async function readDueTask(
  folder: TaskFolder,
  load: LoadTask,
  logName: string,
  lease: LeaseRecord | undefined,
): Promise<DueTask | undefined> {
  const { task } = await readContents(folder, load, logName);
  return task?.dueAt === undefined ? undefined : { taskId: task.taskId, dueAt: task.dueAt, lease };
}
