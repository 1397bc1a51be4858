import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { isRecord, type RecordKind, type RecordSelection, toRecordHeader } from "../../src/contract/log.js";
import type { PruneResult } from "../../src/manager/retention.js";
import type { PlannedCheckpoint, RetentionPolicy } from "../../src/manager/retention-plan.js";
import { findCalls } from "./calls.js";
import { neededBy } from "./records.js";
import { checkpointsTask, type Thread } from "./task-ids.js";

interface PruneSources {
  readonly storage: StorageAdapter;
  /** A manager over `storage`. */
  readonly manager: CheckpointManager;
}

/**
 * Removes the checkpoints that the policy doesn't keep and that no kept checkpoint needs, with their writes and the
 * subgraphs that were called from them. The newest always stays: the thread's next turn continues from it.
 */
export async function pruneThread(
  { storage, manager }: PruneSources,
  thread: Thread,
  policy: RetentionPolicy,
): Promise<PruneResult> {
  const taskId = checkpointsTask(thread);
  const plan = await manager.retention.plan(taskId, policy);
  const all = new Map([...plan.keep, ...plan.remove].map(({ checkpoint }) => [checkpoint.id, checkpoint]));
  const newest = [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, 1);
  const kept = [...plan.keep.map(({ checkpoint }) => checkpoint), ...newest];
  const needed = new Set(kept.flatMap((checkpoint) => [checkpoint.id, ...neededBy(checkpoint, all)]));
  const isNeeded = ({ checkpoint }: PlannedCheckpoint) => needed.has(checkpoint.id);
  const remove = plan.remove.filter((one) => !isNeeded(one));
  if (remove.length === 0) return { tasks: 1, removed: 0, removedBytes: 0, failures: [] };
  const keep = [...plan.keep, ...plan.remove.filter(isNeeded)];
  const result = await manager.retention.apply({ ...plan, keep, remove, removeRecords: [] });
  let { removed, removedBytes } = result;
  // Writes are removed after their checkpoints: a checkpoint without its writes would read differently. If a kill
  // leaves writes behind, they are never read.
  const gone = new Set(remove.map(({ checkpoint }) => checkpoint.id));
  const { ranges, bytes } = await findWrites(storage, taskId, gone);
  for (const range of ranges) await storage.log?.remove(taskId, range);
  removedBytes += bytes;
  for (const call of await findCalls(storage, thread.threadId, gone)) {
    await manager.removeTask(call.taskId);
    removed += call.checkpoints.length;
    removedBytes += call.checkpoints.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }
  return { ...result, removed, removedBytes };
}

const WRITES: readonly RecordKind[] = ["step"];

/**
 * Finds the writes of these checkpoints. Writes that follow each other are one range, because each removal on files
 * copies the log. Writes of other names stay: their checkpoint may not be stored yet.
 */
async function findWrites(
  { log }: StorageAdapter,
  taskId: string,
  checkpoints: ReadonlySet<string>,
): Promise<{ readonly ranges: readonly RecordSelection[]; readonly bytes: number }> {
  const ranges: { afterSequence: number; beforeSequence: number; kinds: readonly RecordKind[] }[] = [];
  let bytes = 0;
  let isAdjacent = false;
  for await (const item of log?.read({ taskId, order: "oldest", kinds: WRITES, headersOnly: true }) ?? []) {
    // A damaged record isn't removed, also within a range.
    if (isCorrupt(item) || !isRecord(item)) continue;
    const { name, sequence, sizeBytes } = toRecordHeader(item);
    const isGone = name !== undefined && checkpoints.has(name);
    const [last] = isAdjacent ? ranges.slice(-1) : [];
    if (isGone && last) last.beforeSequence = sequence + 1;
    else if (isGone) ranges.push({ afterSequence: sequence - 1, beforeSequence: sequence + 1, kinds: WRITES });
    if (isGone) bytes += sizeBytes;
    isAdjacent = isGone;
  }
  return { ranges, bytes };
}
