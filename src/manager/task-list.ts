import {
  compareTasks,
  hasCheckpoint,
  type StorageAdapter,
  type StoredTask,
  type TaskQuery,
} from "../contract/adapter.js";
import { type CheckpointSummary, compareTaskIds, type TaskStatus } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { findTaskStatus, listCheckpointStatuses } from "../contract/task-status.js";

/** Selects tasks by their status now. */
export interface TaskSelection extends Omit<TaskQuery, "status"> {
  readonly status?: readonly TaskStatus[] | undefined;
  /** Whether a task with one of the statuses is left out all the same. Default: no task is. */
  readonly isLeftOut?: ((newest: CheckpointSummary) => boolean) | undefined;
}

/** A task that has a checkpoint, with its status. */
export interface ListedTask extends StoredTask {
  readonly newest: CheckpointSummary;
  readonly status: TaskStatus;
}

/**
 * Returns those of the tasks whose lease is held now. The result may have other tasks as well.
 *
 * @param taskIds - Default: all tasks.
 */
export type ReadHeld = (taskIds?: readonly string[]) => Promise<ReadonlySet<string>>;

/** Up to this many leases are read one by one. */
const MAX_SINGLE_LEASES = 32;

/**
 * Yields the selected tasks that have a checkpoint, and a CorruptRecord for the damage in between. The storage
 * preselects tasks by the status of their newest checkpoint.
 *
 * @param nowMs - By the manager's clock.
 */
export async function* listTasks(
  storage: Pick<StorageAdapter, "tasks">,
  { status, isLeftOut, ...query }: TaskSelection,
  readHeld: ReadHeld,
  nowMs: number,
): AsyncGenerator<ListedTask | CorruptRecord, void, void> {
  const select = (
    task: StoredTask | CorruptRecord,
    held: ReadonlySet<string>,
  ): ListedTask | CorruptRecord | undefined => {
    if (isCorrupt(task)) return task;
    if (!hasCheckpoint(task) || isLeftOut?.(task.newest)) return undefined;
    const found = findTaskStatus(task, held.has(task.taskId), nowMs);
    return status?.includes(found) === false ? undefined : { ...task, status: found };
  };
  const { limit } = query;
  if (status?.every((one) => one === "running")) {
    // Few of the incomplete tasks are running, so they are found by their leases.
    const held = await readHeld();
    const found = await findEach(storage, query, held);
    yield* firstTasks(
      found.flatMap((task) => select(task, held) ?? []),
      limit,
    );
    return;
  }
  const stored = { ...query, status: status && listCheckpointStatuses(status) };
  if (limit === undefined) {
    const held = await readHeld();
    for await (const task of storage.tasks(stored)) {
      const selected = select(task, held);
      if (selected !== undefined) yield selected;
    }
    return;
  }
  // The storage's limit also counts tasks that aren't selected. If too few selected tasks are left, this reads again
  // with a higher limit.
  for (let asked = limit; ; asked *= 4) {
    const found: (StoredTask | CorruptRecord)[] = [];
    for await (const task of storage.tasks({ ...stored, limit: asked })) found.push(task);
    const held = await readHeld(found.flatMap((task) => (isCorrupt(task) ? [] : task.taskId)));
    const selected = found.flatMap((task) => select(task, held) ?? []);
    const isEnough = selected.filter((task) => !isCorrupt(task)).length >= limit;
    if (isEnough || found.length < asked) return yield* firstTasks(selected, limit);
  }
}

/** Returns the first tasks up to a limit, with the damage in between, which doesn't count. */
function firstTasks(
  found: readonly (ListedTask | CorruptRecord)[],
  limit = Number.POSITIVE_INFINITY,
): readonly (ListedTask | CorruptRecord)[] {
  let left = limit;
  return found.filter((task) => (isCorrupt(task) ? left > 0 : left-- > 0));
}

/** Makes the {@link ReadHeld} of a storage. In a storage without leases, no lease is held. */
export function heldReader({ leases }: Pick<StorageAdapter, "leases">): ReadHeld {
  return async (taskIds) => {
    const held = new Set<string>();
    if (leases === undefined) return held;
    if (taskIds === undefined || taskIds.length > MAX_SINGLE_LEASES) {
      for await (const { taskId } of leases.held()) held.add(taskId);
      return held;
    }
    const isHeld = await Promise.all(taskIds.map(async (taskId) => (await leases.current(taskId)) !== undefined));
    return new Set(taskIds.filter((_, index) => isHeld[index]));
  };
}

/** Returns those of the tasks that the query selects, in its order. */
async function findEach(
  storage: Pick<StorageAdapter, "tasks">,
  { prefix = "", after, order }: Omit<TaskQuery, "status" | "limit">,
  taskIds: ReadonlySet<string>,
): Promise<readonly (StoredTask | CorruptRecord)[]> {
  const found: StoredTask[] = [];
  const damaged: CorruptRecord[] = [];
  for (const taskId of taskIds) {
    if (!taskId.startsWith(prefix) || (after !== undefined && compareTaskIds(taskId, after) <= 0)) continue;
    for await (const task of storage.tasks({ prefix: taskId, order: "taskId", limit: 1 })) {
      if (isCorrupt(task)) damaged.push(task);
      else if (task.taskId === taskId) found.push(task);
    }
  }
  return [...damaged, ...found.sort(compareTasks(order))];
}
