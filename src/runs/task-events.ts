import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { checkId, checkKeys, checkTaskId, checkText, keysOf } from "../contract/arguments.js";
import { type CheckpointSummary, failureOf } from "../contract/checkpoint.js";
import { CheckpointConflictError, StateInvalidError } from "../contract/errors.js";
import { eventsTaskId, isEventsTask, readSender, type TaskEvent } from "../contract/task-events.js";
import type { CheckpointText } from "../manager/reader.js";
import { decodeWithSchema, type StateSchema } from "../manager/schema.js";
import { ANY_TASK, type RunStore } from "./run-store.js";
import { canonicalText } from "./step-values.js";

/** The options of `manager.send`. */
export interface SendOptions {
  readonly id?: string | undefined;
  readonly by?: string | undefined;
}

/** A pending event, decoded by a wait's schema, and its value as it was sent. */
export interface NextEvent {
  readonly event: TaskEvent;
  readonly sent: unknown;
}

/**
 * The events of all tasks. A task's events are the checkpoints of its companion task (see contract/task-events.ts): the
 * stage is the event's name, and the status is `paused` until a wait has received it, then `completed`.
 */
export class TaskEvents {
  readonly #store: RunStore;

  constructor(store: RunStore) {
    this.#store = store;
  }

  async send(taskId: string, name: string, value: unknown, options: SendOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkId("An event's name", name);
    checkKeys("SendOptions", options, keysOf<SendOptions>({ id: true, by: true }));
    const { id, by } = options;
    if (id !== undefined) checkId("SendOptions.id", id);
    if (by !== undefined) checkText("SendOptions.by", by, 1);
    const companion = eventsTaskId(taskId);
    checkTaskId(companion);
    if (isEventsTask(taskId)) throw new TypeError("An event is sent to a task, not to the task of its events.");
    const encoded = this.#encoded(taskId, name, value);
    const sent = await this.#append(taskId, encoded, { id, name, by });
    // This is done for a repeated event, too, since the sender may have been killed before it.
    await this.#store.makeDueIfEventPending(taskId);
    this.#store.notifications.emit("eventSent", { taskId, name, id: sent.id, ...(by !== undefined && { by }) });
    this.#store.wake(taskId);
    this.#store.wake(ANY_TASK);
    return sent;
  }

  async list(taskId: string): Promise<TaskEvent[]> {
    checkTaskId(taskId);
    const found: TaskEvent[] = [];
    for await (const text of this.#store.events(taskId)) found.push(this.#event(taskId, text));
    return found;
  }

  /**
   * The first event with this name that no wait has received. If the schema refuses an event's value, the event is
   * marked as refused, and the next one is taken.
   *
   * @param settled - No event up to this sequence is pending, so only later ones are read.
   */
  async next(
    taskId: string,
    name: string,
    schema: StateSchema | undefined,
    settled: number,
  ): Promise<NextEvent | undefined> {
    const { notifications, options } = this.#store;
    for await (const text of this.#store.pendingEvents(taskId, name, settled)) {
      const event = this.#event(taskId, text);
      const sent = event.value;
      if (schema === undefined) return { event: { ...event, status: "received" }, sent };
      try {
        const value = decodeWithSchema(schema, sent, `The schema refuses the value of ${titleOf(taskId, name)}`);
        return { event: { ...event, value, status: "received" }, sent };
      } catch (error) {
        if (!(error instanceof StateInvalidError)) throw error;
        await this.#store.refuseEvent(taskId, event.id, failureOf(error));
        options.logger.warn(
          { taskId, name, id: event.id, error },
          `The ${titleOf(taskId, name)} was refused; the wait stays open`,
        );
        notifications.emit("eventRefused", { taskId, name, id: event.id, error });
      }
    }
    return undefined;
  }

  /** If an event with this id was sent before, its first form counts. */
  async #append(
    taskId: string,
    encoded: EncodedState,
    event: { readonly id: string | undefined; readonly name: string; readonly by: string | undefined },
  ): Promise<CheckpointSummary> {
    const { id, name } = event;
    try {
      return await this.#store.appendEvent(taskId, encoded, event);
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError) || id === undefined) throw cause;
      const { text, summary } = await this.#store.textById(eventsTaskId(taskId), id);
      // The order of keys may differ, as it does between two deliveries of a webhook.
      if (summary.stage === name && canonicalText(text) === canonicalText(encoded.text)) return summary;
      throw new CheckpointConflictError(
        `The ${titleOf(taskId, name)} was not sent: the task has an event with the same id and another name or value. ` +
          "Its first form counts; nothing was stored.",
        { cause },
      );
    }
  }

  #encoded(taskId: string, name: string, value: unknown): EncodedState {
    const { maxPayloadBytes, redaction } = this.#store.options;
    const subject = `The value of ${titleOf(taskId, name)}`;
    const { encoding, text } = encodeJson(value, maxPayloadBytes, subject, redaction?.result(name), true);
    return { encoding, text };
  }

  #event(taskId: string, { encoding, text, summary }: CheckpointText): TaskEvent {
    const { id, stage: name = "", createdAt: sentAt, status, error } = summary;
    const by = readSender(summary);
    const subject = `The value of ${titleOf(taskId, name)}`;
    const value = encoding === "json-run" ? undefined : decodeJson(encoding, text, subject);
    return {
      name,
      value,
      id,
      sentAt,
      ...(by !== undefined && { by }),
      status: STATUSES[status],
      ...(error && { error }),
    };
  }
}

/**
 * The events that one attempt of a run receives. No event up to a certain sequence is pending. It remembers that
 * sequence, and reads only later events.
 */
export class RunEvents {
  readonly #store: RunStore;
  readonly #events: TaskEvents;
  readonly #taskId: string;
  #settled = 0;

  constructor(store: RunStore, taskId: string) {
    this.#store = store;
    this.#events = new TaskEvents(store);
    this.#taskId = taskId;
  }

  /** See {@link TaskEvents.next}. */
  next(name: string, schema: StateSchema | undefined): Promise<NextEvent | undefined> {
    return this.#events.next(this.#taskId, name, schema, this.#settled);
  }

  /** Marks events as received, so that no other wait receives them. */
  async receive(ids: ReadonlySet<string>): Promise<void> {
    this.#settled = await this.#store.receiveEvents(this.#taskId, ids, this.#settled);
  }
}

const STATUSES = { running: "pending", paused: "pending", completed: "received", failed: "refused" } as const;

function titleOf(taskId: string, name: string): string {
  return `event ${JSON.stringify(name)} of task ${JSON.stringify(taskId)}`;
}
