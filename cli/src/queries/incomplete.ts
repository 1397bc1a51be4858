import type { CheckpointStatus } from "waymark";
import type { TaskStatus } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/thread-status.js";
import { lapsedText, type RunTask, runningText } from "../leases.js";
import type { QuerySession } from "../store.js";
import { isPutBack, standText, waitsText } from "../waits.js";
import { type ListedTask, listTasks, type TasksQuery } from "./tasks.js";

/** The statuses of a checkpoint that is not completed. */
export const INCOMPLETE: readonly CheckpointStatus[] = ["running", "paused", "failed"];

/** The statuses of tasks that can continue. */
export const TASKS_THAT_CONTINUE: readonly TaskStatus[] = [
  ...(["queued", "scheduled", "running", "waiting", "interrupted", "paused", "failed"] as const),
];

/** A task that isn't completed, with the reason. */
export type IncompleteTask = ListedTask & { readonly why: string };

/** Yields the incomplete tasks that can continue by themselves, the most recent first. */
export async function* listIncomplete(
  session: QuerySession,
  query: Pick<TasksQuery, "prefix" | "limit">,
): AsyncGenerator<IncompleteTask, void, void> {
  const nowMs = Date.now();
  for await (const task of listTasks(session, {
    ...query,
    order: "recent",
    status: TASKS_THAT_CONTINUE,
    canContinue: true,
  })) {
    yield { ...task, why: whyIncomplete(task, nowMs) };
  }
}

/** Tells people why a task isn't completed. */
export function whyIncomplete(task: ListedTask, nowMs: number): string {
  return "newest" in task ? whyStopped(task, nowMs) : `${runningText(task.lease)}, no checkpoint yet`;
}

function whyStopped({ newest, thread, lease, lapsed, waits }: RunTask, nowMs: number): string {
  const { status, error } = newest;
  if (lease !== undefined) return `${waits === undefined ? "" : `${waitsText(waits, nowMs)}, `}${runningText(lease)}`;
  const stands = lapsed === undefined ? standText(newest, nowMs, waits) : undefined;
  if (stands !== undefined) return stands;
  // A task that was put back keeps its error, which says nothing about the next attempt.
  if (error !== undefined && !isPutBack(newest)) return error.message;
  const questions = questionsText(thread?.interrupts);
  if (questions !== undefined) return `asks ${questions}`;
  if (thread !== undefined && thread.interrupts === undefined) return "its question can't be read";
  if (lapsed !== undefined) {
    return `${waits?.waitsFor.length ? `${waitsText(waits, nowMs)}; ` : ""}${lapsedText(lapsed, nowMs)}`;
  }
  if (status === "running") return "no runner known";
  return status === "paused" ? "paused" : "failed, without an error";
}
