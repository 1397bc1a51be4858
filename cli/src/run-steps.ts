import type { CheckpointSummary } from "waymark";
import {
  isOfRun,
  type RunRecord,
  readLastSteps,
  readRun as readRecordedRun,
  type StepRecord,
  stepText,
} from "waymark/kit";
import { isKeyMissing } from "./key-advice.js";
import type { QuerySession } from "./store.js";
import { agoText } from "./words.js";

/**
 * Returns the record of the run that saved a checkpoint; `undefined` if there was no run, or the configuration can't
 * open the record.
 */
export async function readRun(session: QuerySession, checkpoint: CheckpointSummary): Promise<RunRecord | undefined> {
  if (!isOfRun(checkpoint)) return undefined;
  try {
    return await readRecordedRun(await session.configured(), checkpoint);
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return undefined;
  }
}

/** Returns the last step that ended since a checkpoint, then the steps that haven't ended. */
export async function lastSteps(session: QuerySession, checkpoint: CheckpointSummary): Promise<readonly StepRecord[]> {
  if (!isOfRun(checkpoint)) return [];
  try {
    return await readLastSteps(session.storage, await session.configured(), checkpoint);
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return [];
  }
}

/**
 * Finds the step that is running or, if there is none, the step that ended last. `undefined` if nothing is recorded.
 *
 * @returns `more` is `, and 2 more` if other steps run at the same time, else empty.
 */
export function findCurrentStep(
  steps: readonly StepRecord[] = [],
): { readonly step: StepRecord; readonly more: string } | undefined {
  const running = steps.filter(({ status, waitsFor }) => status === "started" && waitsFor === undefined);
  const step = running.at(-1) ?? steps.find(({ status }) => status !== "started");
  return step && { step, more: running.length > 1 ? `, and ${running.length - 1} more` : "" };
}

/** `model · started 3 minutes ago` for a running step, or `plan · 12 ms`. See {@link findCurrentStep}. */
export function whereText(steps?: readonly StepRecord[]): string | undefined {
  const current = findCurrentStep(steps);
  return current && `${stepName(current.step)}${current.more}`;
}

/** Returns the steps of a turn, and last the failed step that ended the run. The checkpoint has that step's error. */
export function allSteps({ steps, failedStep }: RunRecord): readonly StepRecord[] {
  return failedStep === undefined ? steps : [...steps, { ...failedStep, status: "failed" }];
}

/** `attempt 2, turn 3, version 1` */
export function runText({ attempt, turn, version }: RunRecord): string {
  return `attempt ${attempt}, turn ${turn}${version === undefined ? "" : `, version ${version}`}`;
}

/** `model 2 · 3.1 s · from storage` */
export function stepLine(step: StepRecord, run: Pick<RunRecord, "attempt">): string {
  return `${stepName(step)}${isFromStorage(step, run) ? " · from storage" : ""}`;
}

/** Whether an earlier attempt recorded the end of the step or wait, so that this attempt reused it. */
export function isFromStorage({ status, runAttempt }: StepRecord, { attempt }: Pick<RunRecord, "attempt">): boolean {
  return runAttempt < attempt && (status === "completed" || status === "failed");
}

/** `model 2 · 3.1 s`, `model 2 · started 3 minutes ago` */
export function stepName(step: StepRecord): string {
  if (step.status === "saved") return `saved${step.name === "" ? "" : ` ${step.name}`}`;
  // The text of a wait already shows that it hasn't ended.
  const isStarted = step.status === "started" && step.waitsFor === undefined;
  const age = isStarted ? ` · started ${agoText(step.startedAt, Date.now())}` : "";
  return `${stepText(step)}${age}${hasTimedOut(step) ? " · timed out" : ""}`;
}

/** `model 2` */
export function stepTitle({ name, occurrence }: Pick<StepRecord, "name" | "occurrence">): string {
  return stepText({ name, occurrence, status: "completed" });
}

/** Whether a wait for an event ended without one. */
export function hasTimedOut({ waitsFor, status, event }: StepRecord): boolean {
  return waitsFor === "event" && status === "completed" && event === undefined;
}
