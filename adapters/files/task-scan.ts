import { type Dirent, readdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { compareTasks, matchesTaskId, type OrderedTask, type TaskQuery } from "../../src/contract/adapter.js";
import { type TaskSummary, toSummary } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { StorageError } from "../../src/contract/errors.js";
import { SLICE, UnreadableError, unlessAbsent } from "./file-io.js";
import { isHashedName, parseFileName } from "./names.js";
import {
  type LoadedTask,
  type LoadTask,
  type RecordHead,
  type RecordSource,
  readEntries,
  readEntry,
} from "./record.js";

/** A task's folder, and the task's id if the name tells it. */
export interface TaskFolder {
  readonly path: string;
  readonly taskId: string | undefined;
}

/** All tasks' folders below a root folder, in no order, without foreign files and links. */
export function listTaskFolders(root: string): TaskFolder[] {
  const entries: readonly Dirent[] = unlessAbsent(() => readdirSync(root, { withFileTypes: true })) ?? [];
  return entries.flatMap((entry) => {
    const { name } = entry;
    const taskId = parseFileName(name);
    return entry.isDirectory() && (taskId !== undefined || isHashedName(name))
      ? { path: join(root, name), taskId }
      : [];
  });
}

export async function* scanTasks(
  root: string,
  query: TaskQuery,
  load: LoadTask,
): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
  let [left, seen] = [query.limit ?? Number.POSITIVE_INFINITY, 0];
  const candidates: (OrderedTask & { readonly folder: TaskFolder; readonly contents?: Contents | undefined })[] = [];
  for (const folder of listTaskFolders(root)) {
    if (folder.taskId !== undefined && !matchesTaskId(folder.taskId, query)) continue;
    // A folder must be read now if the query orders by time, or if the folder's name doesn't tell the task.
    const isNeeded = query.order === "recent" || folder.taskId === undefined;
    const contents = isNeeded ? readContents(folder, load) : undefined;
    const { taskId, newest } = contents?.task ?? { taskId: folder.taskId };
    if (taskId === undefined || matchesTaskId(taskId, query)) candidates.push({ taskId, newest, folder, contents });
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
  candidates.sort(compareTasks(query.order));

  for (const { folder, contents } of candidates) {
    if (left === 0) return;
    const { task, corrupt } = contents ?? readContents(folder, load);
    yield* corrupt;
    if (task && (query.status?.includes(task.newest.status) ?? true)) {
      left -= 1;
      yield task;
    }
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
}

/**
 * A task's folder as lists show it: the task with its newest readable checkpoint, and newer checkpoints that can't be
 * read.
 */
type Contents = { readonly task?: TaskSummary; readonly corrupt: readonly CorruptRecord[] };

/** Reads a folder. If checkpoints are damaged, older ones and other tasks are still found. */
export function readContents({ path, taskId }: TaskFolder, load: LoadTask): Contents {
  const corrupt: CorruptRecord[] = [];
  let count = 0;
  const loadCounted = (): LoadedTask => {
    const task = load(path);
    count = task.count;
    return task;
  };
  const readHead = (entry: RecordSource): RecordHead | CorruptRecord | undefined =>
    readEntry(entry, taskId, () => {
      try {
        return entry.head();
      } catch (error) {
        throw error instanceof StorageError ? new UnreadableError(error.message) : error;
      }
    });
  for (const head of readEntries(loadCounted, { order: "newest" }, readHead)) {
    if (isCorrupt(head)) corrupt.push(head);
    else return { task: { taskId: head.taskId, count, newest: toSummary(head) }, corrupt };
  }
  return { corrupt };
}
