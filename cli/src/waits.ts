import type { CheckpointSummary, RunRecord } from "waymark";
import {
  dueAtOf,
  isCancelled,
  isCorrupt,
  isOfRun,
  NEVER,
  type RunWaits,
  senderOf,
  signalsOf,
  waitsOf,
} from "waymark/adapter";
import type { Session } from "./cli.js";
import { DamagedCheckpointError } from "./damage.js";
import { isKeyMissing } from "./key-advice.js";
import { type PlainJson, plainJson } from "./plain-json.js";
import { printable } from "./printable.js";
import { readableSummaries, readStored } from "./read-stored.js";
import type { QuerySession } from "./store.js";
import { countText, timeText } from "./words.js";

/** A wait of a run that hasn't ended. */
export interface PendingWait {
  /** `sleep`: for a time. `signal`: for a signal of this name. */
  readonly kind: "sleep" | "signal";
  readonly name: string;
  readonly since: string;
  /** When a sleep ends, or the time limit of a wait for a signal. */
  readonly until?: string;
}

/** A signal as its summary tells about it, without its value. */
export interface ListedSignal {
  readonly id: string;
  readonly name: string;
  readonly by?: string;
  readonly sentAt: string;
  readonly status: SignalStatus;
  /** Why it was refused. */
  readonly reason?: string;
}

/** A signal with its value as plain JSON. There is none if none was sent, or it can't be read. */
export interface ShownSignal extends ListedSignal {
  readonly value?: PlainJson;
}

export type SignalStatus = "pending" | "received" | "refused";

/** Said of a run that nobody runs and that waits for nothing. */
const DUE = "due: a worker or the next run goes on with it";
const SHOWN_ANSWERS = 3;
const MOST_SIGNALS = 10;
/** Stands for the value of a signal in a command to copy. */
const VALUE = "…";

/** What a task waits for, by its newest checkpoint. */
export function waitsOfTask(newest: CheckpointSummary): RunWaits | undefined {
  return newest.status === "completed" || newest.status === "failed" ? undefined : waitsOf(newest);
}

/** Whether a run failed, and `waymark retry` put it back. It keeps its error. */
export function isPutBack(newest: CheckpointSummary): boolean {
  return newest.status === "paused" && newest.error !== undefined && isOfRun(newest);
}

/** Whether the task's run failed, so that workers take it only after `waymark retry`. */
export function canRetry(newest: CheckpointSummary): boolean {
  return newest.status === "failed" && isOfRun(newest) && !isCancelled(newest);
}

/**
 * Says for people why a run stands that nobody runs: `waits for "approve"`, or that it is due. `undefined` if no run
 * saved the checkpoint, or the run has ended.
 */
export function standText(newest: CheckpointSummary, nowMs: number): string | undefined {
  const dueAt = dueAtOf(newest);
  if (dueAt === undefined) return undefined;
  if (isPutBack(newest)) return `put back; it failed with: ${newest.error?.message}`;
  const waits = waitsOfTask(newest);
  return waits === undefined || Date.parse(dueAt) <= nowMs ? DUE : waitsText(waits);
}

/** `waits for "approve" and "note", until 2026-11-21 10:00:05 UTC at most`, `waits until 2026-11-21 10:00:05 UTC` */
export function waitsText({ dueAt, waitsFor }: RunWaits): string {
  const until = `until ${timeText(dueAt)} UTC`;
  if (waitsFor.length === 0) return `waits ${until}`;
  const names = waitsFor.map((name) => JSON.stringify(name)).join(" and ");
  return `waits for ${names}${dueAt === NEVER ? "" : `, ${until} at most`}`;
}

/**
 * The waits of a task's run.
 *
 * @param run - The record of the task's newest checkpoint; `undefined` if it can't be read.
 */
export function pendingWaits(newest: CheckpointSummary, run: RunRecord | undefined): readonly PendingWait[] {
  if (dueAtOf(newest) === undefined) return [];
  const { createdAt: since } = newest;
  if (run === undefined) {
    const names = waitsOfTask(newest)?.waitsFor ?? [];
    return names.map((name) => ({ kind: "signal", name, since }));
  }
  return run.steps.flatMap(({ name, status, waitsFor: kind, startedAt, until }) =>
    kind === undefined || status !== "started"
      ? []
      : [{ kind, name, since: startedAt, ...(until !== undefined && { until }) }],
  );
}

/** The command that answers a wait for a signal. */
export function answerCommand({ commandText }: Pick<Session, "commandText">, taskId: string, name: string): string {
  return commandText("signal", [taskId, name, VALUE]);
}

/** Collects the waits of listed tasks, and says below the list how to answer the first of them. */
export class Answers {
  readonly #session: Session;
  readonly #commands: string[] = [];
  /** Runs that wait and whose commands aren't shown. */
  #more = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Gives the tasks on. */
  async *from<Task extends { readonly taskId: string; readonly waits?: RunWaits }>(
    tasks: AsyncIterable<Task>,
  ): AsyncGenerator<Task, void, void> {
    for await (const task of tasks) {
      this.add(task.taskId, task.waits?.waitsFor ?? []);
      yield task;
    }
  }

  add(taskId: string, names: readonly string[]): void {
    if (names.length > 0 && this.#commands.length >= SHOWN_ANSWERS) this.#more += 1;
    else this.#commands.push(...names.map((name) => answerCommand(this.#session, taskId, name)));
  }

  async print(): Promise<void> {
    const { output, errors } = this.#session;
    // Standard error isn't gathered: without this, it would come before the list.
    await output.flush();
    for (const command of this.#commands) await errors.line(printable(`To answer: ${command}`));
    if (this.#more === 0) return;
    const waits = this.#more === 1 ? "1 more run waits" : `${countText(this.#more)} more runs wait`;
    await errors.line(`${waits}; "waymark show TASK" says how to answer each.`);
  }
}

/** The last signals of a task, the oldest first. Damaged ones are reported. */
export async function listSignals(session: QuerySession, taskId: string): Promise<readonly ListedSignal[]> {
  return (await lastSignals(session, taskId)).map(listedSignal);
}

/** Like {@link listSignals}, with the values. */
export async function readSignals(session: QuerySession, taskId: string): Promise<readonly ShownSignal[]> {
  const found: ShownSignal[] = [];
  for (const summary of await lastSignals(session, taskId)) {
    const signal = listedSignal(summary);
    try {
      const value = await readStored(session, summary);
      found.push(value === undefined ? signal : { ...signal, value: plainJson(value) });
    } catch (error) {
      if (error instanceof DamagedCheckpointError) await session.damage.add(error.record);
      else if (!isKeyMissing(error)) throw error;
      found.push(signal);
    }
  }
  return found;
}

async function lastSignals(session: QuerySession, taskId: string): Promise<readonly CheckpointSummary[]> {
  const found: CheckpointSummary[] = [];
  const query = { taskId: signalsOf(taskId), order: "newest", limit: MOST_SIGNALS } as const;
  for await (const summary of readableSummaries(session, query)) found.push(summary);
  return found.reverse();
}

function listedSignal(summary: CheckpointSummary): ListedSignal {
  const { id, stage: name = "", createdAt: sentAt, status, error } = summary;
  const by = senderOf(summary);
  const more = { ...(by !== undefined && { by }), ...(error && { reason: error.message }) };
  return { id, name, sentAt, status: SIGNAL_STATUS[status], ...more };
}

/** A signal by its id; `undefined` if there is none, or it is damaged. */
export async function signalOf(
  { storage }: Pick<QuerySession, "storage">,
  taskId: string,
  id: string,
): Promise<Pick<ListedSignal, "status" | "reason"> | undefined> {
  const found = await storage.get(signalsOf(taskId), id);
  if (found === undefined || isCorrupt(found)) return undefined;
  return { status: SIGNAL_STATUS[found.status], ...(found.error && { reason: found.error.message }) };
}

const SIGNAL_STATUS = { running: "pending", paused: "pending", completed: "received", failed: "refused" } as const;
