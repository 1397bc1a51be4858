import { DamagedCheckpointError } from "../damage.js";
import type { RunTask } from "../leases.js";
import { listAsking } from "../queries/asking.js";
import type { InboxAnswer, InboxItem } from "./api-inbox.js";
import type { StepAnswer } from "./api-runs.js";
import { givingWay } from "./giving-way.js";
import type { PageSession } from "./page-session.js";
import { pickDefined, taskRow, timeAt } from "./rows.js";
import { describeStep } from "./step-answers.js";
import { describeWaits, readRunIfThere } from "./task-answers.js";
import { typedValue } from "./typed-values.js";

const MOST_ITEMS = 50;
/** How many of the newest steps are searched for the last completed one. */
const MOST_STEPS = 20;

export async function answerInbox(session: PageSession): Promise<InboxAnswer> {
  const items: InboxItem[] = [];
  let total = 0;
  for await (const task of givingWay(listAsking(session))) {
    total += 1;
    if (items.length < MOST_ITEMS) items.push(await describeItem(session, task));
  }
  return { now: timeAt(Date.now()), items, total, warnings: session.damage.warnings };
}

async function describeItem(session: PageSession, task: RunTask): Promise<InboxItem> {
  const row = taskRow(task, Date.now(), []);
  if (task.thread !== undefined) return { task: row, waits: [] };
  try {
    const run = await readRunIfThere(session, task.newest);
    const waits = await describeWaits(session, task.newest, run);
    const before = await lastCompletedStep(session, task.taskId);
    return {
      task: row,
      waits: waits.filter(({ command }) => command !== undefined),
      ...(run?.input !== undefined && { input: typedValue(run.input) }),
      ...pickDefined({ before }),
    };
  } catch (error) {
    // The task's own page shows the damage.
    if (!(error instanceof DamagedCheckpointError)) throw error;
    return { task: row, waits: [] };
  }
}

async function lastCompletedStep(session: PageSession, taskId: string): Promise<StepAnswer | undefined> {
  const manager = await session.configured();
  for await (const record of manager.records(taskId, { kinds: ["step"], order: "newest", limit: MOST_STEPS })) {
    const step = describeStep(record);
    if (step?.status === "completed" && step.result !== undefined) return step;
  }
  return undefined;
}
