import type { CheckpointStatus, CheckpointSummary } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { hasCheckpoint, isCancelled, isChild } from "waymark/kit";
import { requireTaskToChange } from "../checkpoints.js";
import { DamagedCheckpointError } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { takeFirst } from "../first-of.js";
import { findTask, refuseThread } from "../langgraph/find-tasks.js";
import { LeaseReader, type RunTask, runningText } from "../leases.js";
import { INCOMPLETE } from "../queries/incomplete.js";
import { readRun } from "../run-steps.js";
import type { QuerySession } from "../store.js";
import { assertPrefix, type TaskChoice } from "../task-choice.js";
import { findEvent, type ListedEvent, pendingEvents, pendingWaits } from "../waits.js";
import { counted } from "../words.js";

/** The length of a wait's whole key. */
const KEY_LENGTH = 32;

/** An event to send to a task's run. */
export interface NewEvent {
  readonly task: string;
  readonly name: string;
  readonly value?: unknown;
  readonly id?: string | undefined;
  readonly by?: string | undefined;
  /** The key of the wait to answer, or the beginning of the key. Default: the next wait with the event's name. */
  readonly wait?: string | undefined;
  /** Sends the event even if nothing may ever receive it. */
  readonly force?: boolean | undefined;
}

export interface SentEvent {
  readonly taskId: string;
  readonly name: string;
  readonly id: string;
  /** Whether the task's run waited for the event. If not, the event is kept. */
  readonly isAwaited: boolean;
  /** Whether an earlier event of this name is pending, which a wait receives first. */
  readonly isLater: boolean;
  /** The names of the other events that the run waits for. */
  readonly otherNames: readonly string[];
  /** Set if the task's run has ended. */
  readonly end?: "completed" | "failed" | "cancelled";
  /** Set if an event with this id was sent before: the earlier event's status. */
  readonly before?: Pick<ListedEvent, "status" | "reason">;
}

/**
 * Sends an event to a task.
 *
 * @throws {CommandError} There is no such task, or it is a thread; nothing was sent.
 * @throws {CheckpointConflictError} See `manager.send`.
 */
export async function sendEvent(
  session: QuerySession,
  { task, name, value, wait, ...options }: NewEvent,
): Promise<SentEvent> {
  const newest = await findNewest(session, task, "A graph that asks continues with LangGraph's Command({ resume }).");
  const { taskId } = newest;
  const { id } = options;
  const manager = await session.configured();
  const before = id === undefined ? undefined : await findEvent(session, taskId, id);
  if (id !== undefined && before !== undefined && before.status !== "pending") {
    // This call sends nothing, but it refuses another name or value.
    await manager.send(taskId, name, value, options);
    return { taskId, name, id, isAwaited: false, isLater: false, otherNames: [], before };
  }
  const waits = await pendingWaits(session, newest, await readRun(session, newest));
  const names = waits.flatMap(({ kind, name: of }) => (kind === "event" ? [of] : []));
  const first = (await pendingEvents(session, taskId)).find((event) => event.name === name);
  const isLater = first !== undefined && first.id !== id;
  const isAwaited = names.includes(name) && !isLater;
  const otherNames = names.filter((other) => other !== name);
  const isShort = wait !== undefined && wait.length < KEY_LENGTH;
  const key = isShort ? waits.find((open) => open.key?.startsWith(wait))?.key : undefined;
  const sent = await manager.send(taskId, name, value, { ...options, wait: key ?? wait });
  const end = isCancelled(newest) ? "cancelled" : newest.status;
  const hasEnded = end !== "running" && end !== "paused";
  return {
    taskId,
    name,
    id: sent.id,
    isAwaited,
    isLater,
    otherNames,
    ...(hasEnded && { end }),
    ...(before && { before }),
  };
}

/** A cancellation that the user can confirm before it is carried out. */
export interface Cancellation {
  /** What is cancelled, for a question: `task "build-42", running on …`. */
  readonly what: string;
  /** The number of tasks. 0: there is nothing to cancel. */
  readonly tasks: number;
  /** Cancels the tasks, and returns how many there were. */
  readonly cancel: (reason: string) => Promise<number>;
}

/**
 * Finds the tasks to cancel.
 *
 * @throws {CommandError} There is no such task, it is a thread, or it is completed.
 */
export async function findCancellation(session: QuerySession, choice: TaskChoice): Promise<Cancellation> {
  // The reason is redacted like an error, which needs the configuration.
  const cancel = (of: string | { readonly prefix: string }) => async (reason: string) =>
    (await session.configured()).cancel(of, reason);
  if ("prefix" in choice) {
    const { prefix } = choice;
    const found = await listSummaries(session, prefix, INCOMPLETE);
    const tasks = found.filter((newest) => !isCancelled(newest)).length;
    return {
      what: `${counted(tasks, "task")} that ${tasks === 1 ? "begins" : "begin"} with ${JSON.stringify(prefix)}`,
      tasks,
      cancel: cancel({ prefix }),
    };
  }
  const newest = await findNewest(session, choice.task, "Its graph can be stopped by its own program.");
  const { taskId, status } = newest;
  const what = `task ${JSON.stringify(taskId)}`;
  if (status === "completed") {
    const completed = `Task ${JSON.stringify(taskId)} is completed, so there is nothing to cancel. Nothing was changed.`;
    throw new CommandError(ExitCode.conflict, completed);
  }
  const lease = await new LeaseReader(session).current(taskId);
  return {
    what: lease === undefined ? what : `${what}, ${runningText(lease)}`,
    tasks: isCancelled(newest) ? 0 : 1,
    cancel: cancel(taskId),
  };
}

/** How many failed tasks were put back. */
export interface PutBack {
  readonly retried: number;
  /** How many of the tasks are child runs, which workers leave to the parent runs. */
  readonly children: number;
}

/**
 * Puts failed tasks back.
 *
 * @param from - The step of the task's current turn from which recorded results are dropped.
 * @throws {CommandError} There is no such task, it is a thread, or it isn't failed.
 * @throws {RunMismatchError} The turn has no such step. Nothing was changed.
 */
export async function retryTasks(
  session: QuerySession,
  choice: TaskChoice,
  from?: string | undefined,
): Promise<PutBack> {
  const { manager } = session;
  if ("prefix" in choice) {
    const { prefix } = choice;
    const found = await listSummaries(session, prefix, ["failed"]);
    const children = found.filter((newest) => isChild(newest) && !isCancelled(newest)).length;
    return { retried: await manager.retry({ prefix }), children };
  }
  const failed = await findNewest(session, choice.task, "Invoke its graph again.");
  const { taskId } = failed;
  // The record that drops results is encrypted like all others, which needs the configuration.
  const retrying = from === undefined ? manager.retry(taskId) : (await session.configured()).retry(taskId, { from });
  if ((await retrying) === 1) return { retried: 1, children: Number(isChild(failed)) };
  const found = await findTask(session.storage, taskId);
  const status = found === undefined ? "removed" : (await new LeaseReader(session).described(found)).status;
  throw new CommandError(
    ExitCode.conflict,
    `Task ${JSON.stringify(taskId)} is ${status}, and only failed tasks are put back. Nothing was changed.`,
  );
}

/** @returns The task if it has this run already; `undefined` if the run was saved. */
export async function enqueueTask(
  session: QuerySession,
  { taskId, input, dueAt }: { readonly taskId: string; readonly input?: unknown; readonly dueAt?: Date | undefined },
): Promise<RunTask | undefined> {
  refuseThread(taskId, "Give the task another name.");
  const isNew = await (await session.configured()).enqueue(taskId, input, { dueAt });
  const found = isNew ? undefined : await findTask(session.storage, taskId);
  return found && new LeaseReader(session).described(found);
}

/**
 * Returns the newest checkpoints of the tasks with a prefix and one of these statuses.
 *
 * @throws {CommandError} The prefix is empty, or a thread's id begins with it.
 */
async function listSummaries(
  { storage, damage }: QuerySession,
  prefix: string,
  status: readonly CheckpointStatus[],
): Promise<readonly CheckpointSummary[]> {
  assertPrefix(prefix);
  const found: CheckpointSummary[] = [];
  for await (const task of storage.tasks({ prefix, status, order: "taskId" })) {
    if (isCorrupt(task)) await damage.add(task);
    else if (hasCheckpoint(task)) {
      refuseThread(task.taskId, "Write a longer prefix.");
      found.push(task.newest);
    }
  }
  return found;
}

/** @param ofThread - A sentence that tells the user what to do with a thread instead. */
async function findNewest(session: QuerySession, task: string, ofThread: string): Promise<CheckpointSummary> {
  const taskId = await requireTaskToChange(session, task);
  refuseThread(taskId, ofThread);
  const [newest] = await takeFirst(session.storage.list({ taskId, order: "newest", limit: 1 }));
  const what = `The newest checkpoint of task ${JSON.stringify(taskId)}`;
  if (newest === undefined) {
    throw new CommandError(ExitCode.notFound, `${what} was just removed. Nothing was changed.`);
  }
  if (isCorrupt(newest)) throw new DamagedCheckpointError(what, newest, "Nothing was changed.");
  return newest;
}
