import type { RetentionPlan } from "waymark";
import { bytesOnDisk } from "../bytes-on-disk.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { describedTasks, describeTask, refuseThread } from "../langgraph/find-tasks.js";
import { findStatus, LeaseReader } from "../leases.js";
import { findAsking } from "../queries/asking.js";
import { listQuarantine } from "../queries/quarantine.js";
import { PolicyPlans } from "../queries/retention.js";
import { sender } from "../sender.js";
import { version } from "../version.js";
import type { Queries, Session } from "./api.js";
import type { Command } from "./api-parts.js";
import type { PlannedRow, Policy, RetentionAnswer } from "./api-storage.js";
import type { CountsAnswer } from "./api-tasks.js";
import { errorInfo } from "./error-info.js";
import { givingWay } from "./giving-way.js";
import { commandsFor } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow, pickDefined, timeAt } from "./rows.js";
import { noSuchTask } from "./task-answers.js";

const MOST_PLANNED_TASKS = 500;
const MOST_QUARANTINED = 200;

export async function answerSession(session: PageSession, canWrite: boolean): Promise<Session> {
  const { storage, name } = session;
  const config = await session.config().catch(errorInfo);
  const { file, retention } = "folder" in config ? config : {};
  const configError = "folder" in config ? undefined : config;
  return {
    name,
    kind: storage.name,
    version: version(),
    canWrite,
    ...pickDefined({ configFile: file, configError, retention }),
    hasLeases: storage.leases !== undefined,
    sender: sender(),
    now: timeAt(Date.now()),
    commands: commandsFor(session).ofStorage(),
  };
}

/** Counts all tasks. */
export async function answerCounts(session: PageSession): Promise<CountsAnswer> {
  const byStatus = {
    ...{ queued: 0, scheduled: 0, running: 0, waiting: 0, interrupted: 0, paused: 0 },
    ...{ completed: 0, failed: 0, cancelled: 0 },
  };
  const nowMs = Date.now();
  const leases = new LeaseReader(session);
  const held = new Set((await leases.held()).map(({ taskId }) => taskId));
  let tasks = 0;
  let checkpoints = 0;
  let asking = 0;
  for await (const task of givingWay(describedTasks(session, { order: "taskId" }))) {
    tasks += 1;
    checkpoints += task.count;
    const status = findStatus(task, held.has(task.taskId), nowMs);
    if (status !== "unknown") byStatus[status] += 1;
    if ((await findAsking(leases, held, task)) !== undefined) asking += 1;
  }
  return {
    tasks,
    checkpoints,
    byStatus,
    held: held.size,
    asking,
    damage: session.damage.records,
    damaged: session.damage.total,
  };
}

/**
 * Plans what a policy would remove. Also returns the plans, which can be applied later.
 *
 * @param taskIds - Only these tasks; `undefined`: every task.
 */
export async function answerRetention(
  session: PageSession,
  { taskId, policy: chosenPolicy }: Queries["retention"]["request"],
  taskIds: readonly string[] | undefined,
): Promise<{ readonly answer: Omit<RetentionAnswer, "planId">; readonly plans: PolicyPlans }> {
  const policy: Policy | undefined = chosenPolicy ?? (await session.config()).retention;
  if (policy === undefined) {
    throw new CommandError(ExitCode.usage, "No policy is given, and the configuration has no retention.");
  }
  if (taskId !== undefined) {
    refuseThread(taskId, "WaymarkSaver.prune prunes it, and waymark langgraph prune removes idle ones.");
    if (!(await session.manager.has(taskId))) throw noSuchTask(session, taskId);
  }
  const plans = new PolicyPlans(session, policy, taskIds);
  const total = { tasks: 0, keep: 0, remove: 0, keepBytes: 0, removeBytes: 0 };
  const tasks: RetentionAnswer["tasks"][number][] = [];
  let plannedAt = timeAt(Date.now());
  let checkpoints: readonly PlannedRow[] | undefined;
  for await (const plan of givingWay(plans.shown())) {
    const counts = countPlan(plan);
    total.tasks += 1;
    total.keep += counts.keep;
    total.remove += counts.remove;
    total.keepBytes += counts.keepBytes;
    total.removeBytes += counts.removeBytes;
    plannedAt = plan.plannedAt;
    if (counts.remove > 0 && tasks.length < MOST_PLANNED_TASKS) {
      tasks.push({ taskId: plan.taskId, name: describeTask(plan), ...counts });
    }
    if (taskId !== undefined) checkpoints = plannedRows(plan);
  }
  const { records, warnings } = session.damage;
  // A command line can't list arbitrarily chosen tasks, so no commands are offered.
  const isChoice = taskIds !== undefined && taskId === undefined;
  const commands: readonly Command[] = isChoice ? [] : commandsFor(session).ofPolicy(policy, taskId);
  const answer = {
    policy,
    plannedAt,
    total,
    tasks,
    ...pickDefined({ checkpoints }),
    warnings,
    damage: records,
    commands,
  };
  return { answer, plans };
}

function countPlan({ keep, remove, keepBytes, removeBytes }: RetentionPlan) {
  return { keep: keep.length, remove: remove.length, keepBytes, removeBytes };
}

function plannedRows({ keep, remove }: RetentionPlan): readonly PlannedRow[] {
  const rows = [true, false].flatMap((stays) =>
    (stays ? keep : remove).map(({ checkpoint, reasons }) => ({
      checkpoint: checkpointRow({ checkpoint, interrupts: [] }),
      stays,
      reasons,
    })),
  );
  return rows.sort((a, b) => b.checkpoint.sequence - a.checkpoint.sequence);
}

export async function answerStorage(session: PageSession): Promise<Queries["storage"]["answer"]> {
  const { storage, name } = session;
  const { durable, multiProcess } = storage.capabilities;
  const found = await listQuarantine(session, MOST_QUARANTINED);
  const quarantine = found && {
    ...found,
    records: found.records.map(({ quarantinedAt: at, ...record }) => ({ ...record, ...pickDefined({ at }) })),
  };
  return {
    name,
    kind: storage.name,
    isDurable: durable,
    isMultiProcess: multiProcess,
    ...pickDefined({ bytesOnDisk: await bytesOnDisk(session), quarantine }),
    commands: commandsFor(session).ofStorage(),
  };
}
