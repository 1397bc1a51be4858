import { CheckpointCorruptError, type CheckpointSummary, type TaskEvent } from "waymark";
import { findDueTime } from "waymark/adapter";
import {
  isCancelled,
  isChild,
  isOfRun,
  listEventHeaders,
  listOpenWaits,
  NEVER,
  type RunRecord,
  readWaits,
  type StepRecord,
} from "waymark/kit";
import type { Session } from "./cli.js";
import { isKeyMissing } from "./key-advice.js";
import { type PlainJson, plainJson } from "./plain-json.js";
import { printable } from "./printable.js";
import type { QuerySession } from "./store.js";
import { countText, timeText } from "./words.js";

/** An open wait of a run. */
export interface PendingWait {
  /** `sleep`: for a time. `event`: for an event of this name. */
  readonly kind: "sleep" | "event";
  readonly name: string;
  readonly since: string;
  /** When a sleep ends, or the time limit of a wait for an event. */
  readonly until?: string;
  /** The key of a wait for an event, as `manager.send` takes it. Missing if the configuration can't open the run. */
  readonly key?: string;
  /** An event of this name is pending: the run receives the event once a process continues the run. */
  readonly isAnswered?: true;
  readonly question?: string;
  /** The JSON Schema of the answer. */
  readonly schema?: PlainJson;
}

type RunWaits = NonNullable<ReturnType<typeof readWaits>>;

/** What a task's run waits for. */
export interface TaskWaits extends RunWaits {
  /** The names with a pending event. Set only if there are any, and no process runs the task. */
  readonly answered?: readonly string[];
}

/** An event without its value. */
export interface ListedEvent {
  readonly id: string;
  readonly name: string;
  readonly by?: string;
  readonly sentAt: string;
  readonly status: EventStatus;
  /** For a pending event that was sent to one wait: the key of the wait, and whether the wait is open now. */
  readonly wait?: { readonly key: string; readonly isOpen: boolean };
  /** Why the event was refused. */
  readonly reason?: string;
}

/** An event with its value as plain JSON. The value is missing if none was sent, or if it can't be read. */
export interface ShownEvent extends ListedEvent {
  readonly value?: PlainJson;
}

export type EventStatus = "pending" | "received" | "refused";

const SHOWN_ANSWERS = 3;
const MOST_EVENTS = 10;
/** Stands for the value of an event in a command to copy. */
const VALUE = "…";
/** How many characters of a wait's key are shown. */
const KEY_UNITS = 8;

/**
 * Returns what a task waits for, according to its newest checkpoint and the steps since then.
 *
 * @param steps - The last step that ended since the checkpoint, and the steps that haven't ended.
 */
export function waitsOfTask(newest: CheckpointSummary, steps: readonly StepRecord[] = []): RunWaits | undefined {
  if (hasEnded(newest)) return undefined;
  if (steps.length === 0) return readWaits(newest);
  const open = steps.filter(({ status }) => status === "started");
  if (open.length === 0 || open.some(({ waitsFor }) => waitsFor === undefined)) return undefined;
  const [dueAt = NEVER] = open.flatMap(({ until }) => until ?? []).sort();
  const waitsFor = open.flatMap(({ waitsFor: kind, name }) => (kind === "event" ? [name] : []));
  return { dueAt, waitsFor };
}

/**
 * Adds the names that have a pending event. Call this only for a task that no process runs, because a runner receives
 * events at once.
 */
export async function findOpenWaits(
  session: Pick<QuerySession, "storage" | "damage">,
  newest: CheckpointSummary,
  waits: RunWaits,
): Promise<TaskWaits> {
  // A pending event makes the run due, so a run that isn't due has none.
  if (waits.waitsFor.length === 0 || !isDue(newest, Date.now())) return waits;
  const answered = await listAnswered(session, newest.taskId, waits.waitsFor);
  return answered.length === 0 ? waits : { ...waits, answered };
}

/** Returns the names for which an event is pending. */
async function listAnswered(
  session: Pick<QuerySession, "storage" | "damage">,
  taskId: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const pending = await pendingEvents(session, taskId);
  return names.filter((name) => pending.some((event) => event.name === name));
}

/** Returns the events of a task that a wait can receive now or next, oldest first. */
export async function pendingEvents(
  session: Pick<QuerySession, "storage" | "damage">,
  taskId: string,
): Promise<readonly ListedEvent[]> {
  const events = await listEventHeaders(session.storage, taskId);
  return events.filter(({ status, wait }) => status === "pending" && wait?.isOpen !== false);
}

/** `pending`, `pending, for a wait that isn't open` */
export function eventStatusText({ status, wait }: Pick<ListedEvent, "status" | "wait">): string {
  return wait?.isOpen === false ? `${status}, for a wait that isn't open` : status;
}

export function hasEnded({ status }: CheckpointSummary): boolean {
  return status === "completed" || status === "failed";
}

/** Whether a process may continue the run now. */
function isDue(newest: CheckpointSummary, nowMs: number): boolean {
  const dueAt = findDueTime(newest);
  return dueAt === undefined ? isChild(newest) && !hasEnded(newest) : Date.parse(dueAt) <= nowMs;
}

/** Whether `waymark retry` put a failed run back. The run keeps its error. */
export function isPutBack(newest: CheckpointSummary): boolean {
  return newest.status === "paused" && newest.error !== undefined && isOfRun(newest);
}

/** Whether the task's run failed, so that workers take it only after `waymark retry`. */
export function canRetry(newest: CheckpointSummary): boolean {
  return newest.status === "failed" && isOfRun(newest) && !isCancelled(newest);
}

/**
 * Tells people why no process runs a run: it `waits for "approve"`, for example, or it is due. Returns `undefined` if
 * the checkpoint isn't from a run, or the run has ended.
 */
export function standText(
  newest: CheckpointSummary,
  nowMs: number,
  waits: TaskWaits | undefined = waitsOfTask(newest),
): string | undefined {
  if (!isOfRun(newest) || hasEnded(newest)) return undefined;
  if (isPutBack(newest)) return `put back; it failed with: ${newest.error?.message}`;
  if (waits !== undefined && !isDue(newest, nowMs)) return waitsText(waits, nowMs);
  const why = waits === undefined || waits.waitsFor.length === 0 ? "due: " : `${waitsText(waits, nowMs)}; `;
  return `${why}${isChild(newest) ? "its parent run" : "a worker or the next run"} continues it`;
}

/**
 * `waits for "approve" and "note", until 2026-11-21 10:00:05 UTC at most`, `waits until 2026-11-21 10:00:05 UTC`,
 * `"approve" is answered`
 */
export function waitsText({ dueAt, waitsFor, answered = [] }: TaskWaits, nowMs: number): string {
  const until = `until ${timeText(dueAt)} UTC`;
  if (waitsFor.length === 0) return `waits ${until}`;
  if (answered.length > 0) return `${namesText(answered)} ${answered.length === 1 ? "is" : "are"} answered`;
  // A run that was stopped while it waited is due at once, regardless of its time limit.
  const limit = dueAt === NEVER || Date.parse(dueAt) <= nowMs ? "" : `, ${until} at most`;
  return `waits for ${namesText(waitsFor)}${limit}`;
}

/** `"approve" and "note"` */
export function namesText(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(" and ");
}

/**
 * Returns the open waits of a task's run.
 *
 * @param run - The record of the task's newest checkpoint; `undefined` if it can't be read.
 */
export async function pendingWaits(
  session: Pick<QuerySession, "storage" | "damage">,
  newest: CheckpointSummary,
  run: RunRecord | undefined,
): Promise<readonly PendingWait[]> {
  const waits = waitsIn(newest, run);
  const names = waits.flatMap(({ kind, name }) => (kind === "event" ? [name] : []));
  if (names.length === 0) return waits;
  const answered = await listAnswered(session, newest.taskId, names);
  return waits.map((wait) =>
    wait.kind === "event" && answered.includes(wait.name) ? { ...wait, isAnswered: true } : wait,
  );
}

function waitsIn(newest: CheckpointSummary, run: RunRecord | undefined): readonly PendingWait[] {
  if (!isOfRun(newest) || hasEnded(newest)) return [];
  const { createdAt: since } = newest;
  if (run === undefined) {
    const names = waitsOfTask(newest)?.waitsFor ?? [];
    return names.map((name) => ({ kind: "event", name, since }));
  }
  return run.steps.flatMap(({ name, status, waitsFor: kind, startedAt, until, key, ask }) =>
    kind === undefined || status !== "started"
      ? []
      : [
          {
            ...{ kind, name, since: startedAt },
            ...(until !== undefined && { until }),
            ...(key !== undefined && { key }),
            ...(ask && { question: ask.question }),
            ...(ask?.schema !== undefined && { schema: plainJson(ask.schema) }),
          },
        ],
  );
}

/**
 * Returns the command that answers a wait for an event. With the key, it answers no later wait, even if it is run
 * twice.
 *
 * @param key - The key of the wait; `undefined` if it isn't known.
 */
export function answerCommand(
  { commandText }: Pick<Session, "commandText">,
  { taskId, name, key }: { readonly taskId: string; readonly name: string; readonly key?: string | undefined },
): string {
  return commandText("send", [taskId, name, VALUE], key === undefined ? [] : ["--wait", key.slice(0, KEY_UNITS)]);
}

/** Collects the waits of listed tasks, and prints below the list how to answer the first ones. */
export class Answers {
  readonly #session: Session;
  readonly #waits: { readonly taskId: string; readonly name: string }[] = [];
  /** The number of waiting runs whose commands aren't shown. */
  #more = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Yields the same tasks, and collects their waits. */
  async *from<Task extends { readonly taskId: string; readonly waits?: TaskWaits }>(
    tasks: AsyncIterable<Task>,
  ): AsyncGenerator<Task, void, void> {
    for await (const task of tasks) {
      if (task.waits !== undefined) this.add(task.taskId, task.waits);
      yield task;
    }
  }

  add(taskId: string, { waitsFor, answered = [] }: TaskWaits): void {
    const names = waitsFor.filter((name) => !answered.includes(name));
    if (names.length > 0 && this.#waits.length >= SHOWN_ANSWERS) this.#more += 1;
    else this.#waits.push(...names.map((name) => ({ taskId, name })));
  }

  async print(): Promise<void> {
    const { output, errors } = this.#session;
    // Standard error isn't buffered: without this flush, it would appear before the list.
    await output.flush();
    for (const { taskId, name } of this.#waits) {
      const [key] = await listOpenWaits(this.#session.storage, taskId, name);
      await errors.line(printable(`To answer: ${answerCommand(this.#session, { taskId, name, key })}`));
    }
    if (this.#more === 0) return;
    const waits = this.#more === 1 ? "1 more run waits" : `${countText(this.#more)} more runs wait`;
    await errors.line(`${waits}; "waymark show TASK" shows how to answer each.`);
  }
}

/** Returns the last events of a task, oldest first. */
export async function listEvents(session: QuerySession, taskId: string): Promise<readonly ListedEvent[]> {
  return (await readEvents(session, taskId)).map(({ value: _value, ...event }) => event);
}

/** Like {@link listEvents}, with the values. */
export async function readEvents(session: QuerySession, taskId: string): Promise<readonly ShownEvent[]> {
  return (await allEvents(session, taskId)).slice(-MOST_EVENTS);
}

async function allEvents(session: QuerySession, taskId: string): Promise<readonly ShownEvent[]> {
  if (session.storage.log === undefined) return [];
  try {
    return (await (await session.configured()).events(taskId)).map(shownEvent);
  } catch (error) {
    if (error instanceof CheckpointCorruptError) await session.damage.warn(error.message);
    else if (!isKeyMissing(error)) throw error;
    const headers = await listEventHeaders(session.storage, taskId);
    return headers.map(({ sequence: _sequence, refusal: _refusal, ...event }) => event);
  }
}

function shownEvent({ id, name, by, sentAt, status, wait, error, value }: TaskEvent): ShownEvent {
  return {
    ...{ id, name, sentAt, status },
    ...(wait && { wait }),
    ...(by !== undefined && { by }),
    ...(error && { reason: error.message }),
    ...(value !== undefined && { value: plainJson(value) }),
  };
}

/** Finds an event by its id; `undefined` if there is none. */
export async function findEvent(
  session: QuerySession,
  taskId: string,
  id: string,
): Promise<Pick<ListedEvent, "status" | "reason"> | undefined> {
  const found = (await allEvents(session, taskId)).find((event) => event.id === id);
  return found && { status: found.status, ...(found.reason !== undefined && { reason: found.reason }) };
}
