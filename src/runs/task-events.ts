import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { checkId, checkTaskId, checkText } from "../contract/arguments.js";
import { type CheckpointSummary, toFailure } from "../contract/checkpoint.js";
import { CheckpointConflictError, StateInvalidError } from "../contract/errors.js";
import { eventsTaskId, isEventsTask, readSender, type TaskEvent } from "../contract/task-events.js";
import { checkOptions } from "../manager/check-options.js";
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
    checkOptions("SendOptions", options, { id: checkId, by: (what, by) => checkText(what, by, 1) });
    const { id, by } = options;
    checkTaskId(eventsTaskId(taskId));
    if (isEventsTask(taskId)) throw new TypeError("An event is sent to a task, not to the task of its events.");
    const { maxPayloadBytes, redaction } = this.#store.options;
    const subject = `The value of ${eventTitle(taskId, name)}`;
    const encoded = encodeJson(value, maxPayloadBytes, subject, redaction?.result(name), true);
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
    const events: TaskEvent[] = [];
    for await (const text of this.#store.events(taskId)) events.push(decodeEvent(taskId, text));
    return events;
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
      const { text, summary } = await this.#store.reader.textById(eventsTaskId(taskId), id);
      // The order of keys may differ, as it does between two deliveries of a webhook.
      if (summary.stage === name && canonicalText(text) === canonicalText(encoded.text)) return summary;
      throw new CheckpointConflictError(
        `The ${eventTitle(taskId, name)} was not sent: the task has an event with the same id and another name or value. ` +
          "Its first form counts; nothing was stored.",
        { cause },
      );
    }
  }
}

/**
 * The events that one attempt of a run receives. No event up to a certain sequence is pending. It remembers that
 * sequence, and reads only later events.
 */
export class RunEvents {
  readonly #store: RunStore;
  readonly #taskId: string;
  #settled = 0;

  constructor(store: RunStore, taskId: string) {
    this.#store = store;
    this.#taskId = taskId;
  }

  /**
   * The first event with this name that no wait has received. If the schema refuses an event's value, the event is
   * marked as refused, and the next one is taken.
   */
  async next(name: string, schema: StateSchema | undefined): Promise<NextEvent | undefined> {
    const taskId = this.#taskId;
    const { notifications, options } = this.#store;
    for await (const text of this.#store.pendingEvents(taskId, name, this.#settled)) {
      const sent = decodeEvent(taskId, text);
      const { id } = sent;
      const title = eventTitle(taskId, name);
      try {
        const value = schema
          ? decodeWithSchema(schema, sent.value, `The schema refuses the value of ${title}`)
          : sent.value;
        return { event: { ...sent, value, status: "received" }, sent: sent.value };
      } catch (error) {
        if (!(error instanceof StateInvalidError)) throw error;
        await this.#store.refuseEvent(taskId, id, toFailure(error));
        options.logger.warn({ taskId, name, id, error }, `The ${title} was refused; the wait stays open`);
        notifications.emit("eventRefused", { taskId, name, id, error });
      }
    }
    return undefined;
  }

  /** Marks events as received, so that no other wait receives them. */
  async receive(ids: ReadonlySet<string>): Promise<void> {
    this.#settled = await this.#store.receiveEvents(this.#taskId, ids, this.#settled);
  }
}

const STATUSES = { running: "pending", paused: "pending", completed: "received", failed: "refused" } as const;

function eventTitle(taskId: string, name: string): string {
  return `event ${JSON.stringify(name)} of task ${JSON.stringify(taskId)}`;
}

function decodeEvent(taskId: string, { encoding, text, summary }: CheckpointText): TaskEvent {
  const { id, stage: name = "", createdAt: sentAt, status, error } = summary;
  const by = readSender(summary);
  const value =
    encoding === "json-run" ? undefined : decodeJson(encoding, text, `The value of ${eventTitle(taskId, name)}`);
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
