import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { isCorrupt } from "../contract/adapter.js";
import { checkId, checkKeys, checkTaskId, checkText, keysOf } from "../contract/arguments.js";
import { type CheckpointSummary, failureOf } from "../contract/checkpoint.js";
import { CheckpointConflictError, StateInvalidError } from "../contract/errors.js";
import { isSignals, type Signal, senderOf, signalsOf } from "../contract/signals.js";
import { waitsOf } from "../contract/transient.js";
import type { EventHub } from "../manager/events.js";
import type { ResolvedOptions } from "../manager/options.js";
import type { CheckpointReader, CheckpointText } from "../manager/reader.js";
import { decodeWithSchema, type StateSchema } from "../manager/schema.js";
import type { CheckpointWriter } from "../manager/writer.js";
import { canonicalText } from "./step-values.js";
import { ANY, type Wakers } from "./wakers.js";

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

/** The parts of a manager that its signals use. */
export interface SignalsHost {
  readonly options: ResolvedOptions;
  readonly events: EventHub;
  readonly reader: CheckpointReader;
  readonly writer: CheckpointWriter;
  readonly wakers: Wakers;
}

/**
 * The signals of all tasks. A task's signals are the checkpoints of its companion task (see contract/signals.ts): the
 * stage is the signal's name, and the status is `paused` until a wait has received it, then `completed`.
 */
export class Signals {
  readonly #host: SignalsHost;

  constructor(host: SignalsHost) {
    this.#host = host;
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
    const { events, writer, wakers } = this.#host;
    const encoded = this.#encoded(taskId, name, value);
    const sent = await this.#sent(
      taskId,
      { id, name, encoded },
      writer.appendSignal(companion, encoded, { id, stage: name }, by),
    );
    // This is done for a repeated signal, too, since the sender may have been killed before it.
    await this.wake(taskId);
    events.emit("signalled", { taskId, name, id: sent.id, ...(by !== undefined && { by }) });
    wakers.wake(taskId);
    wakers.wake(ANY);
    return sent;
  }

  async all(taskId: string): Promise<Signal[]> {
    checkTaskId(taskId);
    const found: Signal[] = [];
    for await (const text of this.#host.reader.texts({ taskId: signalsOf(taskId), order: "oldest" })) {
      found.push(this.#signal(taskId, text));
    }
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
    const { events, options, reader } = this.#host;
    for await (const text of reader.texts({ ...pending(taskId, settled), stage: name })) {
      const signal = this.#signal(taskId, text);
      const sent = signal.value;
      if (schema === undefined) return { signal: { ...signal, status: "received" }, sent };
      try {
        const value = decodeWithSchema(schema, sent, `The schema refuses the value of ${titleOf(taskId, name)}`);
        return { signal: { ...signal, value, status: "received" }, sent };
      } catch (error) {
        if (!(error instanceof StateInvalidError)) throw error;
        await options.storage.setStatus(text.summary.taskId, signal.id, { status: "failed", error: failureOf(error) });
        options.logger.warn(
          { taskId, name, id: signal.id, error },
          `The ${titleOf(taskId, name)} was refused; the wait goes on`,
        );
        events.emit("signalRefused", { taskId, name, id: signal.id, error });
      }
    }
    return undefined;
  }

  /**
   * Marks signals as received, so that no other wait receives them.
   *
   * @param settled - No signal up to this sequence is pending, so only later ones are read.
   * @returns The new `settled`.
   */
  async received(taskId: string, ids: ReadonlySet<string>, settled: number): Promise<number> {
    const { storage } = this.#host.options;
    if (ids.size === 0) return settled;
    let [isFirst, last, left] = [true, settled, ids.size];
    for await (const found of storage.list(pending(taskId, settled))) {
      const isReceived = !isCorrupt(found) && ids.has(found.id);
      if (isReceived) await storage.setStatus(found.taskId, found.id, { status: "completed" });
      isFirst &&= isReceived;
      if (isFirst) last = found.sequence ?? last;
      if (isReceived) left -= 1;
      if (left === 0) break;
    }
    return last;
  }

  /** Makes a paused run due if a signal is pending for which it waits. A worker, or the next run, then goes on with it. */
  async wake(taskId: string): Promise<void> {
    const { reader, options } = this.#host;
    for (;;) {
      const newest = await reader.newestWhere(taskId);
      const waits = newest?.status === "paused" ? waitsOf(newest) : undefined;
      if (newest === undefined || waits === undefined || !(await this.#isPending(taskId, waits.waitsFor))) return;
      const condition = { expectedSequence: newest.sequence };
      try {
        if (await options.storage.setStatus(taskId, newest.id, { status: "running" }, condition)) return;
      } catch (error) {
        // Somebody saved meanwhile, so this looks again.
        if (!(error instanceof CheckpointConflictError)) throw error;
      }
    }
  }

  async #isPending(taskId: string, names: readonly string[]): Promise<boolean> {
    for await (const found of this.#host.options.storage.list(pending(taskId))) {
      if (!isCorrupt(found) && names.includes(found.stage ?? "")) return true;
    }
    return false;
  }

  /** If the signal was sent before, by anybody, its first form counts. */
  async #sent(
    taskId: string,
    { id, name, encoded }: { readonly id: string | undefined; readonly name: string; readonly encoded: EncodedState },
    appended: Promise<CheckpointSummary>,
  ): Promise<CheckpointSummary> {
    try {
      return await appended;
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError) || id === undefined) throw cause;
      const { text, summary } = await this.#host.reader.textById(signalsOf(taskId), id);
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
    const { maxPayloadBytes, redaction } = this.#host.options;
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
  readonly #signals: Signals;
  readonly #taskId: string;
  #settled = 0;

  constructor(signals: Signals, taskId: string) {
    this.#signals = signals;
    this.#taskId = taskId;
  }

  /** See {@link Signals.next}. */
  next(name: string, schema: StateSchema | undefined): Promise<NextSignal | undefined> {
    return this.#signals.next(this.#taskId, name, schema, this.#settled);
  }

  /** See {@link Signals.received}. */
  async received(ids: ReadonlySet<string>): Promise<void> {
    this.#settled = await this.#signals.received(this.#taskId, ids, this.#settled);
  }
}

const STATUSES = { running: "pending", paused: "pending", completed: "received", failed: "refused" } as const;

function pending(taskId: string, settled = 0) {
  return { taskId: signalsOf(taskId), order: "oldest", afterSequence: settled, status: ["paused"] } as const;
}

function titleOf(taskId: string, name: string): string {
  return `signal ${JSON.stringify(name)} of task ${JSON.stringify(taskId)}`;
}
