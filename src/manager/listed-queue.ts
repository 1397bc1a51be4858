import { isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { dueAtOf } from "../contract/passing.js";
import type { DueQuery, TaskQueue } from "../contract/task-queue.js";

/** The storage's queue. If the storage has none, it is made of its lists of tasks and of held leases. */
export function queueOf(storage: StorageAdapter): TaskQueue {
  const { leases, queue } = storage;
  if (queue !== undefined || leases === undefined) return queue ?? EMPTY;
  return {
    async claimNext(query, holder, ttlMs) {
      for (const { taskId } of await dueTasks(storage, query)) {
        const { isGranted, token } = await leases.claim(taskId, holder, ttlMs);
        if (isGranted) return { taskId, token };
      }
      return undefined;
    },
    async count(query) {
      const due = await dueTasks(storage, query);
      return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
    },
  };
}

const EMPTY: TaskQueue = {
  claimNext: async () => undefined,
  count: async () => ({ tasks: 0, oldestDueAt: undefined }),
};

/** The tasks that are due and that nobody holds, the earliest first. */
async function dueTasks(
  storage: StorageAdapter,
  { prefix, dueBy }: DueQuery,
): Promise<{ readonly taskId: string; readonly dueAt: string }[]> {
  const due: { taskId: string; dueAt: string }[] = [];
  for await (const task of storage.tasks({ prefix, status: ["running", "paused"], order: "taskId" })) {
    const dueAt = isCorrupt(task) ? undefined : dueAtOf(task.newest);
    if (!isCorrupt(task) && dueAt !== undefined && dueAt <= dueBy) due.push({ taskId: task.taskId, dueAt });
  }
  if (due.length === 0 || storage.leases === undefined) return due;
  const held = new Set<string>();
  for await (const { taskId } of storage.leases.held()) held.add(taskId);
  return due.filter(({ taskId }) => !held.has(taskId)).sort((a, b) => (a.dueAt < b.dueAt ? -1 : 1));
}
