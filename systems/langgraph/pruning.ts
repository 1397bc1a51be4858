import type { CheckpointSummary } from "../../src/contract/checkpoint.js";
import type { CheckpointManager } from "../../src/manager/manager.js";
import type { PruneResult } from "../../src/manager/pruner.js";
import type { PlannedCheckpoint, RetentionPolicy } from "../../src/manager/retention.js";
import { checkpointsTask, type Thread, writesTask } from "./task-ids.js";

/** Removes what the policy doesn't keep and no kept checkpoint needs. */
export async function pruneThread(
  manager: CheckpointManager,
  thread: Thread,
  policy: RetentionPolicy,
): Promise<PruneResult> {
  const plan = await manager.planRetention(checkpointsTask(thread), policy);
  const needed = neededBy(
    plan.keep.map(({ checkpoint }) => checkpoint),
    new Map([...plan.keep, ...plan.remove].map(({ checkpoint }) => [checkpoint.id, checkpoint])),
  );
  const isNeeded = ({ checkpoint }: PlannedCheckpoint) => needed.has(checkpoint.id);
  const result = await manager.applyPlan({
    ...plan,
    keep: [...plan.keep, ...plan.remove.filter(isNeeded)],
    remove: plan.remove.filter((one) => !isNeeded(one)),
  });
  // After the checkpoints: those without their writes would read differently. A kill in between leaves writes that the
  // next pruning finds.
  const kept = new Set([...needed].map((id) => writesTask(thread, id)));
  for (const { checkpoint } of plan.remove) {
    const task = writesTask(thread, checkpoint.id);
    if (!kept.has(task)) await manager.removeTask(task);
  }
  return result;
}

/** The ids of the checkpoints, of those that have their values, and of the ancestors that a DeltaChannel needs. */
function neededBy(keep: readonly CheckpointSummary[], all: ReadonlyMap<string, CheckpointSummary>): Set<string> {
  const needed = new Set<string>();
  for (const checkpoint of keep) {
    needed.add(checkpoint.id);
    const { valuesIn, history } = checkpoint.metadata ?? {};
    for (const id of Object.values(valuesIn ?? {})) needed.add(String(id));
    let ancestor = checkpoint.parentId;
    for (let left = Number(history ?? 0); left > 0 && ancestor !== undefined; left--) {
      needed.add(ancestor);
      for (const id of Object.values(all.get(ancestor)?.metadata?.["valuesIn"] ?? {})) needed.add(String(id));
      ancestor = all.get(ancestor)?.parentId;
    }
  }
  return needed;
}
