import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import type { CheckpointSummary } from "../../src/contract/checkpoint.js";
import type { PruneResult } from "../../src/manager/retention.js";
import type { PlannedCheckpoint, RetentionPolicy } from "../../src/manager/retention-plan.js";
import { CALL_STAGE, neededBy, readMetadata } from "./records.js";
import { checkpointsTask, type Thread, writesTask } from "./task-ids.js";
import { skippingDamage } from "./thread-reader.js";

/**
 * Removes the checkpoints that the policy doesn't keep and that no kept checkpoint needs. The newest always stays: the
 * thread's next turn continues from it.
 */
export async function pruneThread(
  manager: CheckpointManager,
  thread: Thread,
  policy: RetentionPolicy,
): Promise<PruneResult> {
  const plan = await manager.retention.plan(checkpointsTask(thread), policy);
  const all = new Map([...plan.keep, ...plan.remove].map(({ checkpoint }) => [checkpoint.id, checkpoint]));
  const newest = [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, 1);
  const kept = [...plan.keep.map(({ checkpoint }) => checkpoint), ...newest];
  const needed = new Set(kept.flatMap((checkpoint) => [checkpoint.id, ...neededBy(checkpoint, all)]));
  const isNeeded = ({ checkpoint }: PlannedCheckpoint) => needed.has(checkpoint.id);
  const remove = plan.remove.filter((one) => !isNeeded(one));
  const keep = [...plan.keep, ...plan.remove.filter(isNeeded)];
  const { removed, removedBytes } = await manager.retention.apply({ ...plan, keep, remove });
  // Writes are removed after their checkpoints: a checkpoint without its writes would read differently. If a kill
  // leaves writes behind, they are never read.
  const gone = remove.map(({ checkpoint }) => checkpoint);
  const ofCalls = await removeWrites(manager, thread, gone);
  const bytesOfCalls = ofCalls.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return { tasks: 1, removed: removed + ofCalls.length, removedBytes: removedBytes + bytesOfCalls, failures: [] };
}

/**
 * Removes the writes of removed checkpoints, and the subgraphs that were called from them.
 *
 * @returns The checkpoints of those subgraphs.
 */
async function removeWrites(
  manager: CheckpointManager,
  thread: Thread,
  checkpoints: readonly CheckpointSummary[],
): Promise<readonly CheckpointSummary[]> {
  const removed: CheckpointSummary[] = [];
  for (const { id } of checkpoints) {
    const writes = writesTask(thread, id);
    // Damaged records are removed too.
    for (const record of (await skippingDamage(manager.list(writes, { stage: CALL_STAGE }))) ?? []) {
      const { call: namespace } = readMetadata(record);
      if (namespace === undefined) continue;
      const call = { threadId: thread.threadId, namespace };
      const ofCall = (await skippingDamage(manager.list(checkpointsTask(call)))) ?? [];
      await manager.removeTask(checkpointsTask(call));
      removed.push(...ofCall, ...(await removeWrites(manager, call, ofCall)));
    }
    await manager.removeTask(writes);
  }
  return removed;
}
