import type { CheckpointSummary } from "../../src/contract/checkpoint.js";
import type { CheckpointManager } from "../../src/manager/manager.js";
import type { PruneResult } from "../../src/manager/pruner.js";
import type { PlannedCheckpoint, RetentionPolicy } from "../../src/manager/retention.js";
import { metadataOf, neededBy } from "./records.js";
import { checkpointsPrefix, checkpointsTask, type Thread, threadOf, writesPrefix, writesTask } from "./task-ids.js";

/**
 * Removes what the policy doesn't keep and no kept checkpoint needs. The newest stays in any case: between two turns a thread
 * is done, and the next one goes on from it.
 */
export async function pruneThread(
  manager: CheckpointManager,
  thread: Thread,
  policy: RetentionPolicy,
): Promise<PruneResult> {
  const plan = await manager.planRetention(checkpointsTask(thread), policy);
  const all = new Map([...plan.keep, ...plan.remove].map(({ checkpoint }) => [checkpoint.id, checkpoint]));
  const newest = [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, 1);
  const kept = [...plan.keep.map(({ checkpoint }) => checkpoint), ...newest];
  const needed = new Set(kept.flatMap((checkpoint) => [checkpoint.id, ...neededBy(checkpoint, all)]));
  const isNeeded = ({ checkpoint }: PlannedCheckpoint) => needed.has(checkpoint.id);
  const remove = plan.remove.filter((one) => !isNeeded(one));
  const keep = [...plan.keep, ...plan.remove.filter(isNeeded)];
  const { removed, removedBytes } = await manager.applyPlan({ ...plan, keep, remove });
  // After the checkpoints: a checkpoint without its writes would read differently. What a kill leaves here is never read.
  for (const { checkpoint } of remove) await manager.removeTask(writesTask(thread, checkpoint.id));
  const calls = await removeCalls(manager, thread.threadId, new Set(remove.map(({ checkpoint }) => checkpoint.id)));
  const bytesOfCalls = calls.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return { tasks: 1, removed: removed + calls.length, removedBytes: removedBytes + bytesOfCalls };
}

/** Removes the subgraphs' calls that were made from these checkpoints, and the calls that those made. */
async function removeCalls(
  manager: CheckpointManager,
  threadId: string,
  callers: ReadonlySet<string>,
): Promise<readonly CheckpointSummary[]> {
  if (callers.size === 0) return [];
  const removed: CheckpointSummary[] = [];
  for (const { taskId, newest } of await manager.tasks({ prefix: checkpointsPrefix(threadId) })) {
    const call = threadOf(taskId, newest.metadata);
    if (call === undefined || !callers.has(metadataOf(newest).caller ?? "")) continue;
    removed.push(...(await manager.list(taskId)));
    await manager.removeTask(taskId);
    await manager.removeTasks({ prefix: writesPrefix(call) });
  }
  return [...removed, ...(await removeCalls(manager, threadId, new Set(removed.map(({ id }) => id))))];
}
