import { isCancelled } from "waymark/kit";
import { describedTasks } from "../langgraph/find-tasks.js";
import type { FailuresAnswer, FailuresRequest } from "./api-choices.js";
import { givingWay } from "./giving-way.js";
import type { PageSession } from "./page-session.js";
import { timeAt } from "./rows.js";
import { contentFilter, maskNumbers, shortenError } from "./task-filter.js";

const MOST_GROUPS = 20;

/** Groups the failed tasks by message, with numbers masked: the largest group first. */
export async function answerFailures(session: PageSession, request: FailuresRequest): Promise<FailuresAnswer> {
  const nowMs = Date.now();
  const isWanted = contentFilter(request, nowMs);
  const since = request.withinMs === undefined ? "" : timeAt(nowMs - request.withinMs);
  const counts = new Map<string, number>();
  let total = 0;
  const now = { status: ["failed"] as const, readHeld: async () => new Set<string>() };
  for await (const task of givingWay(describedTasks(session, { order: "recent", prefix: request.prefix, now }))) {
    const { newest } = task;
    // All other tasks were saved even earlier.
    if (newest.createdAt < since) break;
    if (isCancelled(newest) || isWanted?.(task) === false) continue;
    total += 1;
    const error = maskNumbers(shortenError(newest.error?.message ?? ""));
    counts.set(error, (counts.get(error) ?? 0) + 1);
  }
  const groups = Array.from(counts, ([error, tasks]) => ({ error, tasks })).sort((a, b) => b.tasks - a.tasks);
  return { groups: groups.slice(0, MOST_GROUPS), tasks: total };
}
