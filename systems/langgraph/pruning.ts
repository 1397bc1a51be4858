import type { CheckpointManager } from "../../src/manager/manager.js";
import type { PruneResult } from "../../src/manager/pruner.js";
import type { PlannedCheckpoint, RetentionPolicy } from "../../src/manager/retention.js";
import { neededBy } from "./records.js";
import { checkpointOf, checkpointsTask, type Thread, writesPrefix, writesTask } from "./task-ids.js";

/**
 * Removes what the policy doesn't keep and no kept checkpoint needs. The newest stays in any case: between two turns a thread
 * is done, and the next one goes on from it.
 *
 * @param sweeps - Whether it also looks for the writes that a killed pruning has left. That lists tasks.
 */
export async function pruneThread(
  manager: CheckpointManager,
  thread: Thread,
  policy: RetentionPolicy,
  sweeps: boolean,
): Promise<PruneResult> {
  // Before the plan: a checkpoint that is stored meanwhile keeps its writes.
  const written = sweeps ? (await manager.tasks({ prefix: writesPrefix(thread) })).map(({ taskId }) => taskId) : [];
  let hasDamage = false;
  const stop = manager.on("corrupt", () => {
    hasDamage = true;
  });
  const plan = await manager.planRetention(checkpointsTask(thread), policy).finally(stop);
  const all = new Map([...plan.keep, ...plan.remove].map(({ checkpoint }) => [checkpoint.id, checkpoint]));
  const newest = [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, 1);
  const kept = [...plan.keep.map(({ checkpoint }) => checkpoint), ...newest];
  const needed = new Set(kept.flatMap((checkpoint) => [checkpoint.id, ...neededBy(checkpoint, all)]));
  const isNeeded = ({ checkpoint }: PlannedCheckpoint) => needed.has(checkpoint.id);
  const remove = plan.remove.filter((one) => !isNeeded(one));
  const keep = [...plan.keep, ...plan.remove.filter(isNeeded)];
  const result = await manager.applyPlan({ ...plan, keep, remove });
  // After the checkpoints: those without their writes would read differently.
  const highest = [...all.keys()].sort().at(-1) ?? "";
  const left = written.filter((task) => {
    const id = checkpointOf(task);
    // The writes of a checkpoint may be stored before it, and a damaged one isn't gone.
    return !all.has(id) && id < highest && !hasDamage;
  });
  for (const task of [...remove.map(({ checkpoint }) => writesTask(thread, checkpoint.id)), ...left]) {
    await manager.removeTask(task);
  }
  return result;
}
