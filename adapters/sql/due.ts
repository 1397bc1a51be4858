import { CHECKPOINT_STATUSES, type CheckpointSummary } from "../../src/contract/checkpoint.js";
import { isJsonObject } from "../../src/contract/parse-summary.js";
import type { DueCount } from "../../src/contract/task-queue.js";
import { dueAtOf } from "../../src/contract/transient.js";
import { parsedJson, type SqlRow } from "./rows.js";

export const NOTHING_DUE: DueCount = { tasks: 0, oldestDueAt: undefined };

/**
 * The value of a task's column `due_at`: `dueAtOf` of its newest checkpoint. But a running task keeps an earlier time.
 * So it keeps its place among the due tasks, and its many saves don't change an index.
 *
 * @param current - The value now.
 */
export function nextDueAt(
  newest: Pick<CheckpointSummary, "status" | "createdAt" | "metadata">,
  current: unknown,
): string | null {
  const dueAt = dueAtOf(newest) ?? null;
  const isKept = newest.status === "running" && dueAt !== null && typeof current === "string" && current <= dueAt;
  return isKept ? current : dueAt;
}

/**
 * Like {@link nextDueAt}, by the columns `created_at`, `status` and `metadata` of the newest checkpoint. `null` if there
 * is none, or if they are damaged.
 */
export function nextDueAtIn([createdAt, status, metadata]: SqlRow, current: unknown): string | null {
  const known = CHECKPOINT_STATUSES.find((one) => one === status);
  if (known === undefined || typeof createdAt !== "string") return null;
  const parsed = parsedJson(metadata);
  return nextDueAt({ createdAt, status: known, ...(isJsonObject(parsed) && { metadata: parsed }) }, current);
}
