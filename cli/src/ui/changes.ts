import { CheckpointError, type CheckpointSummary, type Lease, PlanOutdatedError } from "waymark";
import { CommandError, ExitCode } from "../exit-code.js";
import { refuseThread, tasksOf, wholeThread } from "../langgraph/find-tasks.js";
import { underLease } from "../leases.js";
import type { PolicyPlans } from "../queries/retention.js";
import { exactCheckpoint, noSuchTask } from "./answers.js";
import type {
  ChangedAnswer,
  CompleteRequest,
  DeleteRequest,
  ForkRequest,
  RemovedAnswer,
  RepairAnswer,
  RewindRequest,
} from "./api.js";
import { errorInfo } from "./error-info.js";
import { repairStep } from "./findings-info.js";
import { commandsFor } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow } from "./rows.js";

const MOST_STEPS = 1_000;
const MOST_FAILURES = 100;

export async function fork(session: PageSession, request: ForkRequest): Promise<ChangedAnswer> {
  const { taskId, id, newTaskId } = request;
  refuseThread(newTaskId, "Give the new task another name.");
  refuseThread(taskId, "waymark fork forks the whole thread.");
  await exactCheckpoint(session, taskId, id);
  const manager = await session.configured();
  try {
    const change = (under: Under) => manager.fork(taskId, id, newTaskId, under);
    return changed(await releasing(session, newTaskId, request, change));
  } finally {
    await manager.close();
  }
}

export async function rewind(session: PageSession, request: RewindRequest): Promise<ChangedAnswer> {
  const { taskId, id } = request;
  refuseThread(taskId, "Invoke its graph with the config of that checkpoint, or call updateState with it.");
  await exactCheckpoint(session, taskId, id);
  const manager = await session.configured();
  try {
    return changed(await releasing(session, taskId, request, (under) => manager.rewind(taskId, id, under)));
  } finally {
    await manager.close();
  }
}

/** Completes the newest checkpoint, if it is still the one that was shown. */
export async function complete(session: PageSession, request: CompleteRequest): Promise<ChangedAnswer> {
  const { taskId, expectedSequence } = request;
  refuseThread(taskId, "Its graph completes it, or waymark delete removes it.");
  const { manager } = session;
  if (!(await manager.has(taskId))) throw noSuchTask(session, taskId);
  await releasing(session, taskId, request, (under) => manager.complete(taskId, { expectedSequence, ...under }));
  const [newest] = await manager.list(taskId, { limit: 1 });
  if (newest === undefined) throw noSuchTask(session, taskId);
  return changed(newest);
}

export async function remove(session: PageSession, request: DeleteRequest): Promise<RemovedAnswer> {
  const { taskId, id } = request;
  const { manager } = session;
  const thread = wholeThread(taskId);
  if (thread !== undefined && id === undefined) {
    let count = 0;
    for await (const _taskId of tasksOf(session, taskId)) count += 1;
    if (count === 0) throw noSuchTask(session, taskId);
    const removed = await releasing(session, taskId, request, () => manager.removeTasks({ prefix: thread.prefix }));
    return { removed, failed: [] };
  }
  refuseThread(
    taskId,
    "Without a checkpoint, the whole thread is removed; WaymarkSaver.prune removes old checkpoints.",
  );
  const removed = await releasing(session, taskId, request, async (under) => {
    if (id === undefined) return manager.removeTask(taskId, under);
    return (await manager.remove(taskId, id, under)) ? 1 : 0;
  });
  if (removed > 0) return { removed, failed: [] };
  throw id === undefined
    ? noSuchTask(session, taskId)
    : new CommandError(
        ExitCode.notFound,
        `Checkpoint ${JSON.stringify(id)} of task ${JSON.stringify(taskId)} doesn't exist. It may have been removed.`,
      );
}

/** Applies plans that were shown. If a task can't be pruned, the others still are. */
export async function prune({ manager }: PageSession, plans: PolicyPlans): Promise<RemovedAnswer> {
  let [removed, removedBytes] = [0, 0];
  const failed: RemovedAnswer["failed"][number][] = [];
  for await (const plan of plans.agreed()) {
    if (plan.remove.length === 0) continue;
    try {
      const result = await manager.applyPlan(plan);
      removed += result.removed;
      removedBytes += result.removedBytes;
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      // Nothing was removed so far, so the whole plan can be made again.
      if (error instanceof PlanOutdatedError && removed === 0) throw error;
      if (failed.length < MOST_FAILURES) failed.push({ taskId: plan.taskId, error: errorInfo(error) });
    }
  }
  return { removed, removedBytes, failed };
}

/** @param signal - Stops a repair between two checkpoints. */
export async function repair(
  session: PageSession,
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<RepairAnswer> {
  const { steps } = await session.manager.repair({ dryRun, signal });
  return { steps: steps.slice(0, MOST_STEPS).map(repairStep), commands: commandsFor(session).ofStorage() };
}

type Under = { readonly lease?: Lease };

/** Changes a task under its lease, and releases it. */
async function releasing<Result>(
  session: PageSession,
  taskId: string,
  { force = false }: { readonly force?: boolean | undefined },
  change: (under: Under) => Promise<Result>,
): Promise<Result> {
  return underLease(session, taskId, force, async (under) => {
    try {
      return await change(under);
    } finally {
      await under.lease?.release();
    }
  });
}

function changed(checkpoint: CheckpointSummary): ChangedAnswer {
  return { taskId: checkpoint.taskId, checkpoint: checkpointRow({ checkpoint, interrupts: [] }) };
}
