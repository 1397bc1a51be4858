// Compares the views of a task with each other and with the notes of the task's functions.
import type { CheckpointManager, CheckpointSummary, StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { stepTitle } from "../../src/contract/run-record.js";
import { readWaits } from "../../src/contract/transient.js";
import { readRun } from "../../src/runs/run-view.js";
import { readLastSteps, readTurns, type ViewedStep } from "../../src/runs/step-view.js";
import { collect } from "../support/collect.js";
import type { Seen } from "./seen.js";
import { isLine } from "./seen-lives.js";

/** A step or a wait for an event that has begun. */
export interface OpenCall {
  readonly title: string;
  readonly waitsFor: "event" | undefined;
}

/** A number of steps below the limit of the views. */
const FEW_STEPS = 15;

/** Returns descriptions of the violations. */
export async function viewViolations(
  manager: CheckpointManager,
  storage: StorageAdapter,
  task: string,
  seen: readonly Seen[],
): Promise<readonly string[]> {
  const newest = await manager.latest(task);
  const run = newest && (await readRun(manager, newest));
  if (newest === undefined || run === undefined) return [];
  const listed = await collect(storage.list({ taskId: task, order: "oldest" }));
  const checkpoints = listed.flatMap((one) => (isCorrupt(one) ? [] : one));
  const turns = await readTurns(manager, task, checkpoints, 0);
  const turn = turns.find((one) => one.generation === run.generation && one.turn === run.turn);
  const steps = turn?.steps ?? [];
  const violations: string[] = [];
  const inTurn = new Set(steps.map(({ step }) => describe(step)));
  const missing = run.steps.filter((step) => !inTurn.has(describe(step)));
  if (missing.length > 0) violations.push(`${task}: a turn lacks ${missing.map(describe)}`);
  if (steps.length < FEW_STEPS) {
    const last = await readLastSteps(storage, manager, newest);
    const expected = lastOf(steps, newest).map(({ step }) => describe(step));
    if (JSON.stringify(last.map(describe)) !== JSON.stringify(expected))
      violations.push(`${task}: its last steps are ${last.map(describe)}, and not ${expected}`);
  }
  const open = run.steps.filter(({ status }) => status === "started");
  if (newest.status === "completed" && open.length > 0) violations.push(`${task} is completed, and shows open steps`);
  const isPaused = newest.status === "paused" && steps.every(({ sequence }) => sequence < newest.sequence);
  const waits = isPaused ? (readWaits(newest)?.waitsFor ?? []) : [];
  if (waits.some((name) => !open.some((step) => step.name === name && step.waitsFor === "event")))
    violations.push(`${task} waits for ${waits}, and shows ${open.map(describe)}`);
  const lines = seen.filter(isLine).filter((line) => line.task === task && line.generation === run.generation);
  const began = lines.findLast((line) => line.is === "began");
  if (began?.is === "began" && JSON.stringify(began.input ?? null) !== JSON.stringify(run.input ?? null))
    violations.push(`${task} is shown with the input ${JSON.stringify(run.input)}`);
  // A fork or a rewind copies a step without the marks of its retries.
  const own = steps.filter(({ step }) => step.runAttempt !== 0);
  const unretried = own.filter(({ step: { attempts = 1 }, retriedAt = [] }) => retriedAt.length !== attempts - 1);
  if (unretried.length > 0) violations.push(`${task} lacks the retries of ${unretried.map(titleOf)}`);
  const threw = lines.findLast((line) => line.is === "threw" && line.life === began?.life);
  // Several waits may throw the error of one signal.
  const thrown = lines.flatMap((line) => (line.is === "got" && line.isError ? line.title : []));
  const failed = run.failedStep && stepTitle(run.failedStep.name, run.failedStep.occurrence);
  const hasFailed = newest.status === "failed" && newest.error?.code !== "RUN_CANCELLED";
  if (hasFailed && threw?.is === "threw" && threw.titles.length > 0 && (!failed || !thrown.includes(failed)))
    violations.push(`${task} is shown to have failed in ${failed}, and threw the errors of ${threw.titles}`);
  const ended = steps.findLast((one) => titleOf(one) === failed);
  const lengthOf = (step: Pick<ViewedStep["step"], "attempts" | "durationMs"> | undefined) =>
    `${step?.attempts ?? 1} attempts in ${step?.durationMs ?? 0} ms`;
  if (hasFailed && ended?.step.status === "failed" && lengthOf(run.failedStep) !== lengthOf(ended.step))
    violations.push(`${task} failed after ${lengthOf(run.failedStep)}, and the step shows ${lengthOf(ended.step)}`);
  if (newest.status !== "completed") return violations;
  if (began !== undefined && run.version !== began.code)
    violations.push(`${task} is shown with the version ${run.version}, not ${began.code}`);
  const results = new Map(run.steps.map(({ name, occurrence, result }) => [stepTitle(name, occurrence), result]));
  for (const line of lines) {
    if (line.is !== "got" || line.kind !== "step" || line.isError || line.value === "interrupted") continue;
    if (line.life !== began?.life || line.at !== began.at) continue;
    if (results.get(line.title) !== line.value)
      violations.push(`${task}: ${line.title} is shown with ${results.get(line.title)}, and returned ${line.value}`);
  }
  return violations;
}

/**
 * What is wrong with a step or a wait for an event that has lasted for a while: it must be shown. After seconds, a worker
 * must have suspended a run that only waits.
 *
 * @param isWorked - Whether a worker must have suspended the run.
 * @param since - What was noted since the call began.
 */
export async function openViolations(
  manager: CheckpointManager,
  task: string,
  { title, waitsFor }: OpenCall,
  isWorked: boolean,
  since: readonly Seen[],
): Promise<readonly string[]> {
  const hasEnded = since.some((line) => {
    if (!("task" in line) || line.task !== task) return false;
    if (line.is === "got" || line.is === "refused") return line.title === title;
    return ["threw", "returned", "next", "stopped", "ended"].includes(line.is);
  });
  const newest = hasEnded ? undefined : await manager.latest(task);
  const run = newest && (await readRun(manager, newest));
  if (newest === undefined || run === undefined) return [];
  const open = run.steps.filter(({ status }) => status === "started");
  const shown = open.some((step) => step.waitsFor === waitsFor && stepTitle(step.name, step.occurrence) === title);
  if (!shown) return [`${task} has begun ${title}, and shows ${open.map(describe)}`];
  const onlyWaits = open.every(({ waitsFor }) => waitsFor !== undefined);
  return isWorked && onlyWaits && newest.status !== "paused" ? [`${task} only waits, and wasn't suspended`] : [];
}

/** Returns the last step that has ended since a checkpoint and hasn't restarted, then the running steps. */
function lastOf(steps: readonly ViewedStep[], { sequence: since }: CheckpointSummary): readonly ViewedStep[] {
  const shown = steps.filter(({ step, sequence }) => sequence > since && step.status !== "saved");
  const started = shown.filter(({ step }) => step.status === "started");
  const hasStartedAgain = (one: ViewedStep) =>
    started.some((other) => titleOf(other) === titleOf(one) && other.sequence > one.sequence);
  const ended = shown.filter((one) => one.step.status !== "started" && !hasStartedAgain(one));
  return [...ended.sort((a, b) => a.sequence - b.sequence).slice(-1), ...started];
}

function titleOf({ step: { name, occurrence } }: ViewedStep): string {
  return stepTitle(name, occurrence);
}

/** Describes a step without its result and error, which some views don't show. */
function describe({ result: _result, error: _error, ...step }: ViewedStep["step"]): string {
  return JSON.stringify(step);
}

/** What is wrong with the events of a task that has saves, but no run. */
export async function plainViolations(manager: CheckpointManager, task: string): Promise<readonly string[]> {
  await manager.save(task, { at: 1 });
  await manager.send(task, "plain", "a value", { id: "plain-1" });
  const events = (await manager.events(task)).map(({ id, status }) => `${id} ${status}`);
  return events.join() === "plain-1 pending" ? [] : [`${task} has the events ${events}`];
}
