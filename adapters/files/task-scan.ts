import { type Dirent, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { CorruptRecord, TaskQuery } from "../../src/contract/adapter.js";
import { type CheckpointSummary, compareTaskIds, summaryOf, type TaskSummary } from "../../src/contract/checkpoint.js";
import { codeOf } from "./failure.js";
import type { FolderLock } from "./lock.js";
import { idOf, isHashedName, nameOf } from "./names.js";
import { TimeSlices, UnreadableError } from "./read-file.js";
import { corruptOrThrow, type Task } from "./task.js";

/** A folder of a task. */
export interface TaskFolder {
  readonly path: string;
  readonly name: string;
  /** As far as the name tells it. */
  readonly taskId: string | undefined;
  /** To a folder. It isn't followed, and isn't passed over in silence. */
  readonly isLink: boolean;
}

/** What a task's folder holds now. */
export type LoadTask = (folder: TaskFolder, lock?: FolderLock) => Promise<Task>;

/** Every task's folder below a root folder, in no order. Other people's files are passed over. */
export function taskFolders(root: string): TaskFolder[] {
  return entriesIn(root).flatMap((entry) => {
    const { name } = entry;
    const taskId = idOf(name);
    if (taskId === undefined && !isHashedName(name)) return [];
    const path = join(root, name);
    const isLink = entry.isSymbolicLink() && leadsToFolder(path);
    return entry.isDirectory() || isLink ? { path, name, taskId, isLink } : [];
  });
}

/** Whether a record's task is the one that the folder's name stands for, on a disk too that ignores case. */
export function isOwner(taskId: string, folder: string): boolean {
  return nameOf(taskId).toLowerCase() === basename(folder).toLowerCase();
}

/** The tasks below a root folder that a query asks for. Reads no more folders than it must. */
export async function* scanTasks(
  root: string,
  query: TaskQuery,
  load: LoadTask,
): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
  const slices = new TimeSlices();
  const candidates: Candidate[] = [];
  for (const folder of taskFolders(root)) {
    if (folder.taskId !== undefined && !isAskedFor(folder.taskId, query)) continue;
    // By name alone it can't be put in order, or it can't be told whose it is.
    const isNeeded = query.order === "recent" || folder.taskId === undefined;
    const contents = isNeeded ? await contentsOf(folder, load) : undefined;
    const taskId = folder.taskId ?? contents?.taskId;
    const isAsked = taskId === undefined || isAskedFor(taskId, query);
    if (isAsked && (contents !== undefined || !isNeeded)) candidates.push({ folder, taskId, contents });
    if (slices.due) await slices.pause();
  }
  candidates.sort(query.order === "recent" ? byRecency : byTaskId);

  let left = query.limit ?? Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    if (left === 0) return;
    const contents = candidate.contents ?? (await contentsOf(candidate.folder, load));
    if (contents) yield* contents.corrupt;
    const task = contents && taskSummary(contents, query);
    if (task) {
      left -= 1;
      yield task;
    }
    if (slices.due) await slices.pause();
  }
}

/** What a list shows of a task. */
interface Contents {
  /** Whose it is, as far as that can be told. */
  readonly taskId: string | undefined;
  readonly count: number;
  /** The newest readable checkpoint. */
  readonly newest: CheckpointSummary | undefined;
  /** What is newer than that and can't be read. */
  readonly corrupt: readonly CorruptRecord[];
}

interface Candidate {
  readonly folder: TaskFolder;
  readonly taskId: string | undefined;
  readonly contents: Contents | undefined;
}

/** What a list shows of a task's folder; `undefined` where it holds no checkpoint. Damage doesn't hide other tasks. */
async function contentsOf(folder: TaskFolder, load: LoadTask): Promise<Contents | undefined> {
  const { taskId, path } = folder;
  const corrupt: CorruptRecord[] = [];
  const known = taskId === undefined ? undefined : { taskId };
  const task = await load(folder).catch((error: unknown) => {
    if (!(error instanceof UnreadableError)) throw error;
    corrupt.push({ corrupt: true, location: path, reason: error.message, ...known });
  });
  if (!task) return { taskId, count: 0, newest: undefined, corrupt };
  const { count } = task;
  if (count === 0) return undefined;
  for (const entry of task.select({ order: "newest" })) {
    try {
      const head = entry.head();
      if (head === undefined) continue;
      if (isOwner(head.taskId, path)) return { taskId: head.taskId, count, newest: summaryOf(head), corrupt };
      throw new UnreadableError(`it belongs to task ${JSON.stringify(head.taskId)}, whose folder this isn't`);
    } catch (error) {
      corrupt.push(corruptOrThrow(entry, error, taskId));
    }
  }
  return { taskId, count, newest: undefined, corrupt };
}

function isAskedFor(taskId: string, { prefix, after }: TaskQuery): boolean {
  return (
    (prefix === undefined || taskId.startsWith(prefix)) && (after === undefined || compareTaskIds(taskId, after) > 0)
  );
}

function taskSummary({ taskId, count, newest }: Contents, { status }: TaskQuery): TaskSummary | undefined {
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

function leadsToFolder(link: string): boolean {
  return statSync(link, { throwIfNoEntry: false })?.isDirectory() === true;
}

function entriesIn(root: string): Dirent[] {
  try {
    return readdirSync(root, { withFileTypes: true });
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}
