import { hasCheckpoint, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { UnsupportedOperationError } from "../contract/errors.js";
import type { LeaseStore } from "../contract/leases.js";
import type { DueCount, DueQuery, TaskQueue } from "../contract/task-queue.js";
import { findDueTime } from "../contract/transient.js";
import type { ResolvedOptions } from "./options.js";
import { resolvePrefix } from "./queries.js";

/**
 * The storage's queue. If the storage has none, it is made of its lists of tasks and of held leases.
 *
 * @throws {UnsupportedOperationError} The storage has no leases.
 */
export function queueOf(storage: StorageAdapter): TaskQueue {
  if (storage.queue !== undefined) return storage.queue;
  const leases = leasesOf(storage);
  return {
    async claimNext(query, holder, ttlMs) {
      for (const { taskId } of await dueTasks(storage, query)) {
        const { isGranted, token } = await leases.claim(taskId, holder, ttlMs);
        if (!isGranted) continue;
        // Claims one task: if a later claim failed, nobody would run or release the earlier ones.
        let isDue = false;
        try {
          isDue = await isStillDue(storage, taskId, query);
        } finally {
          if (!isDue) await leases.release(taskId, token);
        }
        if (isDue) return [{ taskId, token }];
      }
      return [];
    },
    async count(query) {
      const due = await dueTasks(storage, query);
      return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
    },
  };
}

/** How many tasks with the prefix are due now, and since when the first of them. */
export async function countDue(
  { storage, clock }: ResolvedOptions,
  query: { readonly prefix: string },
): Promise<DueCount> {
  const prefix = resolvePrefix("queue", query);
  return queueOf(storage).count({ prefix, dueBy: new Date(clock()).toISOString() });
}

/** Whether a claimed task is due. Another worker may have ended its run before the claim. */
async function isStillDue(storage: StorageAdapter, taskId: string, { dueBy }: DueQuery): Promise<boolean> {
  for await (const newest of storage.list({ taskId, order: "newest", limit: 1 })) {
    const dueAt = isCorrupt(newest) ? undefined : findDueTime(newest);
    return isCorrupt(newest) || (dueAt !== undefined && dueAt <= dueBy);
  }
  return false;
}

/** The tasks that are due and that nobody holds, the earliest first. */
async function dueTasks(
  storage: StorageAdapter,
  { prefix, dueBy, except = [] }: DueQuery,
): Promise<{ readonly taskId: string; readonly dueAt: string }[]> {
  const due: { taskId: string; dueAt: string }[] = [];
  for await (const task of storage.tasks({ prefix, status: ["running", "paused"], order: "taskId" })) {
    if (!hasCheckpoint(task) || except.includes(task.taskId)) continue;
    const dueAt = findDueTime(task.newest);
    if (dueAt !== undefined && dueAt <= dueBy) due.push({ taskId: task.taskId, dueAt });
  }
  if (due.length === 0 || storage.leases === undefined) return due;
  const held = new Set<string>();
  for await (const { taskId } of storage.leases.held()) held.add(taskId);
  return due.filter(({ taskId }) => !held.has(taskId)).sort((a, b) => (a.dueAt < b.dueAt ? -1 : 1));
}

/** @throws {UnsupportedOperationError} The storage has no leases. */
export function leasesOf({ leases, name }: StorageAdapter): LeaseStore {
  if (leases !== undefined) return leases;
  throw new UnsupportedOperationError(`The ${name} storage has no leases. Nothing was changed.`);
}
