import { setImmediate as nextTurn } from "node:timers/promises";
import type { StepHead } from "../codec/run-body.js";
import { StorageError } from "../contract/errors.js";
import { stepTitle } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import type { StateSchema } from "../manager/schema.js";
import { type Entry, waitsIn } from "./journal.js";
import { assertKind } from "./steps.js";
import type { NextEvent } from "./task-events.js";
import type { AttemptParts, NamedStep, TurnCalls } from "./turn-calls.js";

/** The options of `run.waitFor`. */
export interface WaitOptions<Value = unknown> {
  readonly timeoutMs?: number | undefined;
  readonly schema?: StateSchema<unknown, Value> | undefined;
}

/** Events from other processes are polled for. The interval doubles from the first to the last. */
const FIRST_POLL_MS = 250;
const LAST_POLL_MS = 2000;
/** The longest time limit of a wait: 100 years. */
export const MAX_WAIT_MS = 100 * 366 * 24 * 60 * 60 * 1000;
/** A longer sleep is divided, since a machine that sleeps stops the timers of its processes. */
const MAX_NAP_MS = 60_000;
/** A worker's run that has only waited for so long is suspended. */
const SUSPENDS_AFTER_MS = 250;

/** The record of a wait. */
type WaitHead = StepHead & Required<Pick<StepHead, "waitsFor">>;

/** The sleeps, and the waits for events, of one turn. */
export class Waits {
  readonly #parts: AttemptParts;
  readonly #calls: TurnCalls;
  readonly #waiting = new Set<WaitHead>();
  readonly #polls = new Set<Promise<unknown>>();
  readonly #over = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: AttemptParts, calls: TurnCalls) {
    this.#parts = parts;
    this.#calls = calls;
  }

  async sleep(step: NamedStep, untilMs: number): Promise<void> {
    const recorded = this.#findRecorded(step, "sleep");
    if (recorded?.head.status === "completed") return;
    const begun = this.#begin(step, "sleep", untilMs, recorded);
    await this.#poll(begun, recorded, async () => undefined);
    await this.#pollOthers();
    await this.#end(begun, undefined, undefined);
  }

  async event(step: NamedStep, { timeoutMs, schema }: WaitOptions): Promise<TaskEvent | undefined> {
    const { name, title } = step;
    const { values } = this.#parts;
    const recorded = this.#findRecorded(step, "event");
    if (recorded?.head.status === "completed") {
      const { event } = recorded.head;
      const value = event && values.decodeResult(title, recorded.value ?? "null", schema);
      return event && { name, value, status: "received", ...event };
    }
    const limitMs = timeoutMs === undefined ? undefined : this.#nowMs() + timeoutMs;
    const begun = this.#begin(step, "event", limitMs, recorded);
    const found = await this.#poll(begun, recorded, () => this.#nextEvent(name, schema));
    this.#throwIfOver();
    await this.#end(begun, found?.event, found && values.encodeResult(step, found.sent).text);
    return found?.event;
  }

  /** Ends the waits that are under way, without recording their end. Call it once the run's function has ended. */
  end(): void {
    clearTimeout(this.#timer);
    this.#over.abort();
  }

  /** Whether a wait rejected with this error because {@link end} has ended it. */
  isEndReason(error: unknown): boolean {
    return this.#over.signal.aborted && error === this.#over.signal.reason;
  }

  /** Call it when a call of the turn has ended. If nothing but waits is under way for a while, the run is suspended. */
  suspendSoon(): void {
    const { suspend, stop } = this.#parts;
    if (suspend === undefined) return;
    clearTimeout(this.#timer);
    if (stop.signal.aborted || !this.#hasOnlyWaits()) return;
    this.#timer = setTimeout(() => {
      if (this.#hasOnlyWaits()) suspend(waitsIn([...this.#waiting]));
    }, SUSPENDS_AFTER_MS).unref();
  }

  async #nextEvent(name: string, schema: StateSchema | undefined): Promise<NextEvent | undefined> {
    const polling = this.#parts.events.next(name, schema);
    this.#polls.add(polling);
    try {
      return await polling;
    } catch (error) {
      // If the storage fails, the run's function hasn't failed.
      if (error instanceof StorageError) this.#parts.stop.stop(error);
      throw error;
    } finally {
      this.#polls.delete(polling);
    }
  }

  /** Lets the waits beside a sleep that is over poll once more: an event that came in time ends its wait first. */
  async #pollOthers(): Promise<void> {
    const { store, taskId } = this.#parts;
    store.wake(taskId);
    await nextTurn();
    await Promise.allSettled(this.#polls);
    await nextTurn();
    this.#throwIfOver();
  }

  #throwIfOver(): void {
    this.#parts.stop.signal.throwIfAborted();
    this.#over.signal.throwIfAborted();
  }

  #findRecorded(step: NamedStep, kind: WaitHead["waitsFor"]): Entry | undefined {
    const { store, taskId, journal } = this.#parts;
    const recorded = journal.steps.find(step);
    if (recorded === undefined) return undefined;
    assertKind(taskId, step.title, recorded, kind);
    recorded.isUsed = true;
    if (recorded.head.status === "completed") store.notifications.emit("stepReused", this.#details(step));
    return recorded;
  }

  /** The record of the wait's start, from this attempt or an earlier one. */
  #begin(
    { name, occurrence }: NamedStep,
    waitsFor: WaitHead["waitsFor"],
    untilMs: number | undefined,
    recorded: Entry | undefined,
  ): WaitHead {
    if (recorded !== undefined) return { ...recorded.head, waitsFor };
    return {
      name,
      occurrence,
      waitsFor,
      status: "started",
      startedAt: new Date(this.#nowMs()).toISOString(),
      ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }),
      runAttempt: this.#parts.journal.head.attempt,
    };
  }

  /**
   * Resolves to what `poll` finds, or to `undefined` once the wait's time is over. Records the start of the wait, so that a
   * resume knows its end.
   *
   * @throws The reason of the run's stop.
   */
  async #poll<Found>(
    begun: WaitHead,
    recorded: Entry | undefined,
    poll: () => Promise<Found | undefined>,
  ): Promise<Found | undefined> {
    const { store, taskId, journal, stop } = this.#parts;
    const { waitsFor, until } = begun;
    const untilMs = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until);
    let found = await poll();
    if (found !== undefined || untilMs <= this.#nowMs()) return found;
    const signal = AbortSignal.any([stop.signal, this.#over.signal]);
    this.#waiting.add(begun);
    this.suspendSoon();
    try {
      if (recorded === undefined) await journal.record(begun, undefined);
      store.notifications.emit("waitStarted", {
        ...this.#details(begun),
        waitsFor,
        ...(until !== undefined && { until }),
      });
      for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(2 * pauseMs, LAST_POLL_MS)) {
        const leftMs = Math.max(0, untilMs - this.#nowMs());
        await store.pause(taskId, Math.min(leftMs, waitsFor === "sleep" ? MAX_NAP_MS : pauseMs), signal);
        signal.throwIfAborted();
        found = await poll();
        if (found !== undefined || untilMs <= this.#nowMs()) return found;
      }
    } finally {
      this.#waiting.delete(begun);
    }
  }

  /** Records the end of a wait. @param value - The text of the event's value. */
  async #end(begun: WaitHead, event: TaskEvent | undefined, value: string | undefined): Promise<void> {
    const { store, journal } = this.#parts;
    const durationMs = Math.max(0, this.#nowMs() - Date.parse(begun.startedAt));
    const origin = event && {
      event: { id: event.id, ...(event.by !== undefined && { by: event.by }), sentAt: event.sentAt },
    };
    const entry = await journal.record({ ...begun, status: "completed", durationMs, ...origin }, value);
    await this.#calls.inOrder(entry, event && (() => this.#receive(event, begun)));
    const { waitsFor } = begun;
    store.notifications.emit("waitEnded", { ...this.#details(begun), waitsFor, durationMs, ...origin });
  }

  /** Marks the event that has ended a wait as received. */
  async #receive({ id }: TaskEvent, begun: WaitHead): Promise<void> {
    const { journal, events, stop } = this.#parts;
    // The function has ended without the event, so the next wait of its name gets it.
    if (this.#over.signal.aborted && !stop.signal.aborted) {
      journal.steps.add({ head: begun, value: undefined });
      this.#over.signal.throwIfAborted();
    }
    try {
      await events.receive(new Set([id]));
    } catch (error) {
      // The next attempt marks the event before it continues, so no other wait receives it.
      stop.stop(error);
      throw error;
    }
  }

  #hasOnlyWaits(): boolean {
    return this.#waiting.size > 0 && this.#waiting.size === this.#calls.underWay;
  }

  #details({ name, occurrence }: Pick<StepHead, "name" | "occurrence">) {
    const { taskId, journal } = this.#parts;
    return { taskId, turn: journal.head.turn, step: stepTitle(name, occurrence) };
  }

  #nowMs(): number {
    return this.#parts.store.options.clock();
  }
}
