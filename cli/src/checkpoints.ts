import { CheckpointCorruptError, type CheckpointSummary, type CorruptRecord } from "waymark";
import { findDamage, isCorrupt } from "waymark/adapter";
import { checkpointsTask } from "waymark/langgraph/records";
import type { Session } from "./cli.js";
import { DamagedCheckpointError } from "./damage.js";
import { CommandError, ExitCode } from "./exit-code.js";
import { takeFirst } from "./first-of.js";
import { describeTask, type FoundTask, findTasks } from "./langgraph/find-tasks.js";
import { readState } from "./langgraph/thread-state.js";
import { LeaseReader, runningText } from "./leases.js";
import { printable } from "./printable.js";
import { readableSummaries } from "./read-stored.js";
import type { QuerySession } from "./store.js";

/**
 * Returns the id of the task that a word on the command line names: by the whole id, or by a beginning that no other
 * task shares. A LangGraph thread is named by its own id, and stands for its graph's task.
 *
 * @throws {CommandError} There is no such task.
 */
export async function requireTask(session: QuerySession, word: string, options?: TaskOptions): Promise<string> {
  const taskId = await taskNamed(session, word, options);
  if (taskId !== undefined) return taskId;
  const alike = await tasksBeginningWith(session, word);
  const [only] = alike;
  if (only !== undefined && alike.length === 1) return only.taskId;
  throw await noSuchTask(session, word, alike);
}

/**
 * Like {@link requireTask}, but for commands that change something, so it takes only the whole id. If the intended task
 * was already removed, the beginning of its id could match another task.
 *
 * @throws {CommandError} There is no such task.
 */
export async function requireTaskToChange(session: QuerySession, word: string, options?: TaskOptions): Promise<string> {
  const taskId = await taskNamed(session, word, options);
  if (taskId !== undefined) return taskId;
  throw await noSuchTask(session, word, await tasksBeginningWith(session, word));
}

/**
 * Like {@link requireTask}, but also accepts a task that has only a lease or records. For commands that wait for a run.
 *
 * @throws {CommandError} There is no such task.
 */
export async function requireTaskToFollow(session: QuerySession, word: string): Promise<string> {
  const starting = await new LeaseReader(session).startingNamed(word);
  return starting?.taskId ?? requireTask(session, word, { orRecordsOnly: true });
}

async function hasLog({ storage }: QuerySession, taskId: string): Promise<boolean> {
  const query = { taskId, order: "newest", limit: 1, headersOnly: true } as const;
  for await (const _item of storage.log?.read(query) ?? []) return true;
  return false;
}

interface TaskOptions {
  /** Whether to accept a task that has only records, such as an event that was sent before its run began. */
  readonly orRecordsOnly?: boolean;
}

async function taskNamed(
  session: QuerySession,
  word: string,
  { orRecordsOnly = false }: TaskOptions = {},
): Promise<string | undefined> {
  const { manager } = session;
  if (await manager.has(word)) return word;
  const thread = checkpointsTask({ threadId: word, namespace: "" });
  if (await manager.has(thread)) return thread;
  return orRecordsOnly && (await hasLog(session, word)) ? word : undefined;
}

/** Returns at most four tasks. */
function tasksBeginningWith({ storage }: QuerySession, prefix: string): Promise<readonly FoundTask[]> {
  // Damage of other tasks doesn't matter here.
  const damage = { add: async () => undefined };
  return takeFirst(findTasks({ storage, damage }, { prefix, order: "taskId", limit: 4 }), 4);
}

async function noSuchTask(session: QuerySession, word: string, alike: readonly FoundTask[]): Promise<CommandError> {
  const starting = await new LeaseReader(session).startingNamed(word);
  if (starting !== undefined) {
    return new CommandError(
      ExitCode.notFound,
      `Task ${JSON.stringify(word)} is ${runningText(starting.lease)}, and has no checkpoint yet in ${session.name}.`,
    );
  }
  const what = `Task ${JSON.stringify(word)} has no checkpoint in ${session.name}.`;
  const names = [...alike.slice(0, 3).map(describeTask), ...(alike.length > 3 ? ["…"] : [])];
  const hint = names.length > 0 ? `Ids that begin with it: ${names.join(", ")}.` : '"waymark tasks" lists the tasks.';
  return new CommandError(ExitCode.notFound, `${what} ${hint}`);
}

/** Says that a command had nothing to do. Silence, or "0 of 0", would look like success. */
export async function sayNothingTo(
  verb: string,
  { errors, name }: Pick<Session, "errors" | "name">,
  prefix: string | undefined,
): Promise<void> {
  const which = prefix === undefined ? "" : ` for tasks that begin with ${JSON.stringify(prefix)}`;
  await errors.line(printable(`There is no checkpoint to ${verb} in ${name}${which}.`));
}

/**
 * Returns the checkpoint that a word on the command line names: an id or its beginning, `@7` for sequence 7, or
 * `@latest` for the newest readable one.
 *
 * @throws {CommandError} There is no such checkpoint.
 * @throws {DamagedCheckpointError} The checkpoint can't be read.
 */
export async function findCheckpoint(session: QuerySession, taskId: string, word: string): Promise<CheckpointSummary> {
  const found = await storedAs(session, taskId, word, findByPrefix);
  if (!isCorrupt(found)) return found;
  throw new DamagedCheckpointError(`Checkpoint ${word} of task ${JSON.stringify(taskId)}`, found);
}

/**
 * Like {@link findCheckpoint}, but it also returns a damaged checkpoint, and takes only whole ids.
 *
 * @throws {CommandError} There is no such checkpoint.
 */
export function findStored(
  session: QuerySession,
  taskId: string,
  word: string,
): Promise<CheckpointSummary | CorruptRecord> {
  return storedAs(session, taskId, word, async () => undefined);
}

async function storedAs(
  session: QuerySession,
  taskId: string,
  word: string,
  findOther: typeof findByPrefix,
): Promise<CheckpointSummary | CorruptRecord> {
  // An id may look like @7, so ids come first.
  const byId = word === "" ? undefined : await session.storage.get(taskId, word);
  // A record that lost its id could be any checkpoint, so it counts only if nothing else matches.
  const isMeant = byId !== undefined && (!isCorrupt(byId) || byId.id === word);
  const find = /^@(\d{1,15}|latest)$/.test(word) ? findByPosition : findOther;
  const found = isMeant ? byId : ((await find(session, taskId, word)) ?? byId);
  if (found !== undefined) return found;
  throw new CommandError(
    ExitCode.notFound,
    `Task ${JSON.stringify(taskId)} has no checkpoint ${JSON.stringify(word)}. "waymark list" shows the task's checkpoints; @7 means sequence 7.`,
  );
}

/**
 * Returns the checkpoint that a word on the command line names, after checking its payload.
 *
 * @throws {CommandError} There is no such checkpoint.
 * @throws {DamagedCheckpointError} The checkpoint or its payload can't be read.
 */
export async function findWhole(session: QuerySession, taskId: string, word: string): Promise<CheckpointSummary> {
  const { id, sequence } = await findCheckpoint(session, taskId, word);
  const what = `Checkpoint @${sequence} of task ${JSON.stringify(taskId)}`;
  const stored = await session.storage.get(taskId, id);
  if (stored === undefined) throw new CommandError(ExitCode.notFound, `${what} was just removed. Nothing was changed.`);
  if (isCorrupt(stored)) throw new DamagedCheckpointError(what, stored);
  const reason = findDamage(stored);
  if (reason === undefined) return stored;
  const location = `checkpoint ${id}`;
  throw new DamagedCheckpointError(what, { corrupt: true, location, reason, taskId, id, sequence });
}

/**
 * Returns the newest checkpoint of a task whose state can be read, with its state.
 *
 * @throws {CheckpointCorruptError} No state can be read.
 */
export async function readLatest<State>(
  session: QuerySession,
  taskId: string,
  read: (checkpoint: CheckpointSummary) => Promise<State>,
): Promise<{ readonly checkpoint: CheckpointSummary; readonly state: State }> {
  for await (const checkpoint of readableSummaries(session, { taskId, order: "newest" })) {
    try {
      return { checkpoint, state: await read(checkpoint) };
    } catch (error) {
      // Any other error would recur with the next checkpoint.
      if (!(error instanceof DamagedCheckpointError)) throw error;
      await session.damage.add(error.record);
    }
  }
  throw new CheckpointCorruptError(`Task ${JSON.stringify(taskId)} has no checkpoint that can be read.`);
}

/** Describes a checkpoint in one line, safe for the terminal: `@7 3f0c… (After the unit tests)`. */
export function describeCheckpoint({ sequence, id, label, stage }: CheckpointSummary): string {
  const at = label ?? stage;
  return printable(`@${sequence} ${id}${at === undefined ? "" : ` (${at})`}`);
}

/** Returns the only checkpoint whose id begins with `prefix`. @throws {CommandError} Several ids begin with it. */
async function findByPrefix({ storage }: QuerySession, taskId: string, prefix: string) {
  if (prefix === "") return undefined;
  const found: CheckpointSummary[] = [];
  for await (const one of storage.list({ taskId, order: "newest" })) {
    if (!isCorrupt(one) && one.id.startsWith(prefix)) found.push(one);
    if (found.length > 1) {
      throw new CommandError(
        ExitCode.usage,
        `Several checkpoints of task ${JSON.stringify(taskId)} have ids that begin with ${JSON.stringify(prefix)}: ` +
          `${found.map(describeCheckpoint).join(" and ")}, for example. Write more of the id.`,
      );
    }
  }
  return found[0];
}

async function findByPosition(session: QuerySession, taskId: string, word: string) {
  if (word === "@latest") return (await readLatest(session, taskId, (found) => readState(session, found))).checkpoint;
  const sequence = Number(word.slice(1));
  const query = { taskId, order: "oldest", afterSequence: sequence - 1, beforeSequence: sequence + 1 } as const;
  let unnumbered: CorruptRecord | undefined;
  for await (const found of session.storage.list(query)) {
    if (found.sequence === sequence) return found;
    // A damaged record without a sequence may be the wanted one.
    if (isCorrupt(found)) unnumbered = found;
  }
  return unnumbered;
}
