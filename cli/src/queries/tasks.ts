import { describedTasks, type FoundTask, type TaskStatus } from "../langgraph/find-tasks.js";
import { LeaseReader, type RunTask, type StartingTask } from "../leases.js";
import type { QuerySession } from "../store.js";

/** A task with its newest checkpoint and its runner, or a task that is being run and has no checkpoint yet. */
export type ListedTask = RunTask | StartingTask;

export interface TasksQuery {
  readonly order: "taskId" | "recent";
  /** The beginning of the task ids. */
  readonly prefix?: string | undefined;
  /** The statuses that tasks may have now. */
  readonly status?: readonly TaskStatus[] | undefined;
  /** The stage of the newest checkpoint. */
  readonly stage?: string | undefined;
  /** An additional filter. */
  readonly isWanted?: ((task: Pick<FoundTask, "taskId"> & Partial<FoundTask>) => boolean) | undefined;
  readonly limit?: number | undefined;
  /** Only tasks that can continue by themselves: neither cancelled tasks nor child runs. */
  readonly canContinue?: boolean | undefined;
}

/** Yields the tasks of a storage, each LangGraph thread as one. Tasks without a checkpoint come last. */
export async function* listTasks(
  session: QuerySession,
  { order, prefix, status, stage, canContinue, isWanted, limit = Number.POSITIVE_INFINITY }: TasksQuery,
): AsyncGenerator<ListedTask, void, void> {
  const leases = new LeaseReader(session);
  const leased = new Set<string>();
  let count = 0;
  const isWhole = stage === undefined && isWanted === undefined;
  const most = isWhole && Number.isFinite(limit) ? limit : undefined;
  const readHeld = async () => new Set((await leases.held(prefix)).map(({ taskId }) => taskId));
  const now = status && { status, readHeld };
  const found = describedTasks(session, { order, prefix, now, canContinue, limit: most });
  for await (const task of leases.of(selected(found, { stage, isWanted }), limit)) {
    if (task.lease) leased.add(task.taskId);
    count += 1;
    yield task;
  }
  if (stage === undefined && status?.includes("running") !== false) {
    const starting = await leases.starting(prefix, leased, limit - count);
    yield* isWanted === undefined ? starting : starting.filter(isWanted);
  }
}

async function* selected(
  tasks: AsyncIterable<FoundTask>,
  { stage, isWanted }: Pick<TasksQuery, "stage" | "isWanted">,
): AsyncGenerator<FoundTask, void, void> {
  for await (const task of tasks) {
    if ((stage === undefined || task.newest.stage === stage) && isWanted?.(task) !== false) yield task;
  }
}
