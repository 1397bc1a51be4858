import { CheckpointError, StateInvalidError } from "../contract/errors.js";
import { stepTitle } from "../contract/run-record.js";
import { nextTurn } from "../contract/runtime.js";
import type { TaskEvent } from "../contract/task-events.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import { anySignal } from "../manager/abort-signals.js";
import { describeSchema, type StateSchema } from "../manager/schema.js";
import { Poller } from "./poller.js";
import { Look } from "./receipt-order.js";
import type { RecordedStep, WaitMark } from "./recorded-turn.js";
import type { WaitOptions } from "./run.js";
import { describeRefusal, eventTitle, type FoundEvent, type PendingEvent } from "./run-events.js";
import { assertKind, makeKey } from "./steps.js";
import type { AttemptParts, NamedStep, TurnCalls } from "./turn-calls.js";

/** The longest time limit of a wait: 100 years. */
export const MAX_WAIT_MS = 100 * 366 * 24 * 60 * 60 * 1000;
/** A longer sleep is divided into parts, since timers stop while the machine sleeps. */
const MAX_NAP_MS = 60_000;
/** A worker's run that has only waited for this long is suspended. */
const SUSPENDS_AFTER_MS = 250;

/** A wait under way. */
interface OpenWait extends WaitMark {
  readonly name: string;
  readonly occurrence: number;
  /** Whether the start of the wait is recorded. */
  readonly isMarked: boolean;
}

/** An event that a wait has taken, with its value. */
interface TakenEvent extends FoundEvent {
  readonly sequence: number;
  /** Ends once the receipt's record has its place in the log. */
  readonly look: Look;
}

/** The sleeps and the waits for events of one turn. */
export class Waits {
  readonly #parts: AttemptParts;
  readonly #calls: TurnCalls;
  readonly #waiting = new Set<OpenWait>();
  /** The work that waits do before they pause, or pause again. */
  readonly #polls = new Set<Promise<unknown>>();
  /** The looks for events under way. */
  readonly #looks = new Set<Look>();
  readonly #over = new AbortController();
  #cancelSuspension: (() => void) | undefined;

  constructor(parts: AttemptParts, calls: TurnCalls) {
    this.#parts = parts;
    this.#calls = calls;
  }

  async sleep(step: NamedStep, untilMs: number): Promise<void> {
    if (this.#isRecorded(step, "sleep")) return;
    const wait = await this.#begin(step, "sleep", untilMs);
    await this.#poll(wait, { signal: this.#endSignal() }, async () => undefined);
    await this.#pollOthers();
    await this.#finish(step, wait);
  }

  async event(step: NamedStep, options: WaitOptions): Promise<TaskEvent | undefined> {
    const { signal } = options;
    if (this.#isRecorded(step, "event")) return this.#replay(step, options);
    const limitMs = options.timeoutMs === undefined ? undefined : this.#nowMs() + options.timeoutMs;
    const wait = await this.#beforePause(this.#begin(step, "event", limitMs));
    let found: TakenEvent | undefined;
    try {
      signal?.throwIfAborted();
      const ending = anySignal(this.#endSignal(), signal);
      found = await this.#poll(wait, { ...options, signal: ending }, () => this.#takeEvent(step, options.schema));
      if (found === undefined) ending.throwIfAborted();
    } catch (error) {
      if (!signal?.aborted || error !== signal.reason || this.#endSignal().aborted) throw error;
      throw await this.#recordAbort(step, wait, error);
    }
    try {
      if (await this.#finish(step, wait, found, signal)) return found?.event;
    } finally {
      found?.look.end();
    }
    throw await this.#recordAbort(step, wait, signal?.reason);
  }

  /** Ends the waits under way without recording their ends. Call this once the run's function has ended. */
  end(): void {
    this.#cancelSuspension?.();
    this.#over.abort();
  }

  /** Whether this error is the one with which {@link end} ended the waits. */
  isEndReason(error: unknown): boolean {
    return this.#over.signal.aborted && error === this.#over.signal.reason;
  }

  /** Call this after each of the turn's calls. Suspends the run once it has only waited for a while. */
  suspendSoon(): void {
    const { store, suspend, stop } = this.#parts;
    if (suspend === undefined) return;
    this.#cancelSuspension?.();
    if (stop.signal.aborted || !this.#hasOnlyWaits()) return;
    const suspendIfIdle = () => {
      const waits = this.findWaits();
      if (waits !== undefined && this.#hasOnlyWaits()) suspend(waits);
    };
    this.#cancelSuspension = store.options.runtime.setTimeout(suspendIfIdle, SUSPENDS_AFTER_MS, true);
  }

  /** Whether the events read so far include a pending one for one of the turn's waits. */
  isAnswered(): boolean {
    const { events, taskId, journal } = this.#parts;
    return [...this.#waiting].some(
      (wait) => wait.waitsFor === "event" && events.hasPending(wait.name, makeKey(taskId, journal.head, wait)),
    );
  }

  /** Returns the names of the events that the turn waits for, and when the first of its waits ends. */
  findWaits(): RunWaits | undefined {
    const waits = [...this.#waiting];
    if (waits.length === 0) return undefined;
    const [dueAt = NEVER] = waits.flatMap(({ until }) => until ?? []).sort();
    return { dueAt, waitsFor: waits.flatMap(({ waitsFor, name }) => (waitsFor === "event" ? name : [])) };
  }

  /** Replays the recorded end of a wait for an event. */
  async #replay(step: NamedStep, { signal, schema }: WaitOptions): Promise<TaskEvent | undefined> {
    const { recorded, name, title } = step;
    if (recorded === undefined) return undefined;
    const { value, step: receipt } = recorded;
    if (value.status === "failed")
      throw this.#calls.addThrown(step, signal?.aborted ? signal.reason : value.error, receipt.sequence);
    const { event: sequence } = receipt;
    const deliver = async () => sequence === undefined || this.#deliver(step, sequence, receipt, signal);
    if (!(await this.#calls.inOrder(receipt.sequence, deliver)))
      throw await this.#recordAbort(step, { waitsFor: "event", startedAt: value.startedAt }, signal?.reason);
    const { event } = value;
    return (
      event && {
        name,
        value: this.#parts.values.decodeStored(title, value.result, schema),
        status: "received",
        ...event,
      }
    );
  }

  /**
   * Gives an event to the function when its receipt is next in the order of results. A signal may abort earlier or
   * later in a resume, so a second record shows whether the function got the event. The second record is stored before
   * the function continues.
   *
   * @returns False if the wait's signal has aborted. The receipt is then taken back.
   */
  async #deliver(
    { occurrence }: NamedStep,
    event: number,
    { sequence, isUndecided }: Pick<RecordedStep, "sequence" | "isUndecided">,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { events, journal } = this.#parts;
    this.#assertContinues();
    if (signal !== undefined && isUndecided) {
      const key = { occurrence, event };
      if (signal.aborted) {
        void journal.note({ kind: "run", ...key, fields: { type: "dropped", dropped: [[sequence, sequence]] } });
        events.giveBack(event);
        return false;
      }
      await journal.note({ kind: "mark", ...key });
      this.#assertContinues();
    }
    events.settle(event);
    return true;
  }

  /** @throws The reason why the function mustn't get an event. */
  #assertContinues(): void {
    // If the run pauses, nothing is decided: the function gets the event after the resume.
    this.#parts.stop.signal.throwIfAborted();
    // If the turn is over, the event becomes pending again.
    if (!this.#isOver()) return;
    this.#over.abort();
    this.#over.signal.throwIfAborted();
  }

  /**
   * Records that a signal has ended its wait, so that a resume ends the wait at the same place among the results.
   *
   * @returns The signal's reason, once the record is next in the order of results.
   */
  async #recordAbort(step: NamedStep, { waitsFor, startedAt }: WaitMark, reason: unknown): Promise<unknown> {
    const { journal, values, stop } = this.#parts;
    const fields = { status: "failed", waitsFor, startedAt };
    const encoded = ["error", values.encodeError(step, reason)] as const;
    const sequence = await journal.recordStep(step, { fields, encoded }, true);
    await this.#calls.inOrder(sequence);
    stop.signal.throwIfAborted();
    return this.#calls.addThrown(step, reason, sequence);
  }

  /** Whether the function has ended. */
  #isOver(): boolean {
    return this.#calls.isOver || this.#over.signal.aborted;
  }

  /** Takes the next event of the wait's name that its schema accepts, so that no other wait receives the event. */
  async #takeEvent(step: NamedStep, schema: StateSchema | undefined): Promise<TakenEvent | undefined> {
    const { events, stop, taskId, journal } = this.#parts;
    const key = makeKey(taskId, journal.head, step);
    const look = new Look(this.#looks);
    try {
      const found = await this.#findEvent(step, key, schema);
      if (found !== undefined) await look.found(found.sequence);
      if (found !== undefined && !stop.signal.aborted && !this.#over.signal.aborted) return { ...found, look };
      if (found !== undefined) events.giveBack(found.sequence);
      look.end();
      return undefined;
    } catch (error) {
      look.end();
      // If the storage fails, the run is stopped, since its function hasn't failed.
      if (error instanceof CheckpointError && !(error instanceof StateInvalidError)) stop.stop(error);
      throw error;
    }
  }

  async #findEvent(step: NamedStep, key: string, schema: StateSchema | undefined) {
    const { events } = this.#parts;
    for (;;) {
      const pending = await events.find(step.name, key);
      if (pending === undefined) return undefined;
      // Another wait must not find the event while its value is read.
      events.take(pending);
      const found = await events.load(pending, schema);
      if (!("refused" in found)) return { ...found, sequence: pending.sequence };
      await this.#refuse(step, pending, found.id, found.refused);
    }
  }

  /** Records that the schema refuses an event, so that no wait receives it. */
  async #refuse(
    step: NamedStep,
    { sequence, name }: PendingEvent,
    id: string,
    error: StateInvalidError,
  ): Promise<void> {
    const { store, taskId, journal, events } = this.#parts;
    const fields = describeRefusal(error, store.options.redaction);
    await journal.append({ kind: "run", name, occurrence: step.occurrence, event: sequence, fields });
    events.settle(sequence);
    store.options.logger.warn(
      { taskId, name, id, error },
      `The ${eventTitle(taskId, name)} was refused; the wait stays open`,
    );
    store.notifications.emit("eventRefused", { taskId, name, id, error });
  }

  /**
   * Once a sleep is over, lets the other waits poll once more, so that an event that arrived in time ends its wait
   * first.
   */
  async #pollOthers(): Promise<void> {
    const { store, taskId } = this.#parts;
    store.wake(taskId);
    await nextTurn(store.options.runtime);
    // A wait that was still beginning, or whose poll had begun before the event arrived, polls again.
    while (this.#polls.size > 0) {
      await Promise.allSettled(this.#polls);
      await nextTurn(store.options.runtime);
    }
    this.#endSignal().throwIfAborted();
  }

  /** Lets {@link #pollOthers} wait for `work`, which a wait does before it pauses. */
  async #beforePause<Result>(work: Promise<Result>): Promise<Result> {
    this.#polls.add(work);
    try {
      return await work;
    } finally {
      this.#polls.delete(work);
    }
  }

  /** Aborts when the run stops, or when the turn is over. */
  #endSignal(): AbortSignal {
    return anySignal(this.#parts.stop.signal, this.#over.signal);
  }

  /** Whether an earlier attempt has recorded the end of the wait. */
  #isRecorded({ title, recorded }: NamedStep, kind: WaitMark["waitsFor"]): boolean {
    const { store, taskId, journal } = this.#parts;
    if (recorded === undefined) return false;
    assertKind(taskId, title, recorded.value, kind);
    recorded.step.isUsed = true;
    store.notifications.emit("stepReused", { taskId, turn: journal.head.turn, step: title });
    return true;
  }

  /**
   * Returns the wait, with the start that an earlier attempt recorded. If the wait had no time limit then and has one
   * now, it starts anew.
   */
  async #begin(step: NamedStep, waitsFor: WaitMark["waitsFor"], untilMs: number | undefined): Promise<OpenWait> {
    const { name, occurrence } = step;
    const { recorded } = this.#parts.journal;
    const begun = recorded && (await recorded.findOpenWait(step));
    const isSame = begun?.waitsFor === waitsFor && (begun.until !== undefined || untilMs === undefined);
    if (isSame) return { ...begun, name, occurrence, isMarked: true };
    const startedAt = new Date(this.#nowMs()).toISOString();
    const until = untilMs === undefined ? undefined : new Date(untilMs).toISOString();
    return { name, occurrence, isMarked: false, waitsFor, startedAt, ...(until !== undefined && { until }) };
  }

  /**
   * Resolves to the result of `poll`, or to `undefined` once the wait's time is over. Records the start of the wait, so
   * that a resume waits until the same time.
   *
   * @throws The reason of the signal.
   */
  async #poll<Found>(
    wait: OpenWait,
    options: WaitOptions & { readonly signal: AbortSignal },
    poll: () => Promise<Found | undefined>,
  ): Promise<Found | undefined> {
    const { store, taskId, stop } = this.#parts;
    const { waitsFor, until } = wait;
    const { signal } = options;
    const untilMs = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until);
    const poller = new Poller(store, taskId);
    try {
      for (let idlePolls = 0; ; idlePolls++) {
        poller.begin();
        const found = await this.#beforePause(poll());
        if (found !== undefined || untilMs <= this.#nowMs()) return found;
        if (!this.#waiting.has(wait)) await this.#beforePause(this.#beginWaiting(wait, options));
        const leftMs = Math.max(0, untilMs - this.#nowMs());
        if (waitsFor === "sleep") await poller.pause(Math.min(leftMs, MAX_NAP_MS), signal);
        else await poller.pauseForChange(signal, { idlePolls, mostMs: leftMs });
        signal.throwIfAborted();
      }
    } finally {
      poller.end();
      // If the run stops, the wait stays in the set, since the record of a pause names the waits that the pause
      // interrupted.
      if (!stop.signal.aborted) this.#waiting.delete(wait);
    }
  }

  async #beginWaiting(wait: OpenWait, options: WaitOptions): Promise<void> {
    const { waitsFor, until } = wait;
    this.#waiting.add(wait);
    this.suspendSoon();
    if (!wait.isMarked) await this.#markStart(wait, options);
    const details = { ...this.#details(wait), waitsFor, ...(until !== undefined && { until }) };
    this.#parts.store.notifications.emit("waitStarted", details);
  }

  /** Records the start of a wait. The record is synced if the wait has a time limit. */
  async #markStart({ name, occurrence, isMarked: _, ...mark }: OpenWait, { ask, schema }: WaitOptions): Promise<void> {
    const { journal, taskId } = this.#parts;
    const key = makeKey(taskId, journal.head, { name, occurrence });
    const question = ask === undefined ? undefined : { question: ask, schema: describeSchema(schema) };
    const fields = { ...mark, key, ...(question && { ask: question }) };
    await journal.append({ kind: "mark", name, occurrence, fields }, mark.until === undefined);
  }

  /**
   * Records the end of a wait, and gives its event to the function in the order of the log.
   *
   * @returns False if the wait's signal has aborted meanwhile. The event is then pending again.
   */
  async #finish(step: NamedStep, wait: OpenWait, found?: TakenEvent, signal?: AbortSignal): Promise<boolean> {
    const { journal, values, store } = this.#parts;
    const { waitsFor, startedAt, until } = wait;
    const durationMs = Math.max(0, this.#nowMs() - Date.parse(startedAt));
    const event = found && { event: readOrigin(found.event) };
    const times = { startedAt, ...(until !== undefined && { until }), durationMs };
    const fields = { status: "completed", waitsFor, ...times, ...event, ...(found && signal && { hasSignal: true }) };
    const encoded = found && (["result", values.encodeResult(step, found.sent)] as const);
    const recording = journal.recordStep(step, { event: found?.sequence, fields, encoded });
    found?.look.end();
    const sequence = await recording;
    const receipt = { sequence, isUndecided: true };
    const isGiven = await this.#calls.inOrder(
      sequence,
      async () => found === undefined || this.#deliver(step, found.sequence, receipt, signal),
    );
    if (isGiven) store.notifications.emit("waitEnded", { ...this.#details(wait), waitsFor, durationMs, ...event });
    return isGiven;
  }

  #hasOnlyWaits(): boolean {
    return this.#waiting.size > 0 && this.#waiting.size === this.#calls.underWay;
  }

  #details({ name, occurrence }: Pick<OpenWait, "name" | "occurrence">) {
    const { taskId, journal } = this.#parts;
    return { taskId, turn: journal.head.turn, step: stepTitle(name, occurrence) };
  }

  #nowMs(): number {
    return this.#parts.store.options.clock();
  }
}

function readOrigin({ id, by, sentAt }: TaskEvent) {
  return { id, ...(by !== undefined && { by }), sentAt };
}
