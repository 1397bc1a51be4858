import { type CheckpointFailure, isJsonObject, toFailure } from "../contract/checkpoint.js";
import { CheckpointCorruptError, StateInvalidError } from "../contract/errors.js";
import type { LogRecord, RecordHeader } from "../contract/log.js";
import { readFailure } from "../contract/parse-summary.js";
import { addReceived, isReceived, NOTHING_RECEIVED, type ReceivedEvents } from "../contract/run-note.js";
import type { TaskEvent } from "../contract/task-events.js";
import type { Redaction } from "../manager/redaction.js";
import { decodeWithSchema, type StateSchema } from "../manager/schema.js";
import type { RecordedTurn } from "./recorded-turn.js";
import type { RunStore } from "./run-store.js";

/** An event that no wait has received. */
export interface PendingEvent {
  readonly sequence: number;
  readonly name: string;
  /** The key of the wait that the event was sent to; `undefined` if it is for the next wait of its name. */
  readonly wait: string | undefined;
}

interface TakenEvent extends PendingEvent {
  wait: string | undefined;
  /** True once the function has received the event, or a schema has refused it. */
  isSettled: boolean;
}

/** An event as a wait receives it. */
export interface FoundEvent {
  /** The event, its value decoded by the wait's schema. */
  readonly event: TaskEvent;
  /** The value as it was sent. */
  readonly sent: unknown;
}

/** The value of an event's record. */
interface EventValue {
  readonly by?: string;
  readonly value?: unknown;
}

/** How many headers of events are read at a time. */
const PAGE_EVENTS = 1000;

/** Tracks which events of a task its run has received, and finds the next ones. */
export class RunEvents {
  readonly #store: RunStore;
  readonly #taskId: string;
  readonly #lastSequence: () => number;
  #received: ReceivedEvents;
  /** The events that no wait has received, by name, in the order of their sequences. */
  readonly #pending = new Map<string, PendingEvent[]>();
  /** The events, by sequence, that a wait of the turn has received or a schema has refused in the turn. */
  readonly #taken = new Map<number, TakenEvent>();
  #readTo: number;
  #reading: Promise<boolean> | undefined;

  /**
   * @param received - The events that the run received before the turn.
   * @param recorded - The recorded part of the turn.
   * @param lastSequence - Returns the last known sequence of the task. Default: 0.
   */
  constructor(
    store: RunStore,
    taskId: string,
    received: ReceivedEvents = NOTHING_RECEIVED,
    recorded?: RecordedTurn,
    lastSequence = () => 0,
  ) {
    this.#store = store;
    this.#taskId = taskId;
    this.#received = received;
    this.#readTo = received[0]?.[1] ?? 0;
    this.#lastSequence = lastSequence;
    for (const { event, name } of recorded?.all() ?? []) if (event !== undefined) this.#take(event, name, false);
    for (const { sequence, name } of recorded?.refused ?? []) this.#take(sequence, name, true);
  }

  /** All events up to this sequence are known. */
  get readTo(): number {
    return this.#readTo;
  }

  /**
   * Finds the first pending event with this name that is for the wait with this key or for any wait. Reads as many new
   * events as needed.
   */
  async find(name: string, wait: string): Promise<PendingEvent | undefined> {
    for (;;) {
      const found = this.#findPending(name, wait);
      if (found !== undefined) return found;
      if (!(await this.#readMore())) return undefined;
    }
  }

  /** Reads all new events. */
  async readAll(): Promise<void> {
    while (await this.#readMore());
  }

  /** Whether the events read so far include one that {@link find} would return. */
  hasPending(name: string, wait: string): boolean {
    return this.#findPending(name, wait) !== undefined;
  }

  /** Reads an event. If the schema refuses its value, returns the schema's error and the event's id instead. */
  async load(
    { sequence, name }: PendingEvent,
    schema: StateSchema | undefined,
  ): Promise<FoundEvent | { readonly refused: StateInvalidError; readonly id: string }> {
    const record = await this.#store.recordAt(this.#taskId, sequence, "event");
    if (record === undefined) {
      throw new CheckpointCorruptError(
        `Event ${sequence} of task ${JSON.stringify(this.#taskId)} is gone. Nothing was changed; restore it from a backup, or send it again.`,
      );
    }
    const { id = "", createdAt: sentAt } = record;
    const { by, value: sent } = toEventValue(await this.#store.readValue(record));
    const event = { name, value: sent, id, sentAt, ...(by !== undefined && { by }), status: "received" } as const;
    if (schema === undefined) return { event, sent };
    try {
      const value = decodeWithSchema(schema, sent, `The schema refuses the value of ${eventTitle(this.#taskId, name)}`);
      return { event: { ...event, value }, sent };
    } catch (error) {
      if (error instanceof StateInvalidError) return { refused: error, id };
      throw error;
    }
  }

  /** Takes a pending event for a wait whose receipt is about to be recorded. */
  take({ sequence, name }: PendingEvent): void {
    const pending = this.#pending.get(name) ?? [];
    const at = pending.findIndex((event) => event.sequence === sequence);
    const [event] = at === -1 ? [] : pending.splice(at, 1);
    this.#take(sequence, name, false, event?.wait);
  }

  /** Call this when the function gets the event, or when a schema has refused it. */
  settle(sequence: number): void {
    const taken = this.#taken.get(sequence);
    if (taken !== undefined) taken.isSettled = true;
  }

  /** Makes an event pending again, unless its wait has given it to the function. */
  giveBack(sequence: number): void {
    const event = this.#taken.get(sequence);
    if (event === undefined || event.isSettled) return;
    this.#taken.delete(sequence);
    // If the event hasn't been read yet, `#readPage` will add it.
    if (sequence <= this.#readTo) this.#addPending(event);
  }

  /**
   * Returns the events that the run has received by the end of its turn. Events that no wait gave to the function
   * become pending again.
   */
  async endTurn(): Promise<ReceivedEvents | undefined> {
    // After a resume, pending events below a recorded receipt may be unknown.
    const last = Math.max(0, ...this.#taken.keys());
    while (this.#readTo < last && (await this.#readMore()));
    for (const sequence of [...this.#taken.keys()]) this.giveBack(sequence);
    if (this.#taken.size > 0) {
      this.#received = addReceived(this.#received, [...this.#taken.keys()], (after, before) =>
        this.#mayPend(after, before),
      );
      this.#taken.clear();
    }
    return this.#received === NOTHING_RECEIVED ? undefined : this.#received;
  }

  /** {@link endTurn} for a turn that isn't continued. All its receipts count. */
  async abandonTurn(): Promise<ReceivedEvents> {
    for (const event of this.#taken.values()) event.isSettled = true;
    return (await this.endTurn()) ?? NOTHING_RECEIVED;
  }

  #findPending(name: string, wait: string): PendingEvent | undefined {
    return this.#pending.get(name)?.find((event) => event.wait === undefined || event.wait === wait);
  }

  #mayPend(after: number, before: number): boolean {
    if (before > this.#readTo + 1) return true;
    return [...this.#pending.values()].some((events) => {
      const next = events.find(({ sequence }) => sequence > after);
      return next !== undefined && next.sequence < before;
    });
  }

  /** Reads the next page of events. Returns whether there may be more. Concurrent calls share a read. */
  async #readMore(): Promise<boolean> {
    // The read under way may have begun before an event that this call must see.
    if (this.#reading !== undefined && (await this.#reading)) return true;
    this.#reading ??= this.#readPage().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readPage(): Promise<boolean> {
    let count = 0;
    // Sequences only grow, so no new event can come before a record that was already stored at this read.
    const lastSequence = this.#lastSequence();
    // Skips a long range of received events.
    const isLong = ([first, last]: readonly [number, number]) => last > this.#readTo && last - first >= PAGE_EVENTS;
    const [beforeSequence, end = lastSequence] = this.#received.find(isLong) ?? [];
    const query = { taskId: this.#taskId, order: "oldest", afterSequence: this.#readTo, kinds: ["event"] } as const;
    for await (const { sequence, name = "", recordKey } of this.#store.records({
      ...query,
      beforeSequence,
      headersOnly: true,
      limit: PAGE_EVENTS,
    })) {
      count += 1;
      this.#readTo = sequence;
      const taken = this.#taken.get(sequence);
      // A recorded receipt doesn't show which wait the event was sent to.
      if (taken !== undefined) taken.wait = recordKey;
      else if (!isReceived(this.#received, sequence)) this.#addPending({ sequence, name, wait: recordKey });
    }
    if (count < PAGE_EVENTS) this.#readTo = Math.max(this.#readTo, end);
    return count > 0 || beforeSequence !== undefined;
  }

  #take(sequence: number, name: string, isSettled: boolean, wait?: string): void {
    this.#taken.set(sequence, { sequence, name, wait, isSettled });
  }

  #addPending({ sequence, name, wait }: PendingEvent): void {
    const pending = this.#pending.get(name) ?? [];
    this.#pending.set(name, pending);
    const at = pending.findLastIndex((event) => event.sequence < sequence) + 1;
    pending.splice(at, 0, { sequence, name, wait });
  }
}

/** Decodes an event's value. Returns the event with its status, its wait or its error. */
export async function decodeEvent(
  store: RunStore,
  record: LogRecord | RecordHeader,
  fate: Pick<TaskEvent, "status" | "wait" | "error">,
): Promise<TaskEvent> {
  const { id = "", name = "", createdAt: sentAt } = record;
  const { by, value } = toEventValue(await store.readValue(record));
  return { name, value, id, sentAt, ...(by !== undefined && { by }), ...fate };
}

export function eventTitle(taskId: string, name: string): string {
  return `event ${JSON.stringify(name)} of task ${JSON.stringify(taskId)}`;
}

/** Makes the value of the record that shows that a schema has refused an event. */
export function describeRefusal(error: unknown, redaction: Redaction | undefined): object {
  return { type: "refused", error: redaction?.failure(error) ?? toFailure(error) };
}

function toEventValue(value: unknown): EventValue {
  if (typeof value !== "object" || value === null) return {};
  const by = "by" in value && typeof value.by === "string" ? value.by : undefined;
  return { ...(by !== undefined && { by }), ...("value" in value && { value: value.value }) };
}

/** Reads the error from a value that {@link describeRefusal} made. */
export function readRefusal(value: unknown): CheckpointFailure | undefined {
  return isJsonObject(value) ? readFailure(value["error"]) : undefined;
}
