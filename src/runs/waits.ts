import { setImmediate as nextTurn } from "node:timers/promises";
import type { StepHead } from "../codec/run-body.js";
import { StorageError } from "../contract/errors.js";
import { type StepRecord, stepTitle } from "../contract/run-record.js";
import type { TaskEvent } from "../contract/task-events.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import type { StateSchema } from "../manager/schema.js";
import type { RunJournal } from "./journal.js";
import type { RunStore } from "./run-store.js";
import type { Entry } from "./step-entries.js";
import type { StepValues } from "./step-values.js";
import { assertKind } from "./steps.js";
import type { StopSignal } from "./stops.js";
import type { RunEvents } from "./task-events.js";
import type { NamedStep, TurnCalls } from "./turn-calls.js";

/** The options of `run.waitFor`. */
export interface WaitOptions<Value = unknown> {
  readonly timeoutMs?: number | undefined;
  readonly schema?: StateSchema<unknown, Value> | undefined;
}

/** Events from other processes are polled for. The interval doubles from the first to the last. */
const FIRST_POLL_MS = 250;
const LAST_POLL_MS = 2000;
/** The longest time limit of a wait: 100 years. */
export const LONGEST_WAIT_MS = 100 * 366 * 24 * 60 * 60 * 1000;
/** A longer sleep is divided, since a machine that sleeps stops the timers of its processes. */
const LONGEST_NAP_MS = 60_000;
/** A worker's run that has only waited for so long is suspended. */
const SUSPENDS_AFTER_MS = 250;

/** A wait that is under way. */
interface Wait {
  readonly untilMs: number | undefined;
  /** The event's name; `undefined` for a sleep. */
  readonly name: string | undefined;
}

/** The sleeps, and the waits for events, of one turn. */
export class Waits {
  readonly #store: RunStore;
  readonly #taskId: string;
  readonly #journal: RunJournal;
  readonly #values: StepValues;
  readonly #events: RunEvents;
  readonly #stop: StopSignal;
  readonly #calls: TurnCalls;
  readonly #suspend: ((waits: RunWaits) => void) | undefined;
  readonly #waiting = new Set<Wait>();
  readonly #polls = new Set<Promise<unknown>>();
  readonly #over = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: {
    readonly store: RunStore;
    readonly taskId: string;
    readonly journal: RunJournal;
    readonly values: StepValues;
    readonly events: RunEvents;
    readonly stop: StopSignal;
    readonly calls: TurnCalls;
    /** Given if the run is suspended while it only waits. */
    readonly suspend: ((waits: RunWaits) => void) | undefined;
  }) {
    this.#store = parts.store;
    this.#taskId = parts.taskId;
    this.#journal = parts.journal;
    this.#values = parts.values;
    this.#events = parts.events;
    this.#stop = parts.stop;
    this.#calls = parts.calls;
    this.#suspend = parts.suspend;
  }

  async sleep(step: NamedStep, untilMs: number): Promise<void> {
    const recorded = this.#recorded(step, "sleep");
    if (recorded?.head.status === "completed") return;
    const begun = recorded?.head ?? this.#begun(step, "sleep", untilMs);
    const wait = { untilMs: Date.parse(begun.until ?? ""), name: undefined };
    const poll = async () => (wait.untilMs <= this.#nowMs() ? true : undefined);
    if (wait.untilMs > this.#nowMs()) await this.#waitedFor(wait, begun, recorded, poll);
    await this.#othersPolled();
    await this.#ended(begun, undefined, undefined);
  }

  async event(step: NamedStep, { timeoutMs, schema }: WaitOptions): Promise<TaskEvent | undefined> {
    const { name, title } = step;
    const recorded = this.#recorded(step, "event");
    if (recorded?.head.status === "completed") {
      const { event } = recorded.head;
      if (event === undefined) return undefined;
      const value = this.#values.result(title, recorded.value ?? "null", schema);
      return { name, value, status: "received", ...event };
    }
    const limitMs = timeoutMs === undefined ? undefined : this.#nowMs() + timeoutMs;
    const poll = () => this.#orStopped(() => this.#events.next(name, schema));
    const begun = recorded?.head ?? this.#begun(step, "event", limitMs);
    const untilMs = begun.until === undefined ? undefined : Date.parse(begun.until);
    const isOver = () => untilMs !== undefined && untilMs <= this.#nowMs();
    let found = await poll();
    if (found === undefined && !isOver()) {
      const last = await this.#waitedFor({ untilMs, name }, begun, recorded, async () => {
        const next = await poll();
        return next !== undefined || isOver() ? { next } : undefined;
      });
      found = last.next;
    }
    this.#throwIfOver();
    await this.#ended(begun, found?.event, found && this.#values.textOfResult(name, title, found.sent, undefined));
    return found?.event;
  }

  /** Ends the waits that are under way, without recording their end. Call it once the run's function has ended. */
  end(): void {
    clearTimeout(this.#timer);
    this.#over.abort();
  }

  /** Whether a wait rejected with this error because {@link end} has ended it. */
  isEndOf(error: unknown): boolean {
    return this.#over.signal.aborted && error === this.#over.signal.reason;
  }

  /** Call it when a call of the turn has ended. If nothing but waits is under way for a while, the run is suspended. */
  suspendSoon(): void {
    if (this.#suspend === undefined) return;
    clearTimeout(this.#timer);
    if (this.#stop.signal.aborted || !this.#hasOnlyWaits()) return;
    this.#timer = setTimeout(() => {
      if (this.#hasOnlyWaits()) this.#suspend?.(this.#all());
    }, SUSPENDS_AFTER_MS).unref();
  }

  /** Stops the run if the storage fails, because then its function hasn't failed. */
  async #orStopped<Found>(poll: () => Promise<Found>): Promise<Found> {
    const polling = poll();
    this.#polls.add(polling);
    try {
      return await polling;
    } catch (error) {
      if (error instanceof StorageError) this.#stop.stop(error);
      throw error;
    } finally {
      this.#polls.delete(polling);
    }
  }

  /** Lets the waits beside a sleep that is over poll once more: an event that came in time ends its wait first. */
  async #othersPolled(): Promise<void> {
    this.#store.wake(this.#taskId);
    await nextTurn();
    await Promise.allSettled(this.#polls);
    await nextTurn();
    this.#throwIfOver();
  }

  #throwIfOver(): void {
    this.#stop.signal.throwIfAborted();
    this.#over.signal.throwIfAborted();
  }

  #recorded({ name, occurrence, title }: NamedStep, kind: StepRecord["waitsFor"]): Entry | undefined {
    const recorded = this.#journal.steps.find({ name, occurrence, status: "completed" });
    if (recorded === undefined) return undefined;
    assertKind(this.#taskId, title, recorded, kind);
    recorded.isUsed = true;
    if (recorded.head.status === "completed") this.#store.notifications.emit("stepReused", this.#told(recorded.head));
    return recorded;
  }

  #begun({ name, occurrence }: NamedStep, waitsFor: "sleep" | "event", untilMs: number | undefined): StepHead {
    return {
      name,
      occurrence,
      waitsFor,
      status: "started",
      startedAt: new Date(this.#nowMs()).toISOString(),
      ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }),
      runAttempt: this.#journal.head.attempt,
    };
  }

  async #ended(begun: StepHead, event: TaskEvent | undefined, value: string | undefined): Promise<void> {
    const durationMs = Math.max(0, this.#nowMs() - Date.parse(begun.startedAt));
    const origin = event && { event: originOf(event) };
    const entry = this.#journal.note({ ...begun, status: "completed", durationMs, ...origin }, value);
    await this.#journal.stored();
    await this.#calls.inOrder(entry, event && (() => this.#receive(event, begun)));
    const { waitsFor = "sleep" } = begun;
    this.#store.notifications.emit("waitEnded", { ...this.#told(begun), waitsFor, durationMs, ...origin });
  }

  /** Marks the event that has ended a wait as received. */
  async #receive({ id }: TaskEvent, begun: StepHead): Promise<void> {
    // The function has ended without the event, so the next wait of its name gets it.
    if (this.#over.signal.aborted && !this.#stop.signal.aborted) {
      this.#journal.note(begun, undefined);
      this.#over.signal.throwIfAborted();
    }
    try {
      await this.#events.receive(new Set([id]));
    } catch (error) {
      // The next attempt marks the event before it continues, so no other wait receives it.
      this.#stop.stop(error);
      throw error;
    }
  }

  /**
   * Records the start of a wait, so that a resume knows its end. Resolves to the first value of `poll` that isn't
   * `undefined`.
   *
   * @throws The reason of the run's stop.
   */
  async #waitedFor<Found>(
    wait: Wait,
    begun: StepHead,
    recorded: Entry | undefined,
    poll: () => Promise<Found | undefined>,
  ): Promise<Found> {
    const signal = AbortSignal.any([this.#stop.signal, this.#over.signal]);
    this.#waiting.add(wait);
    this.suspendSoon();
    try {
      if (recorded === undefined) {
        this.#journal.note(begun, undefined);
        await this.#journal.stored();
      }
      const { waitsFor = "sleep", until } = begun;
      this.#store.notifications.emit("waitStarted", {
        ...this.#told(begun),
        waitsFor,
        ...(until !== undefined && { until }),
      });
      for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(2 * pauseMs, LAST_POLL_MS)) {
        const leftMs = wait.untilMs === undefined ? LONGEST_NAP_MS : Math.max(0, wait.untilMs - this.#nowMs());
        const longestMs = wait.name === undefined ? LONGEST_NAP_MS : pauseMs;
        await this.#store.pause(this.#taskId, Math.min(leftMs, longestMs), signal);
        signal.throwIfAborted();
        const found = await poll();
        if (found !== undefined) return found;
      }
    } finally {
      this.#waiting.delete(wait);
    }
  }

  #hasOnlyWaits(): boolean {
    return this.#waiting.size > 0 && this.#waiting.size === this.#calls.underWay;
  }

  #all(): RunWaits {
    const waits = [...this.#waiting];
    const firstMs = Math.min(...waits.map(({ untilMs = Number.POSITIVE_INFINITY }) => untilMs));
    return {
      dueAt: firstMs === Number.POSITIVE_INFINITY ? NEVER : new Date(firstMs).toISOString(),
      waitsFor: waits.flatMap(({ name }) => name ?? []),
    };
  }

  #told({ name, occurrence }: StepHead) {
    return { taskId: this.#taskId, turn: this.#journal.head.turn, step: stepTitle(name, occurrence) };
  }

  #nowMs(): number {
    return this.#store.options.clock();
  }
}

function originOf({ id, by, sentAt }: TaskEvent): NonNullable<StepRecord["event"]> {
  return { id, ...(by !== undefined && { by }), sentAt };
}
