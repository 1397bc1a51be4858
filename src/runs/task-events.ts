import { type EncodedState, encodeJson } from "../codec/json.js";
import { checkId, checkTaskId, checkText } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointConflictError } from "../contract/errors.js";
import type { LogRecord, RecordDraft, RecordHeader, RecordKind } from "../contract/log.js";
import type { SendOptions, TaskEvent } from "../contract/task-events.js";
import { readWaits } from "../contract/transient.js";
import { checkOptions } from "../manager/check-options.js";
import { draftEncoded } from "../manager/record-drafts.js";
import { readEventHeaders } from "./event-headers.js";
import { decodeEvent, eventTitle, readRefusal } from "./run-events.js";
import { ANY_TASK, type RunStore } from "./run-store.js";
import { canonicalText, joinFields } from "./step-values.js";

/** @internal Sends and lists the events of all tasks. They are records of the task's own log. */
export class TaskEvents {
  readonly #store: RunStore;

  constructor(store: RunStore) {
    this.#store = store;
  }

  async send(taskId: string, name: string, value: unknown, options: SendOptions): Promise<string> {
    checkTaskId(taskId);
    checkId("An event's name", name);
    const checkBy = (what: string, by: string) => checkText(what, by, 1);
    checkOptions("SendOptions", options, { id: checkId, by: checkBy, wait: checkBy });
    const { id = this.#store.options.runtime.randomUUID(), by, wait } = options;
    const { maxPayloadBytes, redaction } = this.#store.options;
    const subject = `The value of ${eventTitle(taskId, name)}`;
    const encoded = encodeJson(value, maxPayloadBytes, subject, redaction?.result(name), true);
    const event = { taskId, kind: "event", name, id, ...(wait !== undefined && { recordKey: wait }) } as const;
    const joined = joinFields(by === undefined ? {} : { by }, ["value", encoded]);
    await this.#append(taskId, await draftEncoded(this.#store.options, event, joined), encoded);
    this.#store.notifications.emit("eventSent", { taskId, name, id, ...(by !== undefined && { by }) });
    this.#store.wake(taskId);
    this.#store.wake(ANY_TASK);
    return id;
  }

  async list(taskId: string): Promise<TaskEvent[]> {
    checkTaskId(taskId);
    const newest = await this.#store.newestOfRun(taskId);
    const headers = await readEventHeaders(taskId, newest, (query) => this.#store.records(query));
    const known = new Map(headers.map((header) => [header.sequence, header]));
    const events: TaskEvent[] = [];
    for await (const record of this.#store.records({ taskId, order: "oldest", kinds: ["event"] })) {
      const { status = "pending", refusal, wait } = known.get(record.sequence) ?? {};
      const error = refusal === undefined ? undefined : readRefusal(await this.#readValue(taskId, refusal, "run"));
      const fate = { status, ...(wait && { wait }), ...(error && { error }) };
      events.push(await decodeEvent(this.#store, record, fate));
    }
    return events;
  }

  /**
   * Appends an event. If the task waits for it, it is due in the same step. A run that is being suspended meanwhile sees
   * the event, or this sees that the run waits.
   */
  async #append(taskId: string, draft: RecordDraft, value: EncodedState): Promise<void> {
    for (;;) {
      const { sequence, summary } = await this.#readNewest(taskId);
      const isAwaited =
        summary && summary.status === "paused" && readWaits(summary)?.waitsFor.includes(draft.name ?? "");
      const dueAt = isAwaited ? new Date(this.#store.options.clock()).toISOString() : undefined;
      try {
        await this.#store.appendRecords(taskId, [draft], { expectedSequence: sequence }, { dueAt });
        return;
      } catch (error) {
        if (!(error instanceof CheckpointConflictError)) throw error;
        const now = await this.#readNewest(taskId);
        // Lost a race with a checkpoint: the run may wait for the event now.
        if (now.sequence !== sequence) continue;
        await this.#assertSent(taskId, draft, value, error);
        return;
      }
    }
  }

  /** The newest checkpoint. If it is damaged, only its sequence is known, if at all. */
  async #readNewest(
    taskId: string,
  ): Promise<{ readonly sequence: number | undefined; readonly summary?: CheckpointSummary }> {
    const newest = await this.#store.firstCheckpoint({ taskId, order: "newest" });
    if (newest === undefined) return { sequence: 0 };
    return isCorrupt(newest) ? { sequence: newest.sequence } : { sequence: newest.sequence, summary: newest };
  }

  /**
   * Refuses an event whose id belongs to another one. The order of keys may differ, as it does between two deliveries of
   * a webhook, and so may the sender and the ciphertext. A value that was removed can't be compared, so the id decides.
   */
  async #assertSent(taskId: string, { id, name }: RecordDraft, value: EncodedState, cause: Error): Promise<void> {
    const query = { taskId, order: "newest", kinds: ["event"] } as const;
    for await (const header of this.#store.records({ ...query, headersOnly: true })) {
      if (header.id !== id) continue;
      if (header.name === name && (await this.#isValue(header, value))) return;
      break;
    }
    throw new CheckpointConflictError(
      `The ${eventTitle(taskId, name ?? "")} was not sent: the task has an event with the same id and another name or value. ` +
        "Its first form counts; nothing was stored.",
      { cause },
    );
  }

  /** Whether the event of this header has the value, or none any more. */
  async #isValue({ taskId, sequence }: LogRecord | RecordHeader, value: EncodedState): Promise<boolean> {
    const sent = await this.#readValue(taskId, sequence, "event");
    if (sent === undefined) return true;
    const stored = typeof sent === "object" && sent !== null && "value" in sent ? sent.value : undefined;
    return canonicalText(encodeJson(stored, Number.POSITIVE_INFINITY).text) === canonicalText(value.text);
  }

  /** The value of a record; `undefined` if the record or its body is gone. */
  async #readValue(taskId: string, sequence: number, kind: RecordKind): Promise<unknown> {
    const record = await this.#store.recordAt(taskId, sequence, kind);
    return record && this.#store.readValue(record);
  }
}
