import type { CheckpointSummary } from "waymark";
import { findDamage, isCorrupt } from "waymark/adapter";
import { checkpointsTask, copyThread } from "waymark/langgraph/records";
import { describeCheckpoint, findStored, findWhole, requireTaskToChange } from "../checkpoints.js";
import { DamagedCheckpointError } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { takeFirst } from "../first-of.js";
import { listTasks, refuseThread, wholeThread } from "../langgraph/find-tasks.js";
import { runningText, underLease } from "../leases.js";
import { findRecordSequence } from "../queries/record.js";
import { isWhole } from "../records/stored-record.js";
import type { QuerySession } from "../store.js";
import { assertPrefix } from "../task-choice.js";
import { bytesText, counted } from "../words.js";

/** Options of a change to a task. The change claims the task's lease. */
export interface ChangeOptions {
  /** Makes the change even while a process runs the task. */
  readonly force?: boolean | undefined;
}

/** A checkpoint with the state of an older one, or with a turn's state and the turn's results up to a record. */
export interface Branch {
  readonly source: Pick<CheckpointSummary, "taskId" | "sequence">;
  readonly saved: CheckpointSummary;
}

/** A new thread with another thread's history up to a checkpoint. */
export interface ThreadBranch {
  readonly source: CheckpointSummary;
  readonly taskId: string;
  /** The id of the thread that `source` belongs to. */
  readonly from: string;
  /** How many checkpoints the new thread has. */
  readonly checkpoints: number;
}

/**
 * Begins a new task at a checkpoint or a record, or a new thread at a checkpoint.
 *
 * @throws {CommandError} The checkpoint doesn't exist, or the new task can't be begun. Nothing was changed.
 */
export async function forkTask(
  session: QuerySession,
  { task, id, newTask }: { readonly task: string; readonly id: string; readonly newTask: string },
  { force }: ChangeOptions = {},
): Promise<Branch | ThreadBranch> {
  const taskId = await requireTaskToChange(session, task);
  if (newTask.trim() === "") {
    throw new CommandError(ExitCode.usage, "The new task's name is blank. Nothing was stored; give it a name.");
  }
  refuseThread(newTask, "Give the new task another name.");
  const thread = wholeThread(taskId);
  if (thread === undefined) refuseThread(taskId, "To fork the thread, name it.");
  if (thread !== undefined) {
    return forkThread(session, await findWhole(session, taskId, id), thread.id, newTask, { force });
  }
  const { point, source } = await findPoint(session, taskId, id);
  const manager = await session.configured();
  const saved = await underLease(session, newTask, force, (under) => manager.fork(taskId, point, newTask, under));
  return { source, saved };
}

/**
 * Returns the checkpoint or record that a word on the command line names, in the form that `fork` and `rewind` take.
 */
async function findPoint(
  session: QuerySession,
  taskId: string,
  word: string,
): Promise<{ readonly point: string | number; readonly source: Branch["source"] }> {
  const sequence = await findRecordSequence(session, taskId, word);
  if (sequence !== undefined) return { point: sequence, source: { taskId, sequence } };
  const source = await findWhole(session, taskId, word);
  return { point: source.id, source };
}

async function forkThread(
  session: QuerySession,
  source: CheckpointSummary,
  from: string,
  newThread: string,
  { force }: ChangeOptions,
): Promise<ThreadBranch> {
  const taskId = checkpointsTask({ threadId: newThread, namespace: "" });
  if (await session.manager.has(newThread)) {
    const what = `Task ${JSON.stringify(newThread)} has checkpoints already, and a thread can't have the same name`;
    throw new CommandError(ExitCode.conflict, `${what}. Nothing was stored; choose another name for the thread.`);
  }
  const { transforms } = await session.config();
  const { storage } = session;
  const copy = () => copyThread({ storage, transforms }, from, newThread, source.id);
  return { source, taskId, from, checkpoints: await underLease(session, taskId, force, copy) };
}

/**
 * Saves a checkpoint with the state of an older one, or with the state of a record's turn.
 *
 * @throws {CommandError} The checkpoint doesn't exist, or the task is a thread. Nothing was changed.
 */
export async function rewindTask(
  session: QuerySession,
  { task, id }: { readonly task: string; readonly id: string },
  { force }: ChangeOptions = {},
): Promise<Branch> {
  const taskId = await requireTaskToChange(session, task);
  refuseThread(taskId, "Invoke its graph with the config of that checkpoint, or call updateState with it.");
  const { point, source } = await findPoint(session, taskId, id);
  const manager = await session.configured();
  return { source, saved: await underLease(session, taskId, force, (under) => manager.rewind(taskId, point, under)) };
}

/**
 * Returns the newest checkpoint of a task, for {@link completeTask}.
 *
 * @throws {CommandError} There is no such task, or it is a thread.
 * @throws {DamagedCheckpointError} The newest checkpoint can't be read.
 */
export async function newestToComplete(session: QuerySession, task: string): Promise<CheckpointSummary> {
  const taskId = await requireTaskToChange(session, task);
  refuseThread(taskId, "A graph completes its thread itself; waymark delete removes a thread.");
  const what = `The newest checkpoint of task ${JSON.stringify(taskId)}`;
  for await (const newest of session.storage.list({ taskId, order: "newest", limit: 1 })) {
    if (isCorrupt(newest)) throw new DamagedCheckpointError(what, newest, "Nothing was changed.");
    return newest;
  }
  throw new CommandError(ExitCode.notFound, `${what} was just removed. Nothing was changed.`);
}

/** Completes a task if the given checkpoint is still its newest one: a newer one means that the task has continued. */
export async function completeTask(
  session: QuerySession,
  { taskId, sequence }: CheckpointSummary,
  { force }: ChangeOptions = {},
): Promise<void> {
  await underLease(session, taskId, force, (under) =>
    session.manager.complete(taskId, { expectedSequence: sequence, ...under }),
  );
}

/** Checkpoints to remove. Damaged ones are included, because no other command removes them. */
export interface Removal {
  /** The name of these checkpoints in a question. */
  readonly what: string;
  /** How many tasks the checkpoints belong to, if they were found by a prefix. */
  readonly tasks?: number;
  readonly damaged: number;
  /** Removes the checkpoints, and returns how many there were. */
  readonly remove: (options?: ChangeOptions) => Promise<number>;
}

/**
 * Finds the checkpoints to remove: all of a task, or one of them.
 *
 * @throws {CommandError} There is no such task or checkpoint, or it is only a part of a thread.
 */
export async function findRemoval(session: QuerySession, task: string, id?: string): Promise<Removal> {
  const taskId = await requireTaskToChange(session, task, { orRecordsOnly: id === undefined });
  return id === undefined ? wholeTask(session, taskId) : findOne(session, taskId, id);
}

async function wholeTask(session: QuerySession, taskId: string): Promise<Removal> {
  const { manager } = session;
  const thread = wholeThread(taskId);
  if (thread === undefined) refuseThread(taskId, "To remove the whole thread, pass its id.");
  const found = await readRecords(session, listTasks(session, taskId));
  const name = thread === undefined ? `task ${JSON.stringify(taskId)}` : `thread ${JSON.stringify(thread.id)}`;
  return {
    what: `${name} with ${recordsText(found, thread === undefined ? "checkpoint" : "record")}`,
    damaged: found.damaged,
    remove: ({ force } = {}) =>
      underLease(session, taskId, force, (under) =>
        thread ? manager.removeTask({ prefix: thread.prefix }) : manager.removeTask(taskId, under),
      ),
  };
}

/**
 * Finds the tasks to remove: all with a prefix.
 *
 * @returns `undefined` if there is none.
 * @throws {CommandError} The prefix is empty, or a thread's id begins with it.
 */
export async function findRemovalOfTasks(session: QuerySession, prefix: string): Promise<Removal | undefined> {
  assertPrefix(prefix);
  const { storage, manager, damage } = session;
  const taskIds = new Set<string>();
  for await (const task of storage.tasks({ prefix, order: "taskId" })) {
    const { taskId } = task;
    if (taskId === undefined) {
      if (isCorrupt(task)) await damage.add(task);
    } else {
      refuseThread(taskId, "Write a longer prefix.");
      taskIds.add(taskId);
    }
  }
  if (taskIds.size === 0) return undefined;
  const found = await readRecords(session, taskIds);
  const begin = taskIds.size === 1 ? "begins" : "begin";
  return {
    what: `${counted(taskIds.size, "task")} that ${begin} with ${JSON.stringify(prefix)}, with ${recordsText(found, "checkpoint")}`,
    tasks: taskIds.size,
    damaged: found.damaged,
    remove: async ({ force } = {}) => {
      if (!force) await assertNobodyRuns(session, prefix);
      return manager.removeTask({ prefix });
    },
  };
}

/** @throws {CommandError} A process runs a task with this prefix; nothing was changed. */
async function assertNobodyRuns({ storage }: QuerySession, prefix: string): Promise<void> {
  const held = (storage.leases && (await takeFirst(storage.leases.held()))) ?? [];
  const [first, ...others] = held.filter(({ taskId }) => taskId.startsWith(prefix));
  if (first === undefined) return;
  const more = others.length === 0 ? "" : `; also being run: ${counted(others.length, "other task")} with this prefix`;
  throw new CommandError(
    ExitCode.conflict,
    `Task ${JSON.stringify(first.taskId)} is ${runningText(first)}${more}. Nothing was removed. Stop their processes ` +
      'first, cancel the tasks with "waymark cancel", or pass --force.',
  );
}

/** The checkpoints and records that a removal of tasks removes. */
interface FoundRecords {
  readonly count: number;
  readonly bytes: number;
  readonly damaged: number;
  /** How many records the tasks' logs have, without checkpoints. */
  readonly records: number;
}

async function readRecords(
  { storage }: QuerySession,
  taskIds: AsyncIterable<string> | Iterable<string>,
): Promise<FoundRecords> {
  const found = { count: 0, bytes: 0, damaged: 0, records: 0 };
  for await (const taskId of taskIds) {
    for await (const record of storage.read({ taskId, order: "newest" })) {
      found.count += 1;
      if (!isCorrupt(record)) found.bytes += record.sizeBytes;
      if (!isWhole(record)) found.damaged += 1;
    }
    for await (const item of storage.log?.read({ taskId, order: "oldest", headersOnly: true }) ?? []) {
      if ("kind" in item) found.records += 1;
    }
  }
  return found;
}

/** `3 checkpoints (1.5 KiB; 1 of them damaged) and 4 records` */
function recordsText({ count, bytes, damaged, records }: FoundRecords, noun: string): string {
  const size = damaged === 0 ? bytesText(bytes) : `${bytesText(bytes)}; ${damaged} of them damaged`;
  const log = records === 0 ? "" : ` and ${counted(records, "record")}`;
  return `${counted(count, noun)} (${size})${log}`;
}

async function findOne(session: QuerySession, taskId: string, word: string): Promise<Removal> {
  refuseThread(
    taskId,
    "To remove the whole thread, leave out the checkpoint's id; WaymarkSaver.prune removes old checkpoints.",
  );
  const { storage, manager } = session;
  const found = await findStored(session, taskId, word);
  // If damage destroyed the id, the user named the checkpoint by its sequence.
  const id = found.id ?? word;
  const stored = isCorrupt(found) ? found : await storage.get(taskId, id);
  const damage = stored && (isCorrupt(stored) ? stored.reason : findDamage(stored));
  const title = isCorrupt(found) ? `${word} (${found.location})` : describeCheckpoint(found);
  const checkpoint = damage === undefined ? `checkpoint ${title}` : `damaged checkpoint ${title}, ${damage},`;
  return {
    what: `${checkpoint} of task ${JSON.stringify(taskId)}`,
    damaged: damage === undefined ? 0 : 1,
    remove: async ({ force } = {}) => {
      if (await underLease(session, taskId, force, (under) => manager.remove(taskId, id, under))) return 1;
      if (!isCorrupt(found)) return 0;
      throw new CommandError(
        ExitCode.damaged,
        `Checkpoint ${word} of task ${JSON.stringify(taskId)} can't be identified, so it can't be removed by itself: ` +
          `${found.reason} (${found.location}). It was left untouched. "waymark repair" moves it to quarantine; without an ID, "waymark delete" removes the whole task.`,
        { cause: found.cause },
      );
    },
  };
}
