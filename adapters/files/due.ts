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

/** A task that workers may run, perhaps later. */
export interface DueTask {
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
export class DueTasks {
  #folders: ReadonlyMap<string, KnownFolder> = new Map();

  /** The due tasks, the earliest first. */
  async find(
    root: string,
    load: LoadTask,
    logName: string,
    { prefix, dueBy, except }: DueQuery,
  ): Promise<readonly DueTask[]> {
    const excepted = new Set(except);
    const hasDied = askOnce(holderHasEnded);
    const due: DueTask[] = [];
    // Removed folders are forgotten.
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
 * Claims one task, since the folder of the next one may be locked for seconds. If a task can't be claimed, because its
 * lease is damaged for example, the next one is tried, so that it doesn't stop the others. The error is thrown if no
 * other task is due.
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

/** The lease for a runner that claims a task, whose folder it has locked; `undefined` if the task isn't due any more. */
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
 * A folder that changed less than this before it was read is read again, because a later change may get the same
 * modification time. Some file systems count in steps of two seconds.
 */
const SETTLING_MS = 3_000;

/**
 * A folder below the root, and its task when it was last read. Each change of a task changes its folder's time, or its
 * log's size.
 */
class KnownFolder {
  readonly #path: string;
  /** The id that the folder's name tells. */
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

  /** Whether its task's id may begin with the prefix. */
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
        // A damaged lease counts as none here. The claim refuses it.
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
