import type { StorageAdapter } from "waymark";
import type { StoredCheckpoint } from "waymark/adapter";
import type { DamageSink } from "../damage.js";
import type { Progress } from "../progress.js";
import { newestSequence, RecordPlacer, relationOf } from "./place-record.js";
import { isWhole } from "./stored-record.js";
import { wholeRecords } from "./whole-records.js";

/** How the copy of some tasks went, after it was compared with what it was made from. */
export interface CopyResult {
  /** How many records the source has. */
  records: number;
  /** How many of them are in the target, and are the same there. */
  identical: number;
  /** How many this run has written. */
  copied: number;
  /** How many records the target's tasks have that the source's don't. */
  extra: number;
  /** How many of the source can't be read, and so are not copied. */
  unreadable: number;
}

/** A record of the source that isn't the same in the target. */
export interface Difference {
  readonly taskId: string;
  readonly id: string;
  readonly sequence: number;
  readonly reason: "it is missing" | "another checkpoint has its sequence" | "its status differs";
}

/** What copying goes from and to, and whom it tells of what. */
export interface CopyJob {
  readonly from: StorageAdapter;
  readonly to: StorageAdapter;
  /** Is told of what can't be read of the source, of what of the target. */
  readonly damage: { readonly from: DamageSink; readonly to: DamageSink };
  readonly progress: Progress;
  readonly onDifference: (difference: Difference) => Promise<void>;
}

/**
 * Copies a task's records as they are, those alone that come after what the target has, and compares all of them. A
 * status that has changed at the source since an earlier copy is brought after.
 */
export async function copyTask(job: CopyJob, taskId: string, result: CopyResult): Promise<void> {
  const before = await newestSequence(job.to, taskId);
  const placer = new RecordPlacer(job.to);
  let last = before;
  const added = { taskId, order: "oldest", afterSequence: before } as const;
  for await (const record of wholeRecords(job.from, added, job.damage.from)) {
    if ((await placer.place(record)) === "added") result.copied += 1;
    last = record.sequence;
    job.progress.advance();
  }
  // What is saved from here on is the next copy's.
  await compareTask(job, taskId, last, result);
}

/** Both storages give the task's records in the order of their sequences, so one walk through both is enough. */
async function compareTask(job: CopyJob, taskId: string, last: number, result: CopyResult): Promise<void> {
  const query = { taskId, order: "oldest", beforeSequence: last + 1 } as const;
  const copies = wholeRecords(job.to, query, job.damage.to);
  let copy = await copies.next();
  for await (const record of wholeRecords(job.from, query, job.damage.from)) {
    while (!copy.done && copy.value.sequence < record.sequence) {
      result.extra += 1;
      copy = await copies.next();
    }
    const itsCopy = !copy.done && copy.value.sequence === record.sequence ? copy.value : undefined;
    const reason = await differenceOf(job, record, itsCopy);
    result.records += 1;
    if (reason === undefined) result.identical += 1;
    else await job.onDifference({ taskId, id: record.id, sequence: record.sequence, reason });
    if (itsCopy !== undefined) copy = await copies.next();
    job.progress.advance();
  }
  for (; !copy.done; copy = await copies.next()) result.extra += 1;
}

async function differenceOf(
  { to }: CopyJob,
  record: StoredCheckpoint,
  copy: StoredCheckpoint | undefined,
): Promise<Difference["reason"] | undefined> {
  if (copy === undefined) return "it is missing";
  const relation = relationOf(record, copy);
  if (relation === "same") return undefined;
  if (relation === "different") return "another checkpoint has its sequence";
  // A checkpoint never leaves `completed`: then the copy is the one that went on.
  if (copy.status === "completed" && record.status !== "completed") return "its status differs";
  const { taskId, id, status, error } = record;
  await to.setStatus(taskId, id, { status, ...(error && { error }) });
  const changed = await to.get(taskId, id);
  return changed && isWhole(changed) && relationOf(record, changed) === "same" ? undefined : "its status differs";
}
