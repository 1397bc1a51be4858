import { CheckpointNotFoundError, type CheckpointSummary } from "waymark";
import { isCancelled, type RunRecord } from "waymark/kit";
import { parseThreadPrefix } from "waymark/langgraph/records";
import { DamagedCheckpointError } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { takeFirst } from "../first-of.js";
import { isKeyMissing } from "../key-advice.js";
import { wholeThread } from "../langgraph/find-tasks.js";
import { describeCheckpoint } from "../langgraph/thread-state.js";
import { readCheckpoints } from "../queries/checkpoints.js";
import { listTasks } from "../queries/tasks.js";
import { buildTimeline } from "../queries/timeline.js";
import { readableSummaries } from "../read-stored.js";
import { readRun, stepTitle } from "../run-steps.js";
import { makeManager } from "../store.js";
import { answerCommand, listEvents, pendingWaits } from "../waits.js";
import { counted } from "../words.js";
import type { Queries } from "./api.js";
import type { EventsAnswer, StepAnswer, TimelineAttempt, TimelineMark, TimelineStep, WaitInfo } from "./api-runs.js";
import type { Policy } from "./api-storage.js";
import type { FailureInfo, TaskRow } from "./api-tasks.js";
import { exactCheckpoint, failureInfo, findRunner, stepParts } from "./checkpoint-answers.js";
import { errorInfo } from "./error-info.js";
import { commandsFor } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow, pickDefined, taskRow, timeAt } from "./rows.js";
import { describeStep } from "./step-answers.js";
import { typedValue } from "./typed-values.js";

const DEFAULT_CHECKPOINTS = 200;
const MOST_SAVES = 2_000;
const MOST_SIGNALS = 100;
/** Describing a checkpoint of a thread reads its state. */
const MOST_DESCRIBED = 200;

export async function answerTask(
  session: PageSession,
  request: Queries["task"]["request"],
): Promise<Queries["task"]["answer"]> {
  const { taskId, beforeSequence, limit = DEFAULT_CHECKPOINTS } = request;
  const task = await findTaskRow(session, taskId);
  if (task === undefined) throw noSuchTask(session, taskId);
  const checkpoints = [];
  let last: number | undefined;
  // Reads one more than the limit, to learn whether there is another page.
  for await (const described of readCheckpoints(session, {
    taskId,
    order: "newest",
    beforeSequence,
    limit: limit + 1,
  })) {
    if (checkpoints.length === limit) {
      last = checkpoints.at(-1)?.sequence;
      break;
    }
    checkpoints.push(checkpointRow(described));
  }
  const { damage } = session;
  const open = await readOpenRun(session, task);
  const offered = { policy: await configuredPolicy(session), run: open?.run, checkpoints };
  return {
    now: timeAt(Date.now()),
    task,
    checkpoints,
    ...pickDefined({ beforeSequence: last }),
    damage: damage.records,
    warnings: damage.warnings,
    commands: commandsFor(session).ofTask(task, offered),
    ...pickDefined({ failure: open && (await findFailure(session, open)) }),
  };
}

/**
 * Returns the configuration's policy. If the configuration can't be used, returns none: the query `session` says why.
 */
async function configuredPolicy(session: PageSession): Promise<Policy | undefined> {
  return session.config().then(
    ({ retention }) => retention,
    () => undefined,
  );
}

/** The newest checkpoint of a task that isn't completed, and its run, if they can be read. */
interface OpenRun {
  readonly checkpoint: CheckpointSummary;
  readonly run: RunRecord | undefined;
}

async function readOpenRun(session: PageSession, { taskId, newest, status }: TaskRow): Promise<OpenRun | undefined> {
  if (newest === undefined || status === "completed") return undefined;
  try {
    const stored = await exactCheckpoint(session, taskId, newest.id);
    // The status and the error of a thread are in its writes.
    const { checkpoint } = await describeCheckpoint(session, stored);
    return { checkpoint, run: await readRunIfThere(session, stored) };
  } catch (error) {
    // The checkpoint was removed meanwhile, or its state is damaged.
    if (error instanceof DamagedCheckpointError) await session.damage.add(error.record);
    else if (!(error instanceof CommandError)) throw error;
    return undefined;
  }
}

async function findFailure(session: PageSession, { checkpoint, run }: OpenRun): Promise<FailureInfo | undefined> {
  const { status, error, taskId } = checkpoint;
  if (status !== "failed" || error === undefined) return undefined;
  const known = { error: failureInfo(error) };
  if (run === undefined || isCancelled(checkpoint)) return known;
  const failed = run.failedStep ?? run.steps.findLast((step) => step.status !== "completed" && step.status !== "saved");
  let step: StepAnswer | undefined;
  let before: StepAnswer | undefined;
  for await (const record of (await session.configured()).records(taskId, {
    kinds: ["step", "mark"],
    order: "newest",
  })) {
    const one = describeStep(record);
    if (one === undefined) continue;
    if (failed !== undefined && step === undefined) {
      if (one.title === stepTitle(failed)) step = one;
    } else if (one.status === "completed") {
      before = one;
      break;
    }
  }
  const cause = step?.error;
  return {
    // The record of a step has the whole error, with its causes.
    error: cause?.message === error.message ? cause : known.error,
    ...pickDefined({ step, before }),
    ...("input" in run && { input: typedValue(run.input) }),
  };
}

/** Returns the record of a checkpoint's run; `undefined` if the checkpoint has just been replaced. */
export async function readRunIfThere(
  session: PageSession,
  checkpoint: CheckpointSummary,
): Promise<RunRecord | undefined> {
  try {
    return await readRun(session, checkpoint);
  } catch (error) {
    if (!(error instanceof CheckpointNotFoundError)) throw error;
    return undefined;
  }
}

/** Finds a task by its id; `undefined` if there is none. */
export async function findTaskRow(session: PageSession, taskId: string): Promise<TaskRow | undefined> {
  const prefix = wholeThread(taskId)?.id ?? taskId;
  // In the order of ids, the task comes before all longer ids with this prefix, but threads may come in between.
  for await (const task of listTasks(session, { order: "taskId", prefix })) {
    if (task.taskId !== taskId) continue;
    const damage = session.damage.records.filter((record) => record.taskId === taskId);
    return taskRow(task, Date.now(), damage);
  }
  return undefined;
}

export async function answerTimeline(
  session: PageSession,
  { taskId }: Queries["timeline"]["request"],
): Promise<Queries["timeline"]["answer"]> {
  const { steps, attempts, checkpoints, keyMissing } = await buildTimeline(session, taskId, MOST_SAVES);
  const shown = await describeThread(session, checkpoints);
  if (checkpoints.length === 0 && session.damage.total === 0) throw noSuchTask(session, taskId);
  const sequences = new Map(checkpoints.map(({ id, sequence }) => [id, sequence]));
  const runner = await findRunner(session, taskId, true);
  return {
    now: timeAt(Date.now()),
    steps: steps.map(({ step, sequence, run, checkpoint, retriedAt, usage }): TimelineStep => {
      const isEnd = step.status === "failed" && !("error" in step);
      const error = isEnd ? checkpoint.error?.message : messageIn(step.error);
      return {
        ...stepParts(step, run),
        turn: run.turn,
        generation: run.generation,
        ...pickDefined({ error, retriedAt, usage }),
        checkpointId: checkpoint.id,
        sequence: checkpoint.sequence,
        record: sequence,
      };
    }),
    attempts: attempts.map((one, index): TimelineAttempt => {
      const { generation, attempt, startedAt, lastSeenAt, checkpoint } = one;
      const isLast = index === attempts.length - 1;
      const ofLast = runner === undefined ? "unknown" : runner.state === "held" ? "running" : "killed";
      const end = one.end === "open" ? (isLast ? ofLast : "unknown") : one.end;
      const error = checkpoint?.error?.message;
      return {
        generation,
        attempt,
        startedAt,
        lastSeenAt,
        end,
        ...pickDefined({ error, runner: isLast ? runner : undefined }),
      };
    }),
    marks: shown.flatMap((checkpoint, at) => toMark(checkpoint, shown[at - 1], sequences) ?? []),
    saves: checkpoints.map(
      ({ sequence, createdAt, sizeBytes }) => [sequence, Date.parse(createdAt), sizeBytes] as const,
    ),
    ...pickDefined({ keyMissing: keyMissing && errorInfo(keyMissing) }),
    damage: session.damage.records,
  };
}

/** Adds to the newest checkpoints of a thread the nodes and the status. Returns others unchanged. */
async function describeThread(
  session: PageSession,
  checkpoints: readonly CheckpointSummary[],
): Promise<readonly CheckpointSummary[]> {
  if (parseThreadPrefix(checkpoints[0]?.taskId ?? "") === undefined) return checkpoints;
  const first = checkpoints.length - MOST_DESCRIBED;
  return Promise.all(
    checkpoints.map(async (checkpoint, at) =>
      at < first ? checkpoint : (await describeCheckpoint(session, checkpoint)).checkpoint,
    ),
  );
}

function toMark(
  checkpoint: CheckpointSummary,
  before: CheckpointSummary | undefined,
  sequences: ReadonlyMap<string, number>,
): TimelineMark | undefined {
  const { id, sequence, createdAt, status, parentId, error } = checkpoint;
  const { kind, isOfRun, isCancelled, stage, label } = checkpointRow({ checkpoint, interrupts: [] });
  const parts = { at: createdAt, id, sequence, ...pickDefined({ stage, label, error: error?.message }) };
  // A LangGraph thread names each checkpoint's parent, which is usually the checkpoint before it.
  if (parentId !== undefined && parentId !== before?.id) {
    return { kind: "branch", ...parts, ...pickDefined({ fromSequence: sequences.get(parentId) }) };
  }
  if (status !== "running") return { kind: isCancelled ? "cancelled" : status, ...parts };
  if (kind === "milestone") return { kind, ...parts };
  // Other transient checkpoints of a run are its steps.
  return isOfRun ? undefined : { kind: "auto-save", ...parts };
}

function messageIn(error: unknown): string | undefined {
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return error === undefined ? undefined : String(error);
}

export async function answerEvents(session: PageSession, taskId: string): Promise<EventsAnswer> {
  const [newest] = await takeFirst(readableSummaries(session, { taskId, order: "newest", limit: 1 }));
  const run = newest && (await readRunIfThere(session, newest));
  const waits = newest === undefined ? [] : await describeWaits(session, newest, run);
  return {
    now: timeAt(Date.now()),
    waits,
    ...(waits.length > 0 && run?.input !== undefined && { input: typedValue(run.input) }),
    ...(await readEvents(session, taskId)),
    damage: session.damage.records,
  };
}

/** Describes what a task's run waits for, with the commands that answer. */
export async function describeWaits(
  session: PageSession,
  newest: CheckpointSummary,
  run: RunRecord | undefined,
): Promise<readonly WaitInfo[]> {
  const { taskId } = newest;
  return (await pendingWaits(session, newest, run)).map((wait) => ({
    ...wait,
    ...(wait.kind === "event" && !wait.isAnswered && { command: answerCommand(session, { taskId, ...wait }) }),
  }));
}

async function readEvents(session: PageSession, taskId: string): Promise<Pick<EventsAnswer, "events" | "keyMissing">> {
  const manager = makeManager(session.storage, await session.config(), session.damage);
  manager.on("corrupt", (record) => void session.damage.add(record));
  try {
    const sent = (await manager.events(taskId)).slice(-MOST_SIGNALS).reverse();
    return {
      events: sent.map(({ value, error, ...event }) => ({
        ...event,
        ...(value !== undefined && { value: typedValue(value) }),
        ...(error && { error: error.message }),
      })),
    };
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return { events: [...(await listEvents(session, taskId))].reverse(), keyMissing: errorInfo(error) };
  }
}

export function noSuchTask({ name, damage }: PageSession, taskId: string): CommandError {
  const damaged = damage.records.filter((record) => record.taskId === taskId).length;
  if (damaged > 0) {
    return new CommandError(
      ExitCode.damaged,
      `No checkpoint of task ${JSON.stringify(taskId)} can be read: ${counted(damaged, "record")} of it can't be read in ` +
        `${name}. They were left untouched. "waymark repair" moves them to the quarantine.`,
    );
  }
  return new CommandError(
    ExitCode.notFound,
    `Task ${JSON.stringify(taskId)} has no checkpoint in ${name}. It may have been removed.`,
  );
}
