import { type Dirent, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { CorruptRecord, TaskQuery } from "../../src/contract/adapter.js";
import { type CheckpointSummary, compareTaskIds, type TaskSummary } from "../../src/contract/checkpoint.js";
import { StorageError } from "../../src/contract/errors.js";
import { codeOf } from "./storage-failure.js";
import { idOf, isHashedName, nameOf } from "./task-folder.js";
import { TimeSlices } from "./time-slices.js";

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

/** The tasks below a root folder that a query asks for. Reads no more folders than it must. */
export async function* scanTasks(
  root: string,
  query: TaskQuery,
  read: ReadContents,
): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
  const slices = new TimeSlices();
  const candidates = await candidatesFor(root, query, read, slices);
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

/** A folder of a task, or a link in the place of one. */
export interface TaskFolder {
  readonly path: string;
  readonly name: string;
  /** As far as the name tells it. */
  readonly taskId: string | undefined;
  readonly isLink: boolean;
}

/** Every task's folder below a root folder, by name. */
export function taskFolders(root: string): TaskFolder[] {
  return entriesIn(root)
    .filter((entry) => isTaskFolder(root, entry))
    .map((entry) => ({
      path: join(root, entry.name),
      name: entry.name,
      taskId: idOf(entry.name),
      isLink: entry.isSymbolicLink(),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What else there is below a root folder, by name. */
export function otherEntries(root: string): Dirent[] {
  return entriesIn(root)
    .filter((entry) => !isTaskFolder(root, entry))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function isTaskFolder(root: string, entry: Dirent): boolean {
  if (idOf(entry.name) === undefined && !isHashedName(entry.name)) return false;
  return entry.isSymbolicLink() ? !leadsToFile(join(root, entry.name)) : entry.isDirectory();
}

/** What there is in a folder, by name; nothing where there is none, or no longer. */
export function entryNames(folder: string): string[] {
  return entriesIn(folder)
    .map(({ name }) => name)
    .sort();
}

/** Whether a record's task is the one that the folder's name stands for. */
export function isOwner(taskId: string, folder: string): boolean {
  return nameOf(taskId) === basename(folder);
}

/** Whether a record's task has another folder than this one, on a disk too that takes names in other cases for the same. */
export function isForeign(taskId: string, folder: string): boolean {
  return nameOf(taskId).toLowerCase() !== basename(folder).toLowerCase();
}

/** What is wrong with a record that {@link isForeign}. */
export function foreignReason(taskId: string): string {
  return `it belongs to task ${JSON.stringify(taskId)}, whose folder this isn't`;
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

interface Candidate {
  readonly folder: string;
  readonly taskId: string | undefined;
  readonly contents: TaskContents | undefined;
}

/** In the query's order, with the contents that had to be read to find it. */
async function candidatesFor(
  root: string,
  query: TaskQuery,
  read: ReadContents,
  slices: TimeSlices,
): Promise<readonly Candidate[]> {
  const candidates: Candidate[] = [];
  for (const entry of entriesIn(root)) {
    const { name } = entry;
    const folder = join(root, name);
    const named = idOf(name);
    if (named === undefined ? !isHashedName(name) : !isAskedFor(named, query)) continue;
    const isLink = entry.isSymbolicLink();
    // Other people's files, such as a README.
    if (isLink ? leadsToFile(folder) : !entry.isDirectory()) continue;
    const isNeeded = isLink || named === undefined || query.order === "recent";
    const contents = isLink ? linkedContents(folder, named) : isNeeded ? await read(folder, named) : undefined;
    const taskId = named ?? contents?.taskId;
    const isKnown = !isNeeded || contents !== undefined;
    if (isKnown && (taskId === undefined || isAskedFor(taskId, query))) candidates.push({ folder, taskId, contents });
    if (slices.due) await slices.pause();
  }
  return candidates.sort(query.order === "recent" ? byRecency : byTaskId);
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

/** A link may have been a task's folder that somebody moved away: it isn't followed, and isn't passed over in silence. */
function linkedContents(path: string, taskId: string | undefined): TaskContents {
  const record: CorruptRecord = {
    corrupt: true,
    location: path,
    reason: "it is a symbolic link, which is not followed",
    ...(taskId === undefined ? undefined : { taskId }),
  };
  return { taskId, count: 0, newest: undefined, corrupt: [record] };
}

/** False where it leads nowhere: then nobody knows what was there. */
function leadsToFile(link: string): boolean {
  try {
    return !statSync(link).isDirectory();
  } catch {
    return false;
  }
}

function entriesIn(root: string): Dirent[] {
  try {
    return readdirSync(root, { withFileTypes: true });
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}
