import { type Dirent, readdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import {
  compareTasks,
  matchesTaskId,
  type OrderedTask,
  type StoredTask,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import { toSummary } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { StorageError } from "../../src/contract/errors.js";
import type { RecordHeader } from "../../src/contract/log.js";
import { findDueTime } from "../../src/contract/transient.js";
import { readStats, SLICE, UnreadableError, unlessAbsent } from "./file-io.js";
import { findLastTaken, type LogIndex, readIndex, requireOwner } from "./log-file.js";
import { joinHeader } from "./log-line.js";
import { findCompanion } from "./log-pages.js";
import { isHashedName, parseFileName, toFileName } from "./names.js";
import {
  type LoadedTask,
  type LoadTask,
  type RecordHead,
  type RecordSource,
  readEntries,
  readEntry,
} from "./record.js";

/** A task's folder, and the task's id if the folder's name contains it. */
export interface TaskFolder {
  readonly path: string;
  readonly taskId: string | undefined;
}

/** Lists all tasks' folders below a root folder, in no particular order, without foreign files and links. */
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
  logName: string,
): AsyncGenerator<StoredTask | CorruptRecord, void, void> {
  const first = await readFirstTask(root, query, load, logName);
  if (first?.task) {
    yield* first.corrupt;
    yield first.task;
    return;
  }
  let [left, seen] = [query.limit ?? Number.POSITIVE_INFINITY, 0];
  const candidates: (OrderedTask & { readonly folder: TaskFolder; readonly contents?: Contents | undefined })[] = [];
  for (const folder of listTaskFolders(root)) {
    if (folder.taskId !== undefined && !matchesTaskId(folder.taskId, query)) continue;
    // A folder must be read now if the query orders by time, or if the folder's name doesn't contain the task's id.
    const isNeeded = query.order === "recent" || folder.taskId === undefined;
    const contents = isNeeded ? await readContents(folder, load, logName) : undefined;
    const { taskId, ...task } = contents?.task ?? { taskId: folder.taskId };
    if (taskId === undefined || matchesTaskId(taskId, query)) candidates.push({ ...task, taskId, folder, contents });
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
  candidates.sort(compareTasks(query.order));

  for (const { folder, contents } of candidates) {
    if (left === 0) return;
    const { task, corrupt } = contents ?? (await readContents(folder, load, logName));
    yield* corrupt;
    if (task && (query.status === undefined || (task.newest && query.status.includes(task.newest.status)))) {
      left -= 1;
      yield task;
    }
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
}

/**
 * If only one task is wanted, reads the task whose id is the prefix: it comes first, so no list of all tasks is needed.
 */
async function readFirstTask(
  root: string,
  query: TaskQuery,
  load: LoadTask,
  logName: string,
): Promise<Contents | undefined> {
  const { prefix: taskId = "", order, limit, status } = query;
  if (taskId === "" || order !== "taskId" || limit !== 1 || status !== undefined) return undefined;
  const path = join(root, toFileName(taskId));
  if (!matchesTaskId(taskId, query) || !readStats(path)?.isDirectory()) return undefined;
  const contents = await readContents({ path, taskId }, load, logName);
  return contents.task?.taskId === taskId ? contents : undefined;
}

/**
 * A task's folder as lists show it: the task with its newest readable checkpoint, and newer checkpoints that can't be
 * read.
 */
interface Contents {
  readonly task?: StoredTask;
  readonly corrupt: readonly CorruptRecord[];
}

/** Reads a folder. If checkpoints are damaged, older ones and other tasks are still found. */
export async function readContents({ path, taskId }: TaskFolder, load: LoadTask, logName: string): Promise<Contents> {
  const logPath = join(path, logName);
  const corrupt: CorruptRecord[] = [];
  // The log is read first, so that a checkpoint stored in the meantime is newer than the log's records.
  const index = await readOwnIndex(logPath, path).catch((error: unknown) => {
    if (!(error instanceof UnreadableError || error instanceof StorageError)) throw error;
    corrupt.push({ corrupt: true, location: logPath, reason: error.message, ...(taskId !== undefined && { taskId }) });
    return undefined;
  });
  let task: LoadedTask | undefined;
  const loadCounted = (): LoadedTask => {
    task = load(path);
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
    else {
      const last = findLast(index, task);
      const dueAt = index ? index.findDueTime(head) : findDueTime(head);
      const removedUpTo = index?.removedUpTo ?? 0;
      const found = {
        taskId: head.taskId,
        count: task?.count ?? 0,
        lastSequence: findLastTaken(index, task),
        newest: toSummary(head),
        ...(last && last.sequence > head.sequence && { last }),
        ...(dueAt !== undefined && { dueAt }),
        ...(removedUpTo > 0 && { removedUpTo }),
      };
      return { task: found, corrupt };
    }
  }
  const last = findLast(index, task);
  const id = index?.taskId ?? taskId;
  if (last === undefined || id === undefined) return { corrupt };
  const removedUpTo = index?.removedUpTo ?? 0;
  const found = {
    taskId: id,
    count: task?.count ?? 0,
    lastSequence: findLastTaken(index, task),
    last,
    ...(removedUpTo > 0 && { removedUpTo }),
  };
  return { task: found, corrupt };
}

/** Finds the last record. A batch at the end of the log counts if its checkpoint was stored. */
function findLast(index: LogIndex | undefined, task: LoadedTask | undefined): RecordHeader | undefined {
  const pending = index?.scan.pending;
  const line = pending && findCompanion(pending, task) ? pending.entries.at(-1)?.line : undefined;
  return (line && joinHeader(line, index?.taskId ?? "")) ?? index?.last;
}

/** @throws {StorageError} The log belongs to another task. */
async function readOwnIndex(path: string, folder: string): Promise<LogIndex | undefined> {
  const index = await readIndex(path);
  requireOwner(index, folder);
  return index;
}
