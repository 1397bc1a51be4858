import type { CheckpointSummary, RunRecord, StepRecord } from "waymark";
import { isCorrupt, isOfRun, stepText } from "waymark/adapter";
import type { Session } from "./cli.js";
import { isKeyMissing } from "./key-advice.js";
import { readCheckpoint } from "./read-stored.js";

const BAR_WIDTH = 30;

/** The record of the run that has saved a checkpoint. `undefined`: no run, or the configuration doesn't open it. */
export async function readRun(session: Session, checkpoint: CheckpointSummary): Promise<RunRecord | undefined> {
  if (!isOfRun(checkpoint)) return undefined;
  try {
    return (await readCheckpoint(session, checkpoint)).run;
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return undefined;
  }
}

/** `attempt 2, pass 3, version 1` */
export function runText({ attempt, pass, version }: RunRecord): string {
  return `attempt ${attempt}, pass ${pass}${version === undefined ? "" : `, version ${version}`}`;
}

/** `model 2 · 3.1 s · from storage`: an earlier attempt recorded it. */
export function stepLine(step: StepRecord, { attempt }: RunRecord): string {
  const isKept = step.runAttempt < attempt && step.status !== "saved";
  return `${shownStep(step)}${isKept ? " · from storage" : ""}`;
}

function shownStep(step: StepRecord): string {
  if (step.status === "saved") return `saved${step.name === "" ? "" : ` ${step.name}`}`;
  return `${stepText(step)}${step.status === "started" ? " · started" : ""}`;
}

/** A step of a task's runs, in the time of all of them. */
export interface TimedStep {
  readonly pass: number;
  readonly startedAt: string;
  readonly step: string;
  /** Where it stands between the first step's beginning and the last one's end. */
  readonly bar: string;
}

/** All steps that a task's checkpoints know of, in the order of their beginnings, with bars on one scale. */
export async function timelineOf(session: Session, taskId: string): Promise<readonly TimedStep[]> {
  const found = new Map<string, { readonly step: StepRecord; readonly run: RunRecord }>();
  for await (const checkpoint of session.storage.list({ taskId, order: "oldest" })) {
    if (isCorrupt(checkpoint)) {
      await session.damage.add(checkpoint);
      continue;
    }
    const run = await readRun(session, checkpoint);
    for (const step of run?.steps ?? []) {
      // Later checkpoints of a pass repeat its steps.
      if (run)
        found.set(JSON.stringify([run.generation, run.pass, step.name, step.occurrence, step.startedAt]), {
          step,
          run,
        });
    }
  }
  const steps = [...found.values()].sort((a, b) => startOf(a.step) - startOf(b.step));
  const from = Math.min(...steps.map(({ step }) => startOf(step)));
  const to = Math.max(...steps.map(({ step }) => endOf(step)));
  return steps.map(({ step, run }) => ({
    pass: run.pass,
    startedAt: step.startedAt,
    step: shownStep(step),
    bar: barOf((startOf(step) - from) / (to - from || 1), (endOf(step) - from) / (to - from || 1)),
  }));
}

function startOf({ startedAt }: StepRecord): number {
  return Date.parse(startedAt);
}

function endOf(step: StepRecord): number {
  return startOf(step) + (step.durationMs ?? 0);
}

function barOf(from: number, to: number): string {
  const start = Math.min(Math.floor(from * BAR_WIDTH), BAR_WIDTH - 1);
  const length = Math.max(1, Math.round(to * BAR_WIDTH) - start);
  return `${"·".repeat(start)}${"━".repeat(length)}${"·".repeat(BAR_WIDTH - start - length)}`;
}
