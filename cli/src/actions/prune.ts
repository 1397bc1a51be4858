import { CheckpointError, PlanOutdatedError, type PruneResult } from "waymark";
import { CommandError, ExitCode } from "../exit-code.js";
import type { Plans } from "../queries/retention.js";
import type { QuerySession } from "../store.js";
import { counted } from "../words.js";

/**
 * Applies the plans that were shown. If a task can't be pruned, the others still are.
 *
 * @throws {CommandError} A plan is outdated; the message says what was removed before it.
 */
export async function applyPlans({ manager }: QuerySession, plans: Plans, onTask: () => void): Promise<PruneResult> {
  const total = { tasks: 0, removed: 0, removedBytes: 0 };
  const failures: { taskId: string; error: CheckpointError }[] = [];
  const before = () =>
    total.tasks === 0
      ? "Nothing was removed."
      : `Removed before it: ${counted(total.removed, "checkpoint")} of ${counted(total.tasks, "task")}.`;
  try {
    for await (const plan of plans.agreed(before)) {
      if (plan.remove.length === 0 && plan.removeRecords === undefined) continue;
      try {
        const { removed, removedBytes } = await manager.retention.apply(plan);
        total.tasks += 1;
        total.removed += removed;
        total.removedBytes += removedBytes;
      } catch (error) {
        if (!(error instanceof CheckpointError) || error instanceof PlanOutdatedError) throw error;
        failures.push({ taskId: plan.taskId, error });
      }
      onTask();
    }
  } catch (cause) {
    if (!(cause instanceof PlanOutdatedError) || total.tasks === 0) throw cause;
    throw new CommandError(ExitCode.conflict, `${cause.message} ${before()}`, { cause });
  }
  return { ...total, failures };
}
