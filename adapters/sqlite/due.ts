import { askOnce, holderHasEnded } from "../../src/contract/holder.js";
import { judgeLease, nextLease } from "../../src/contract/leases.js";
import { monotonicMs } from "../../src/contract/runtime.js";
import type { ClaimedTask, DueCount, DueQuery } from "../../src/contract/task-queue.js";
import { HIGHEST, numberOr0 } from "../sql/rows.js";
import type { SqliteConnection } from "./connection.js";
import { leaseIn, storeLease, toLease } from "./leases.js";

/** Finds the tasks whose leases weren't released. They are few: running tasks, and tasks whose runner has died. */
const UNRELEASED = `
  SELECT l.task_id, t.due_at, l.holder, l.token, l.renewed_at_ms, l.expires_at_ms
  FROM waymark_leases l INDEXED BY waymark_leases_unreleased CROSS JOIN waymark_tasks t ON t.task_id = l.task_id
  WHERE l.expires_at_ms <> l.renewed_at_ms AND l.task_id >= ? AND l.task_id < ? AND t.due_at IS NOT NULL`;
const DUE_AT = "SELECT due_at FROM waymark_tasks WHERE task_id = ?";
/** Finds all other tasks that are due. */
const DUE = `
  FROM waymark_tasks t INDEXED BY waymark_tasks_due WHERE t.due_at <= ? AND t.task_id >= ? AND t.task_id < ?
  AND t.task_id NOT IN (SELECT value FROM json_each(?)) AND NOT EXISTS (
    SELECT 1 FROM waymark_leases l WHERE l.task_id = t.task_id AND l.expires_at_ms <> l.renewed_at_ms)`;
const NEXT_DUE = `SELECT t.task_id ${DUE} ORDER BY t.due_at LIMIT ?`;
const COUNT_DUE = `SELECT count(*), min(t.due_at) ${DUE}`;

/** Returns the next tasks that are due. Tasks whose runner has died come first. */
export function nextDue(database: SqliteConnection, query: DueQuery, limit: number): readonly string[] {
  const lapsed = lapsedTasks(database, query).toSorted((a, b) => (a.dueAt < b.dueAt ? -1 : 1));
  const others = lapsed.length < limit ? database.all(NEXT_DUE, ...toParameters(query), limit - lapsed.length) : [];
  return [...lapsed.slice(0, limit).map(({ taskId }) => taskId), ...others.map(([taskId]) => String(taskId))];
}

/**
 * Claims tasks in one transaction. If none of the found tasks is due any more, claims the next due ones.
 *
 * @param found - The tasks that {@link nextDue} returned. They are found before the transaction, because it makes other
 *   processes wait.
 */
export function claimDue(
  database: SqliteConnection,
  found: readonly string[],
  query: DueQuery,
  holder: string,
  ttlMs: number,
): readonly ClaimedTask[] {
  return database.atomically(() => {
    const claim = (taskId: string) => {
      // A task whose lease was released between the two reads of `nextDue` is in the list twice.
      if (!isDue(database, taskId, query)) return [];
      const lease = nextLease(leaseIn(database, taskId), holder, ttlMs);
      storeLease(database, taskId, lease);
      return { taskId, token: lease.token };
    };
    const claimed = found.flatMap(claim);
    return claimed.length > 0 ? claimed : nextDue(database, query, found.length).flatMap(claim);
  });
}

export function countDue(database: SqliteConnection, query: DueQuery): DueCount {
  const lapsed = lapsedTasks(database, query);
  const [tasks, oldest] = database.one(COUNT_DUE, ...toParameters(query)) ?? [];
  const times = [...lapsed.map(({ dueAt }) => dueAt), ...(typeof oldest === "string" ? [oldest] : [])];
  return { tasks: lapsed.length + numberOr0(tasks), oldestDueAt: times.toSorted()[0] };
}

function isDue(database: SqliteConnection, taskId: string, { dueBy }: DueQuery): boolean {
  const [dueAt] = database.one(DUE_AT, taskId) ?? [];
  if (typeof dueAt !== "string") return false;
  const leaseStatus = judgeLease(leaseIn(database, taskId), holderHasEnded);
  return leaseStatus === "unreleased" || (leaseStatus === "free" && dueAt <= dueBy);
}

/** Returns the tasks whose last lease expired without a release. They are due regardless of their time. */
function lapsedTasks(
  database: SqliteConnection,
  { prefix, except }: DueQuery,
): readonly { readonly taskId: string; readonly dueAt: string }[] {
  const nowMs = monotonicMs();
  const hasEnded = askOnce(holderHasEnded);
  const excepted = new Set(except);
  return database
    .all(UNRELEASED, prefix, prefix + HIGHEST)
    .filter(([, , ...lease]) => judgeLease({ lease: toLease(lease), nowMs }, hasEnded) === "unreleased")
    .map(([taskId, dueAt]) => ({ taskId: String(taskId), dueAt: String(dueAt) }))
    .filter(({ taskId }) => !excepted.has(taskId));
}

function toParameters({ prefix, dueBy, except = [] }: DueQuery): readonly unknown[] {
  return [dueBy, prefix, prefix + HIGHEST, JSON.stringify(except)];
}
