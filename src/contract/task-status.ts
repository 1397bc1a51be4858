import type { StoredTask } from "./adapter.js";
import type { CheckpointStatus, CheckpointSummary, TaskStatus } from "./checkpoint.js";
import { readRunNote } from "./run-note.js";
import { parseRunKey } from "./run-record.js";
import { isCancelled, readWaits } from "./transient.js";

/** For each status of a task, the statuses that its newest checkpoint may have. */
const OF_NEWEST: Readonly<Record<TaskStatus, readonly CheckpointStatus[]>> = {
  queued: ["running", "paused"],
  scheduled: ["paused"],
  running: ["running", "paused", "failed"],
  waiting: ["paused"],
  interrupted: ["running", "paused"],
  paused: ["paused"],
  completed: ["completed"],
  failed: ["failed"],
  cancelled: ["failed"],
};

/** @throws {TypeError} The value isn't a task's status. */
export function checkTaskStatus(status: TaskStatus): void {
  if (Object.hasOwn(OF_NEWEST, status)) return;
  const known = Object.keys(OF_NEWEST).join(", ");
  throw new TypeError(`A task's status must be one of ${known}, not ${JSON.stringify(status)}.`);
}

/** Lists the statuses that the newest checkpoints of tasks with these statuses may have. */
export function listCheckpointStatuses(statuses: readonly TaskStatus[]): readonly CheckpointStatus[] {
  return [...new Set(statuses.flatMap((status) => OF_NEWEST[status]))];
}

/** What a task's status depends on: its newest checkpoint, its last record, and when a worker may continue it. */
export type TaskFacts = Pick<StoredTask, "last" | "dueAt"> & {
  readonly newest: Pick<CheckpointSummary, "status" | "createdAt" | "metadata" | "error" | "dueAt">;
};

/**
 * Finds a task's status at `nowMs`.
 *
 * @param isHeld - Whether a live process holds the task's lease.
 */
export function findTaskStatus(task: TaskFacts, isHeld: boolean, nowMs: number): TaskStatus {
  const { newest, last } = task;
  if (newest.status === "completed") return "completed";
  if (isCancelled(newest)) return "cancelled";
  if (isHeld) return "running";
  if (newest.status === "failed") return "failed";
  const note = readRunNote(newest);
  const isUnderWay = last?.kind === "mark" || last?.kind === "step" || last?.kind === "chunk";
  // The first attempt of an enqueued run stores only records until it ends or pauses.
  const attempt = Math.max(note?.attempt ?? 0, (last && parseRunKey(last)?.attempt) ?? 0);
  if (note !== undefined && attempt > 0 && isUnderWay) return "interrupted";
  // At attempt 0, no process has begun the new run, fork or rewind yet.
  if (newest.status === "running" && note?.attempt !== 0) return "interrupted";
  return note === undefined ? "paused" : findPausedStatus(task, note.attempt, nowMs);
}

/** Finds the status of a run that isn't under way. */
function findPausedStatus(
  { newest, last, dueAt = newest.dueAt }: TaskFacts,
  attempt: number,
  nowMs: number,
): TaskStatus {
  const waits = readWaits(newest);
  if (last?.kind === "event" && waits?.waitsFor.includes(last.name ?? "")) return "queued";
  // A child run has no time at which a worker continues it.
  const until = dueAt ?? waits?.dueAt;
  if (until !== undefined && Date.parse(until) > nowMs) return attempt === 0 ? "scheduled" : "waiting";
  // A run that a signal has paused is due at once, even if it waits. A run that was put back is also due at once,
  // but it has an error.
  const isPaused = attempt > 0 && newest.error === undefined && (newest.dueAt ?? "") <= newest.createdAt;
  return isPaused ? "paused" : "queued";
}
