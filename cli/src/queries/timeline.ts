import type { CheckpointSummary } from "waymark";
import { isTransient, replacedBy } from "waymark/adapter";
import { isOfRun, type RunRecord, readTurns, type StepRecord } from "waymark/kit";
import { requireTask } from "../checkpoints.js";
import { takeFirst } from "../first-of.js";
import { isKeyMissing } from "../key-advice.js";
import { LeaseReader } from "../leases.js";
import { readableSummaries } from "../read-stored.js";
import { failureText } from "../record-text.js";
import { stepName } from "../run-steps.js";
import type { QuerySession } from "../store.js";
import { type Usage, usageIn } from "../usage.js";

/** A step of a task's runs, as `waymark list --timeline` shows it. */
export interface TimedStep {
  readonly turn: number;
  /** The sequence of the step's record, for `waymark show TASK @7`. */
  readonly sequence: number;
  readonly startedAt: string;
  /** `undefined` if the step isn't finished. */
  readonly durationMs: number | undefined;
  /** The step's name, attempts and duration, for people. */
  readonly step: string;
  /**
   * The error of a failed step. For an attempt's last step, also how the attempt ended: `attempt 2 was killed after
   * this step`.
   */
  readonly why?: string;
}

/** A step with its place in the task. */
export interface RunStep {
  readonly step: StepRecord;
  /** The sequence of the step's record. */
  readonly sequence: number;
  readonly run: Pick<RunRecord, "generation" | "attempt" | "turn">;
  /** The first checkpoint after the step or, if there is none, the newest one. */
  readonly checkpoint: CheckpointSummary;
  /** When this attempt of the run tried the step again. */
  readonly retriedAt?: readonly string[] | undefined;
  readonly usage?: Usage | undefined;
}

/** A start or a resume of a task's run. */
export interface RunAttempt {
  readonly generation: string;
  readonly attempt: number;
  /** When the attempt's first step or save began. */
  readonly startedAt: string;
  /** When the attempt was last seen: its last save, or the end of its last step. */
  readonly lastSeenAt: string;
  /**
   * `killed`: the attempt recorded no end. `interrupted`: it was killed or paused, but the next attempt's first save
   * replaced the checkpoint that showed which. `waited`: it stopped during a wait that the next attempt ended. `open`:
   * the last attempt, whose checkpoint has the status `running`.
   */
  readonly end: "completed" | "failed" | "paused" | "killed" | "interrupted" | "waited" | "open";
  /** The attempt's newest checkpoint, if any is left. */
  readonly checkpoint: CheckpointSummary | undefined;
}

/** All that a task's checkpoints show about its runs. */
export interface Timeline {
  /** Ordered by start. */
  readonly steps: readonly RunStep[];
  /** Oldest first. */
  readonly attempts: readonly RunAttempt[];
  /** Oldest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  /** Why some steps are missing: the configuration can't open the states. */
  readonly keyMissing: Error | undefined;
}

/** Returns all steps of a task's runs, ordered by start. */
export async function readTimeline(
  session: QuerySession,
  { task }: { readonly task: string },
): Promise<readonly TimedStep[]> {
  const taskId = await requireTask(session, task);
  const { steps, attempts } = await buildTimeline(session, taskId);
  const hasDied = (await new LeaseReader(session).lapsed(taskId)) !== undefined;
  return steps.map((one) => {
    const { step, sequence, run } = one;
    const { startedAt, durationMs } = step;
    const own = attempts.find(
      ({ attempt, generation }) => attempt === step.runAttempt && generation === run.generation,
    );
    const last = steps.findLast(
      (other) => other.step.runAttempt === step.runAttempt && other.run.generation === run.generation,
    );
    const why = [
      ...(step.error === undefined ? [] : [failureText(step.error)]),
      ...(own && one === last ? endText(own.end === "open" && hasDied ? { ...own, end: "killed" } : own, step) : []),
    ].join("; ");
    return { turn: run.turn, sequence, startedAt, durationMs, step: stepName(step), ...(why !== "" && { why }) };
  });
}

/**
 * Describes the end of an attempt that wasn't completed. If the failed step has the error, the text doesn't repeat it.
 */
function endText({ attempt, end, checkpoint }: RunAttempt, step: StepRecord): string[] {
  // If the attempt was killed in a later step, that step is listed with the attempt that ran it again.
  const where = step.status === "started" ? " in this step" : " after this step";
  if (end === "killed") return [`attempt ${attempt} was killed${where}`];
  if (end === "interrupted") return [`attempt ${attempt} was interrupted${where}`];
  if (end !== "failed") return [];
  const { error } = checkpoint ?? {};
  const isSaid = error === undefined || step.error !== undefined;
  return [`attempt ${attempt} failed${isSaid ? "" : `: ${failureText(error)}`}`];
}

/**
 * Reads the runs of a task. Damaged checkpoints are reported, and left out.
 *
 * @param newest - Reads only this many newest checkpoints. Default: all.
 */
export async function buildTimeline(session: QuerySession, taskId: string, newest?: number): Promise<Timeline> {
  const found = await takeFirst(readableSummaries(session, { taskId, order: "newest", limit: newest }));
  const checkpoints = found.reverse();
  const isWhole = newest === undefined || checkpoints.length < newest;
  const turns = await readTurnsOf(session, taskId, checkpoints, isWhole ? 0 : (checkpoints[0]?.sequence ?? 0));
  if (turns instanceof Error) return { steps: [], attempts: [], checkpoints, keyMissing: turns };
  const attempts = new Map<string, Attempt>();
  let last: Attempt | undefined;
  for (const { generation, seen } of turns) {
    for (const { attempt, at, checkpoint } of seen) {
      // An enqueued run, a fork and a rewind begin without an attempt.
      if (attempt === 0) continue;
      const key = JSON.stringify([generation, attempt]);
      const known = attempts.get(key) ?? { generation, attempt, startedAt: at, lastSeenAt: at, own: [] };
      if (at < known.startedAt) known.startedAt = at;
      if (at > known.lastSeenAt) known.lastSeenAt = at;
      attempts.set(key, known);
      if (checkpoint === undefined || checkpoint.parentId !== undefined) continue;
      known.own.push(checkpoint);
      if (last === undefined || checkpoint.sequence > (last.own.at(-1)?.sequence ?? 0)) last = known;
    }
  }
  const steps = listSteps(turns, checkpoints);
  const sorted = [...attempts.values()].sort((a, b) => byStart(a, b) || a.attempt - b.attempt);
  return {
    steps: steps.sort((a, b) => byStart(a.step, b.step)),
    attempts: sorted.map(({ own, ...attempt }, index) => {
      const checkpoint = own.at(-1);
      const next = sorted[index + 1];
      const end = findEnd(checkpoint, checkpoints, next === undefined);
      const isWaiting = next?.generation === attempt.generation && endsInWait(attempt, steps);
      return { ...attempt, checkpoint, end: end === "interrupted" && isWaiting ? "waited" : end };
    }),
    checkpoints,
    keyMissing: undefined,
  };
}

type Turns = Awaited<ReturnType<typeof readTurns>>;

/** Returns the error if the configuration can't open the records. */
async function readTurnsOf(
  session: QuerySession,
  taskId: string,
  checkpoints: readonly CheckpointSummary[],
  afterSequence: number,
): Promise<Turns | Error> {
  if (!checkpoints.some(isOfRun)) return [];
  try {
    return await readTurns(await session.configured(), taskId, checkpoints, afterSequence, usageIn);
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return error;
  }
}

/** Returns the steps of all turns. Steps that a rewind carries over are recorded again, but listed once. */
function listSteps(turns: Turns, checkpoints: readonly CheckpointSummary[]): RunStep[] {
  const known = new Set<string>();
  return turns.flatMap(({ generation, turn, attempt, steps }) =>
    steps.flatMap(({ step, sequence, retriedAt }) => {
      const key = JSON.stringify([turn, step.name, step.occurrence, step.startedAt]);
      const checkpoint = checkpoints.find((other) => other.sequence > sequence) ?? checkpoints.at(-1);
      if (checkpoint === undefined || (step.runAttempt === 0 && known.has(key))) return [];
      known.add(key);
      return [
        { step, sequence, run: { generation, attempt, turn }, checkpoint, retriedAt, usage: usageIn(step.result) },
      ];
    }),
  );
}

function byStart(a: { readonly startedAt: string }, b: { readonly startedAt: string }): number {
  return Date.parse(a.startedAt) - Date.parse(b.startedAt);
}

/** A run attempt, filled in as its records are read. */
interface Attempt {
  readonly generation: string;
  readonly attempt: number;
  startedAt: string;
  lastSeenAt: string;
  /** The attempt's checkpoints, oldest first. */
  readonly own: CheckpointSummary[];
}

/** Whether the attempt was last seen during a wait that a later attempt ended. */
function endsInWait(
  attempt: Pick<Attempt, "generation" | "attempt" | "lastSeenAt">,
  steps: readonly RunStep[],
): boolean {
  return steps.some(
    ({ step, run }) =>
      step.waitsFor !== undefined &&
      run.generation === attempt.generation &&
      step.runAttempt > attempt.attempt &&
      step.startedAt <= attempt.lastSeenAt,
  );
}

function findEnd(
  checkpoint: CheckpointSummary | undefined,
  all: readonly CheckpointSummary[],
  isLast: boolean,
): RunAttempt["end"] {
  if (checkpoint === undefined) return "interrupted";
  if (checkpoint.status !== "running") return checkpoint.status;
  if (isLast) return "open";
  const next = all[all.indexOf(checkpoint) + 1];
  // A "paused" checkpoint is replaced by the next one. Only a transient checkpoint shows whether it replaced another.
  const isFirst = next !== undefined && isTransient(next) && replacedBy(next) === undefined;
  return isFirst ? "killed" : "interrupted";
}
