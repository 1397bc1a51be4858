import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { checkId, checkKeys, checkTaskId, checkText, keysOf } from "../contract/arguments.js";
import { type CheckpointSummary, failureOf } from "../contract/checkpoint.js";
import { CheckpointConflictError, StateInvalidError } from "../contract/errors.js";
import { isSignals, type Signal, senderOf, signalsOf } from "../contract/signals.js";
import type { CheckpointText } from "../manager/reader.js";
import { decodeWithSchema, type StateSchema } from "../manager/schema.js";
import { ANY_TASK, type RunStore } from "./run-store.js";
import { canonicalText } from "./step-values.js";

/** The options of `manager.signal`. */
export interface SignalOptions {
  readonly id?: string | undefined;
  readonly by?: string | undefined;
}

/** A pending signal, decoded by a wait's schema, and its value as it was sent. */
interface NextSignal {
  readonly signal: Signal;
  readonly sent: unknown;
}

/**
 * The signals of all tasks. A task's signals are the checkpoints of its companion task (see contract/signals.ts): the
 * stage is the signal's name, and the status is `paused` until a wait has received it, then `completed`.
 */
export class Signals {
  readonly #store: RunStore;

  constructor(store: RunStore) {
    this.#store = store;
  }

  async send(taskId: string, name: string, value: unknown, options: SignalOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkId("A signal's name", name);
    checkKeys("SignalOptions", options, keysOf<SignalOptions>({ id: true, by: true }));
    const { id, by } = options;
    if (id !== undefined) checkId("SignalOptions.id", id);
    if (by !== undefined) checkText("SignalOptions.by", by, 1);
    const companion = signalsOf(taskId);
    checkTaskId(companion);
    if (isSignals(taskId)) throw new TypeError("A signal is sent to a task, not to the task of its signals.");
    const encoded = this.#encoded(taskId, name, value);
    const sent = await this.#append(taskId, encoded, { id, name, by });
    // This is done for a repeated signal, too, since the sender may have been killed before it.
    await this.#store.makeDueIfSignalled(taskId);
    this.#store.events.emit("signalled", { taskId, name, id: sent.id, ...(by !== undefined && { by }) });
    this.#store.wake(taskId);
    this.#store.wake(ANY_TASK);
    return sent;
  }

  async all(taskId: string): Promise<Signal[]> {
    checkTaskId(taskId);
    const found: Signal[] = [];
    for await (const text of this.#store.signals(taskId)) found.push(this.#signal(taskId, text));
    return found;
  }

  /**
   * The first signal with this name that no wait has received. If the schema refuses a signal's value, the signal is
   * marked as refused, and the next one is taken.
   *
   * @param settled - No signal up to this sequence is pending, so only later ones are read.
   */
  async next(
    taskId: string,
    name: string,
    schema: StateSchema | undefined,
    settled: number,
  ): Promise<NextSignal | undefined> {
    const { events, options } = this.#store;
    for await (const text of this.#store.pendingSignals(taskId, name, settled)) {
      const signal = this.#signal(taskId, text);
      const sent = signal.value;
      if (schema === undefined) return { signal: { ...signal, status: "received" }, sent };
      try {
        const value = decodeWithSchema(schema, sent, `The schema refuses the value of ${titleOf(taskId, name)}`);
        return { signal: { ...signal, value, status: "received" }, sent };
      } catch (error) {
        if (!(error instanceof StateInvalidError)) throw error;
        await this.#store.refuseSignal(taskId, signal.id, failureOf(error));
        options.logger.warn(
          { taskId, name, id: signal.id, error },
          `The ${titleOf(taskId, name)} was refused; the wait goes on`,
        );
        events.emit("signalRefused", { taskId, name, id: signal.id, error });
      }
    }
    return undefined;
  }

  /** If a signal with this id was sent before, its first form counts. */
  async #append(
    taskId: string,
    encoded: EncodedState,
    signal: { readonly id: string | undefined; readonly name: string; readonly by: string | undefined },
  ): Promise<CheckpointSummary> {
    const { id, name } = signal;
    try {
      return await this.#store.appendSignal(taskId, encoded, signal);
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError) || id === undefined) throw cause;
      const { text, summary } = await this.#store.textById(signalsOf(taskId), id);
      // The order of keys may differ, as it does between two deliveries of a webhook.
      if (summary.stage === name && canonicalText(text) === canonicalText(encoded.text)) return summary;
      throw new CheckpointConflictError(
        `The ${titleOf(taskId, name)} was not sent: the task has a signal with the same id and another name or value. ` +
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

  #signal(taskId: string, { encoding, text, summary }: CheckpointText): Signal {
    const { id, stage: name = "", createdAt: sentAt, status, error } = summary;
    const by = senderOf(summary);
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
 * The signals that one attempt of a run receives. No signal up to a certain sequence is pending. It remembers that
 * sequence, and reads only later signals.
 */
export class RunSignals {
  readonly #store: RunStore;
  readonly #signals: Signals;
  readonly #taskId: string;
  #settled = 0;

  constructor(store: RunStore, taskId: string) {
    this.#store = store;
    this.#signals = new Signals(store);
    this.#taskId = taskId;
  }

  /** See {@link Signals.next}. */
  next(name: string, schema: StateSchema | undefined): Promise<NextSignal | undefined> {
    return this.#signals.next(this.#taskId, name, schema, this.#settled);
  }

  /** Marks signals as received, so that no other wait receives them. */
  async receive(ids: ReadonlySet<string>): Promise<void> {
    this.#settled = await this.#store.receiveSignals(this.#taskId, ids, this.#settled);
  }
}

const STATUSES = { running: "pending", paused: "pending", completed: "received", failed: "refused" } as const;

function titleOf(taskId: string, name: string): string {
  return `signal ${JSON.stringify(name)} of task ${JSON.stringify(taskId)}`;
}
