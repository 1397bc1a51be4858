import type { CheckpointSummary, StateChange } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { compareStates, type StepRecord } from "waymark/kit";
import { findCheckpoint, requireTask } from "../checkpoints.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { wholeIn } from "../langgraph/whole-checkpoints.js";
import { allSteps, readRun, stepName } from "../run-steps.js";
import { shownStates } from "../shown-states.js";
import type { QuerySession } from "../store.js";

export interface DiffQuery {
  /** A word on the command line that names the task. */
  readonly task: string;
  /** Default: the checkpoint before `to`. */
  readonly from?: string | undefined;
  /** Default: the newest readable checkpoint. */
  readonly to?: string | undefined;
}

/** Two checkpoints, and the changes from one state to the other. */
export interface StateDiff {
  readonly from: CheckpointSummary;
  readonly to: CheckpointSummary;
  readonly changes: readonly StateChange[];
  /** The changes besides the state, for people: `status running → failed`, `error no room`, `+ model · 3.1 s`. */
  readonly besides: readonly string[];
}

/** @throws {CommandError} A checkpoint doesn't exist, or `to` is the oldest and no `from` is given. */
export async function diffStates(session: QuerySession, query: DiffQuery): Promise<StateDiff> {
  const taskId = await requireTask(session, query.task);
  const to = await findCheckpoint(session, taskId, query.to ?? "@latest");
  const from =
    query.from === undefined ? await checkpointBefore(session, to) : await findCheckpoint(session, taskId, query.from);
  return diffBetween(session, from, to);
}

/** Compares two checkpoints, of one task or of two. */
export async function diffBetween(
  session: QuerySession,
  from: CheckpointSummary,
  to: CheckpointSummary,
): Promise<StateDiff> {
  const stateOf = async ({ taskId, id }: CheckpointSummary) =>
    (await (await shownStates(session, taskId)).restore(taskId, id)).state;
  const changes = [...compareStates(await stateOf(from), await stateOf(to))];
  return { from, to, changes, besides: await besides(session, from, to) };
}

async function besides(
  session: QuerySession,
  from: CheckpointSummary,
  to: CheckpointSummary,
): Promise<readonly string[]> {
  const stepsOf = async (checkpoint: CheckpointSummary) => {
    const run = await readRun(session, checkpoint);
    const steps = new Map<string, StepRecord>();
    for (const step of run ? allSteps(run) : []) {
      steps.set(JSON.stringify([run?.turn, step.name, step.occurrence, step.status]), step);
    }
    return steps;
  };
  const known = await stepsOf(from);
  const came = [...(await stepsOf(to))].filter(([key]) => !known.has(key));
  const error = to.error?.message;
  return [
    ...(from.status === to.status ? [] : [`status ${from.status} → ${to.status}`]),
    ...(error === undefined || error === from.error?.message ? [] : [`error ${error}`]),
    ...came.map(([, step]) => `+ ${stepName(step)}`),
  ];
}

/** @throws {CommandError} The checkpoint is the oldest. */
export async function checkpointBefore(
  session: QuerySession,
  { taskId, sequence }: CheckpointSummary,
): Promise<CheckpointSummary> {
  const isWhole = await wholeIn(session, taskId);
  for await (const found of session.storage.list({ taskId, order: "newest", beforeSequence: sequence })) {
    if (!isCorrupt(found) && isWhole(found)) return found;
  }
  throw new CommandError(ExitCode.notFound, `Task ${JSON.stringify(taskId)} has no checkpoint before @${sequence}.`);
}
