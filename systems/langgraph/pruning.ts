import type { CheckpointManager } from "../../src/manager/manager.js";
import type { PruneResult } from "../../src/manager/pruner.js";
import type { PlannedCheckpoint, RetentionPolicy } from "../../src/manager/retention.js";
import { neededBy } from "./records.js";
import { checkpointsTask, type Thread, writesTask } from "./task-ids.js";

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
  const result = await manager.applyPlan({ ...plan, keep, remove });
  // After the checkpoints: a checkpoint without its writes would read differently. What a kill leaves here is never read.
  for (const { checkpoint } of remove) await manager.removeTask(writesTask(thread, checkpoint.id));
  return result;
}
