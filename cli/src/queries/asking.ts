import { isOfRun, readWaits } from "waymark/kit";
import { describedTasks, type FoundTask, type TaskStatus } from "../langgraph/find-tasks.js";
import { LeaseReader, type RunTask } from "../leases.js";
import type { QuerySession } from "../store.js";
import { hasEnded } from "../waits.js";

/** The statuses that a task may have while it waits for a person. */
const ASKING: readonly TaskStatus[] = ["waiting", "running", "interrupted", "queued", "paused"];

/** Yields the tasks that wait for an event that hasn't been sent, and threads with a question, last saved first. */
export async function* listAsking(session: QuerySession): AsyncGenerator<RunTask, void, void> {
  const leases = new LeaseReader(session);
  const held = new Set((await leases.held()).map(({ taskId }) => taskId));
  const now = { status: ASKING, readHeld: async () => held };
  for await (const found of describedTasks(session, { order: "recent", now })) {
    const task = await findAsking(leases, held, found);
    if (task !== undefined) yield task;
  }
}

/** Returns the task with its runner, if it waits for a person. Reads records only of tasks that may wait. */
export async function findAsking(
  leases: LeaseReader,
  held: ReadonlySet<string>,
  task: FoundTask,
): Promise<RunTask | undefined> {
  const { newest, thread } = task;
  if (thread !== undefined) return thread.interrupts?.length ? leases.described(task) : undefined;
  if (!isOfRun(newest) || hasEnded(newest) || !mayWait(task, held)) return undefined;
  const described = await leases.described(task);
  const { waitsFor = [], answered = [] } = described.waits ?? {};
  return waitsFor.some((name) => !answered.includes(name)) ? described : undefined;
}

/** True if the task may wait for an event: its newest checkpoint has a wait, or one may have begun since. */
function mayWait({ taskId, newest, last }: FoundTask, held: ReadonlySet<string>): boolean {
  if (held.has(taskId) || last?.kind === "mark" || last?.kind === "event") return true;
  return (readWaits(newest)?.waitsFor.length ?? 0) > 0;
}
