import type { CheckpointSummary } from "waymark";
import { completeTask, findRemoval, forkTask, newestToComplete, rewindTask } from "../actions/change-task.js";
import { applyPlans } from "../actions/prune.js";
import { repairStorage } from "../actions/repair.js";
import { findCancellation, retryTasks, sendEvent } from "../actions/runs.js";
import { CommandError, ExitCode } from "../exit-code.js";
import type { PolicyPlans } from "../queries/retention.js";
import { sender } from "../sender.js";
import type {
  CancelRequest,
  ChangedAnswer,
  CompleteRequest,
  DeleteRequest,
  ForkRequest,
  RemovedAnswer,
  RetryRequest,
  RewindRequest,
  SendRequest,
  SentAnswer,
} from "./api-actions.js";
import type { RepairAnswer } from "./api-storage.js";
import { exactCheckpoint } from "./checkpoint-answers.js";
import { errorInfo } from "./error-info.js";
import { repairStep } from "./findings-info.js";
import { commandsFor } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow } from "./rows.js";

const MOST_STEPS = 1_000;
const MOST_FAILURES = 100;

export async function fork(session: PageSession, request: ForkRequest): Promise<ChangedAnswer> {
  const { taskId, id, newTaskId } = request;
  // Require the whole id here, because the action also takes the beginning of one.
  await exactCheckpoint(session, taskId, id);
  const forked = await forkTask(session, { task: taskId, id, newTask: newTaskId }, request);
  return "saved" in forked ? changed(forked.saved) : { ...changed(forked.source), taskId: forked.taskId };
}

export async function rewind(session: PageSession, request: RewindRequest): Promise<ChangedAnswer> {
  const { taskId, id } = request;
  await exactCheckpoint(session, taskId, id);
  return changed((await rewindTask(session, { task: taskId, id }, request)).saved);
}

/** Completes the newest checkpoint, if it is still the one that was shown. */
export async function complete(session: PageSession, request: CompleteRequest): Promise<ChangedAnswer> {
  const { taskId, expectedSequence } = request;
  const newest = await newestToComplete(session, taskId);
  if (newest.sequence !== expectedSequence) {
    throw new CommandError(
      ExitCode.conflict,
      `Task ${JSON.stringify(taskId)} has continued: its newest checkpoint is @${newest.sequence}, not @${expectedSequence}. Nothing was changed.`,
    );
  }
  await completeTask(session, newest, request);
  return changed({ ...newest, status: "completed" });
}

export async function remove(session: PageSession, request: DeleteRequest): Promise<RemovedAnswer> {
  const { taskId, id } = request;
  const removal = await findRemoval(session, taskId, id);
  return { removed: await removal.remove(request), failed: [] };
}

export async function send(session: PageSession, request: SendRequest): Promise<SentAnswer> {
  const { taskId: task, by = sender(), ...options } = request;
  const { id, isAwaited } = await sendEvent(session, { task, by, ...options });
  return { id, isAwaited };
}

export async function cancel(
  session: PageSession,
  { taskId, reason }: CancelRequest,
): Promise<{ readonly cancelled: number }> {
  const found = await findCancellation(session, { task: taskId });
  return { cancelled: await found.cancel(reason) };
}

export async function retry(
  session: PageSession,
  { taskId, from }: RetryRequest,
): Promise<{ readonly retried: number }> {
  const { retried } = await retryTasks(session, { task: taskId }, from);
  return { retried };
}

/** Applies plans that were shown. If a task can't be pruned, the others still are. */
export async function prune(session: PageSession, plans: PolicyPlans): Promise<RemovedAnswer> {
  const { removed, removedBytes, failures } = await applyPlans(session, plans, () => undefined);
  const failed = failures.slice(0, MOST_FAILURES).map(({ taskId, error }) => ({ taskId, error: errorInfo(error) }));
  return { removed, removedBytes, failed };
}

export async function planRepair(session: PageSession, signal: AbortSignal): Promise<RepairAnswer> {
  const { steps } = await session.manager.maintenance.repair({ dryRun: true, signal });
  return repairAnswer(session, steps);
}

/** @param signal - Stops the repair between two checkpoints. The next repair continues from there. */
export async function repair(session: PageSession, signal: AbortSignal): Promise<RepairAnswer> {
  const outcome = await repairStorage(session, { signal });
  if ("reason" in outcome) throw outcome.reason;
  return repairAnswer(session, outcome.result.steps);
}

function repairAnswer(session: PageSession, steps: readonly Parameters<typeof repairStep>[0][]): RepairAnswer {
  return { steps: steps.slice(0, MOST_STEPS).map(repairStep), commands: commandsFor(session).ofStorage() };
}

function changed(checkpoint: CheckpointSummary): ChangedAnswer {
  return { taskId: checkpoint.taskId, checkpoint: checkpointRow({ checkpoint, interrupts: [] }) };
}
