import { CheckpointNotFoundError, type CheckpointSummary } from "waymark";
import { isTransient, replacedBy } from "waymark/adapter";
import { isOfRun, type RunRecord, readRun, type StepRecord } from "waymark/kit";
import { requireTask } from "../checkpoints.js";
import { DamagedCheckpointError } from "../damage.js";
import { takeFirst } from "../first-of.js";
import { isKeyMissing } from "../key-advice.js";
import { readableSummaries } from "../read-stored.js";
import { allSteps, stepName } from "../run-steps.js";
import type { QuerySession } from "../store.js";

/** A step of a task's runs, as `waymark list --timeline` shows it. */
export interface TimedStep {
  readonly turn: number;
  readonly startedAt: string;
  /** `undefined` if the step isn't finished. */
  readonly durationMs: number | undefined;
  /** The step's name, attempts and duration, for people. */
  readonly step: string;
}

/** A step with the newest record of it. */
export interface RunStep {
  readonly step: StepRecord;
  readonly run: Pick<RunRecord, "generation" | "attempt" | "turn">;
  readonly checkpoint: CheckpointSummary;
}

/** A start or a resume of a task's run. */
export interface RunAttempt {
  readonly generation: string;
  readonly attempt: number;
  /** When its first step or save began. */
  readonly startedAt: string;
  /** When it was last seen: its last save, or the end of its last step. */
  readonly lastSeenAt: string;
  /**
   * `killed`: it ended without saying so. `interrupted`: killed or paused; the next attempt's first save took the place
   * of the checkpoint that said which. `waited`: it stopped while it waited, and the next attempt ended the wait. `open`: the last attempt, whose checkpoint says that it runs.
   */
  readonly end: "completed" | "failed" | "paused" | "killed" | "interrupted" | "waited" | "open";
  /** Its newest checkpoint, if there is one left. */
  readonly checkpoint: CheckpointSummary | undefined;
}

/** All that a task's checkpoints tell about its runs. */
export interface Timeline {
  /** By start. */
  readonly steps: readonly RunStep[];
  /** Oldest first. */
  readonly attempts: readonly RunAttempt[];
  /** Oldest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  /** Why some steps are missing: the configuration can't open the states. */
  readonly keyMissing: Error | undefined;
}

/** Returns all steps in a task's checkpoints, ordered by when they began. */
export async function readTimeline(
  session: QuerySession,
  { task }: { readonly task: string },
): Promise<readonly TimedStep[]> {
  const { steps } = await buildTimeline(session, await requireTask(session, task));
  return steps.map(({ step, run: { turn } }) => {
    const { startedAt, durationMs } = step;
    return { turn, startedAt, durationMs, step: stepName(step) };
  });
}

/**
 * Reads the runs of a task. Damaged checkpoints are reported, and left out.
 *
 * @param newest - Reads only this many newest checkpoints. Default: all.
 */
export async function buildTimeline(session: QuerySession, taskId: string, newest?: number): Promise<Timeline> {
  const found = await takeFirst(readableSummaries(session, { taskId, order: "newest", limit: newest }));
  const checkpoints = found.reverse();
  const steps = new Map<string, RunStep>();
  const attempts = new Map<string, Attempt>();
  let keyMissing: Error | undefined;
  let last: Attempt | undefined;
  for (const checkpoint of checkpoints) {
    const read = await runIn(session, checkpoint);
    if (read instanceof Error) keyMissing ??= read;
    if (read === undefined || read instanceof Error) continue;
    const { generation, attempt, turn } = read;
    const seenIn = (number: number, at: string) => {
      const key = JSON.stringify([generation, number]);
      const known = attempts.get(key) ?? { generation, attempt: number, startedAt: at, lastSeenAt: at, own: [] };
      if (at < known.startedAt) known.startedAt = at;
      if (at > known.lastSeenAt) known.lastSeenAt = at;
      attempts.set(key, known);
      return known;
    };
    for (const step of allSteps(read)) {
      // Later checkpoints of a turn contain its earlier steps again.
      const { name, occurrence, startedAt, durationMs, runAttempt } = step;
      const key = JSON.stringify([generation, turn, name, occurrence, startedAt]);
      const known = steps.get(key);
      // A rewind repeats the record of an older attempt.
      if (known === undefined || known.run.attempt <= attempt) {
        steps.set(key, { step, run: { generation, attempt, turn }, checkpoint });
      }
      seenIn(runAttempt, startedAt);
      seenIn(runAttempt, later(startedAt, durationMs));
    }
    if (checkpoint.parentId !== undefined) continue;
    last = seenIn(attempt, checkpoint.createdAt);
    last.own.push(checkpoint);
  }
  const waited = waitsBetween([...attempts.values()], [...steps.values()]);
  const byStart = (a: { readonly startedAt: string }, b: { readonly startedAt: string }) =>
    Date.parse(a.startedAt) - Date.parse(b.startedAt);
  return {
    steps: [...steps.values()].sort((a, b) => byStart(a.step, b.step)),
    attempts: [...attempts.values()]
      .sort((a, b) => byStart(a, b) || a.attempt - b.attempt)
      .map((attempt) => {
        const { own, ...rest } = attempt;
        const checkpoint = own.at(-1);
        const end = findEnd(checkpoint, checkpoints, attempt === last);
        return { ...rest, checkpoint, end: end === "interrupted" && waited.has(attempt) ? "waited" : end };
      }),
    checkpoints,
    keyMissing,
  };
}

/** A run attempt, filled in as its checkpoints are read. */
interface Attempt {
  readonly generation: string;
  readonly attempt: number;
  startedAt: string;
  lastSeenAt: string;
  /** Its checkpoints, oldest first. */
  readonly own: CheckpointSummary[];
}

/** If an attempt begins this soon after a wait's end, it is the one that ended the wait. */
const SAME_MOMENT_MS = 1000;

/**
 * Finds the attempts that stopped while they waited, and moves their ends to the start of the wait: its record counts
 * as the first attempt's until its end, which came with the next attempt.
 */
function waitsBetween(attempts: readonly Attempt[], steps: readonly RunStep[]): ReadonlySet<Attempt> {
  const waited = new Set<Attempt>();
  for (const its of attempts) {
    const next = attempts.find(
      ({ generation, startedAt }) => generation === its.generation && startedAt >= its.lastSeenAt,
    );
    const wait = steps.find(
      ({ step, run }) =>
        step.waitsFor !== undefined &&
        run.generation === its.generation &&
        step.runAttempt === its.attempt &&
        later(step.startedAt, step.durationMs) === its.lastSeenAt,
    );
    if (next === undefined || next === its || wait === undefined) continue;
    if (Date.parse(next.startedAt) - Date.parse(its.lastSeenAt) > SAME_MOMENT_MS) continue;
    its.lastSeenAt = wait.step.startedAt;
    waited.add(its);
  }
  return waited;
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
  // A checkpoint that said "paused" is replaced by the next one. Only a transient one tells that it replaced none.
  const isFirst = next !== undefined && isTransient(next) && replacedBy(next) === undefined;
  return isFirst ? "killed" : "interrupted";
}

/** The record of a checkpoint's run. An error if the configuration can't open it. */
async function runIn(session: QuerySession, checkpoint: CheckpointSummary): Promise<RunRecord | Error | undefined> {
  if (!isOfRun(checkpoint)) return undefined;
  try {
    return await readRun(await session.configured(), checkpoint);
  } catch (error) {
    if (isKeyMissing(error)) return error;
    // The run has replaced it meanwhile.
    if (error instanceof CheckpointNotFoundError) return undefined;
    if (!(error instanceof DamagedCheckpointError)) throw error;
    await session.damage.add(error.record);
    return undefined;
  }
}

function later(isoDate: string, ms = 0): string {
  const at = Date.parse(isoDate);
  return Number.isNaN(at) ? isoDate : new Date(at + ms).toISOString();
}
