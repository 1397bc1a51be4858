import { CheckpointConflictError, type StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { parseThreadPrefix } from "waymark/langgraph/records";
import { type DamageSink, identify } from "../damage.js";
import { compareItems, RecordInserter } from "../records/insert-record.js";
import { findOtherHistory } from "../records/other-history.js";
import { isWhole } from "../records/stored-record.js";
import {
  describeItem,
  isLogRecord,
  lastSequence,
  type StoredItem,
  taskIds,
  wholeItems,
} from "../records/whole-records.js";

/** The counts of a copy after the comparison with its source. Checkpoints count as records. */
export interface CopyResult {
  /** How many records the source has, including those of tasks that were left out. */
  records: number;
  /** How many records are the same in the target. */
  identical: number;
  /** How many records this run wrote. */
  copied: number;
  /** How many of the copied records aren't checkpoints. */
  logRecords: number;
  /** How many records of the target are not in the source. */
  extra: number;
  /** How many records of the source can't be read, and so weren't copied. */
  unreadable: number;
  /** The tasks that have another history in the target. Nothing was written to them. */
  leftOut: string[];
}

/** A record that differs between source and target. */
export interface Difference {
  readonly taskId: string;
  /** `checkpoint c1`, `step record "model"` */
  readonly what: string;
  readonly sequence: number;
  readonly reason: "it is missing" | "its content differs" | "its status differs";
}

/** The source and the target of a copy, and the receivers of its reports. */
export interface CopyJob {
  readonly from: StorageAdapter;
  readonly to: StorageAdapter;
  /** The beginning of the task ids. */
  readonly prefix?: string | undefined;
  readonly damage: DamageSink;
  /** Called with the amount of work done. Each record counts twice: once copied, once compared. */
  readonly onProgress?: (done: number) => void;
  readonly onDifference: (difference: Difference) => Promise<void>;
  readonly onLeftOut: (taskId: string, reason: string) => Promise<void>;
}

/**
 * Copies every task to another storage, and compares all records. A task that has another history in the target is left
 * out.
 */
export async function copyTasks(job: CopyJob): Promise<CopyResult> {
  const result: CopyResult = {
    records: 0,
    identical: 0,
    copied: 0,
    logRecords: 0,
    extra: 0,
    unreadable: 0,
    leftOut: [],
  };
  // Counts each damaged record once: listing, copying and comparing meet the same damage.
  const unreadable = new Set<string>();
  const source: DamageSink = {
    add: (record) => {
      unreadable.add(identify(record));
      return job.damage.add(record);
    },
  };
  let group: { readonly taskId: string; otherHistory: string | undefined } | undefined;
  for await (const taskId of taskIds(job.from, job.prefix, source)) {
    let done = 2 * result.records;
    const advance = () => {
      done += 1;
      job.onProgress?.(done);
    };
    const named = findGroup(taskId);
    if (named !== group?.taskId) group = { taskId: named, otherHistory: await findOtherHistoryIn(job, named) };
    group.otherHistory ??= await copyTask({ ...job, source, advance }, taskId, result);
    if (group.otherHistory === undefined) continue;
    // The tasks of a group are adjacent, so looking at the last entry is enough.
    if (result.leftOut.at(-1) !== named) {
      result.leftOut.push(named);
      await job.onLeftOut(named, group.otherHistory);
    }
    const query = { taskId, order: "oldest" } as const;
    for await (const record of job.from.log?.read({ ...query, headersOnly: true }) ?? job.from.list(query)) {
      if (isCorrupt(record)) await source.add(record);
      else result.records += 1;
    }
  }
  result.unreadable = unreadable.size;
  result.records += unreadable.size;
  return result;
}

/**
 * Returns the id of a task's group, which is copied as a whole or not at all: the task alone, or all tasks of a
 * LangGraph thread.
 */
function findGroup(taskId: string): string {
  const thread = parseThreadPrefix(taskId);
  return thread === undefined ? taskId : `${thread}c/`;
}

/** Like {@link findOtherHistory}, for all tasks of a group. */
async function findOtherHistoryIn({ from, to }: CopyJob, group: string): Promise<string | undefined> {
  const thread = parseThreadPrefix(group);
  // Damage is reported where the tasks are copied.
  const unreported = { add: async () => undefined };
  for await (const taskId of thread === undefined ? [group] : taskIds(from, thread, unreported)) {
    const reason = await findOtherHistory(from, to, taskId);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

interface TaskJob extends CopyJob {
  /** Collects damaged records of the source. */
  readonly source: DamageSink;
  /** Call after each record. */
  readonly advance: () => void;
}

/**
 * Copies the task's checkpoints and records that are newer than the target's last one, then compares all of them. If a status changed
 * in the source since an earlier copy, it copies the status too.
 *
 * @returns The conflict, if another program writes to the task in the target, or if removed records have used its
 *   sequences there.
 */
async function copyTask(job: TaskJob, taskId: string, result: CopyResult): Promise<string | undefined> {
  const before = await lastSequence(job.to, taskId);
  const inserter = new RecordInserter(job.to, { isSameHistory: true });
  let last = before;
  for await (const record of wholeItems(job.from, { taskId, afterSequence: before }, job.source)) {
    try {
      if ((await inserter.insert(record)) === "added") {
        result.copied += 1;
        if (isLogRecord(record)) result.logRecords += 1;
      }
    } catch (error) {
      if (!(error instanceof CheckpointConflictError)) throw error;
      return error.message;
    }
    last = record.sequence;
    job.advance();
  }
  // Records that are saved from now on are left to the next copy.
  await compareTask(job, taskId, last, result);
  return undefined;
}

/** Compares a task's records in one pass: both storages return them by sequence. */
async function compareTask(job: TaskJob, taskId: string, last: number, result: CopyResult): Promise<void> {
  const query = { taskId, beforeSequence: last + 1 };
  const copies = wholeItems(job.to, query, job.damage);
  let copy = await copies.next();
  for await (const record of wholeItems(job.from, query, job.source)) {
    while (!copy.done && copy.value.sequence < record.sequence) {
      result.extra += 1;
      copy = await copies.next();
    }
    const itsCopy = !copy.done && copy.value.sequence === record.sequence ? copy.value : undefined;
    const reason = await findDifference(job, record, itsCopy);
    result.records += 1;
    if (reason === undefined) result.identical += 1;
    else await job.onDifference({ taskId, what: describeItem(record), sequence: record.sequence, reason });
    if (itsCopy !== undefined) copy = await copies.next();
    job.advance();
  }
  for (; !copy.done; copy = await copies.next()) result.extra += 1;
}

async function findDifference(
  { to }: CopyJob,
  record: StoredItem,
  copy: StoredItem | undefined,
): Promise<Difference["reason"] | undefined> {
  if (copy === undefined) return "it is missing";
  const relation = compareItems(record, copy);
  if (relation === "same") return undefined;
  if (relation === "different" || isLogRecord(record) || isLogRecord(copy)) return "its content differs";
  // A completed checkpoint stays completed, so the copy's status can't be changed back.
  if (copy.status === "completed" && record.status !== "completed") return "its status differs";
  const { taskId, id, status, error } = record;
  await to.setStatus(taskId, id, { status, ...(error && { error }) });
  const changed = await to.get(taskId, id);
  return changed && isWhole(changed) && compareItems(record, changed) === "same" ? undefined : "its status differs";
}
