import { isTransient } from "waymark/adapter";
import {
  type HeldLease,
  isCancelled,
  isOfRun,
  parseHolder,
  readOrigin,
  readParent,
  type StepRecord,
  stepText,
} from "waymark/kit";
import { damageText } from "../damage.js";
import { describeTask } from "../langgraph/find-tasks.js";
import { type DescribedCheckpoint, shownStatus } from "../langgraph/thread-state.js";
import { holderText, type LapsedLease, type RunTask } from "../leases.js";
import { jsonText } from "../printable.js";
import { whyIncomplete } from "../queries/incomplete.js";
import type { ListedTask } from "../queries/tasks.js";
import { findCurrentStep } from "../run-steps.js";
import type { CheckpointRow, DamageInfo, RunnerInfo } from "./api-parts.js";
import type { TaskRow } from "./api-tasks.js";
import { shortenError } from "./task-filter.js";

/** @param damage - Unreadable records that are newer than the task's newest checkpoint. */
export function taskRow(task: ListedTask, nowMs: number, damage: readonly DamageInfo[]): TaskRow {
  const { taskId, count } = task;
  const name = describeTask(task);
  if (!("newest" in task)) {
    const runner = heldBy(task.lease, nowMs);
    return { taskId, name, isThread: name !== taskId, status: "running", count, runner, asks: [], damage };
  }
  const { newest, thread, steps, lastAt, status } = task;
  const runner = describeRunner(task, nowMs);
  const { id, sequence, createdAt, stage, label, sizeBytes, error } = newest;
  const incomplete = newest.status === "completed" ? undefined : whyIncomplete(task, nowMs);
  const why = [damageText(damage), incomplete].filter((text) => text !== undefined);
  return {
    taskId,
    name,
    isThread: thread !== undefined,
    status,
    count,
    newest: { id, sequence, createdAt, sizeBytes, ...pickDefined({ stage, label }) },
    ...pickDefined({ step: summarizeSteps(steps), lastAt, parent: readParent(newest) }),
    ...(why.length > 0 && { why: shortenError(why.join("; ")) }),
    ...(error && { error: shortenError(error.message) }),
    ...(runner && { runner }),
    asks: (thread?.interrupts ?? []).map((question) => jsonText(question)),
    damage,
  };
}

function summarizeSteps(steps: readonly StepRecord[] | undefined): TaskRow["step"] {
  const current = findCurrentStep(steps);
  if (current === undefined) return undefined;
  const { startedAt, status } = current.step;
  return { text: `${stepText(current.step)}${current.more}`, ...(status === "started" && { startedAt }) };
}

/** Returns the process that runs a task now or, if there is none, the last one if it didn't release its lease. */
export function describeRunner(
  { lease, lapsed }: Pick<RunTask, "lease" | "lapsed">,
  nowMs: number,
): RunnerInfo | undefined {
  if (lease !== undefined) return heldBy(lease, nowMs);
  return lapsed && ranBy(lapsed, nowMs);
}

function heldBy(lease: HeldLease, nowMs: number): RunnerInfo {
  return { state: "held", ...describeHolder(lease), at: timeAt(nowMs + lease.remainingMs) };
}

function ranBy(lapsed: LapsedLease, nowMs: number): RunnerInfo {
  const at = timeAt(nowMs - lapsed.endedMs);
  return { state: lapsed.hasDied ? "died" : "expired", ...describeHolder(lapsed), at };
}

function describeHolder({ holder, token }: Pick<HeldLease, "holder" | "token">) {
  return { holder: holderText(holder), token, ...parseHolder(holder) };
}

export function timeAt(ms: number): string {
  return new Date(Math.round(ms)).toISOString();
}

export function checkpointRow({ checkpoint, interrupts }: DescribedCheckpoint): CheckpointRow {
  const { id, sequence, createdAt, stage, label, parentId, sizeBytes, stateVersion, error } = checkpoint;
  return {
    id,
    sequence,
    createdAt,
    status: shownStatus(checkpoint, interrupts),
    ...pickDefined({ stage, label, parentId, forkedFrom: readOrigin(checkpoint) }),
    sizeBytes,
    stateVersion,
    kind: isTransient(checkpoint) ? "transient" : "milestone",
    isOfRun: isOfRun(checkpoint),
    ...(isCancelled(checkpoint) && { isCancelled: true as const }),
    ...(error && { error: shortenError(error.message) }),
  };
}

export function damageInfo({ location, reason, taskId, id, sequence }: DamageInfo): DamageInfo {
  return { location, reason, ...pickDefined({ taskId, id, sequence }) };
}

/** Returns the fields that have a value. */
export function pickDefined<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]?: NonNullable<Fields[Key]> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  // Only fields without a value were left out, as the type says.
  return Object.fromEntries(entries) as { [Key in keyof Fields]?: NonNullable<Fields[Key]> };
}
