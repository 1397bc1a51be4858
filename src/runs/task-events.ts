import { type EncodedState, encodeJson } from "../codec/json.js";
import { checkBoolean, checkId, checkTaskId, checkText } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointConflictError } from "../contract/errors.js";
import type { LogRecord, RecordDraft, RecordHeader, RecordKind } from "../contract/log.js";
import type { SendOptions, TaskEvent } from "../contract/task-events.js";
import { isCancelled, readWaits } from "../contract/transient.js";
import { checkOptions } from "../manager/check-options.js";
import { draftEncoded } from "../manager/record-drafts.js";
import { type EventHeader, readEventHeaders, readOpenWaits } from "./event-headers.js";
import { decodeEvent, eventTitle, readRefusal } from "./run-events.js";
import { ANY_TASK, type RunStore } from "./run-store.js";
import { canonicalText, joinFields } from "./step-values.js";

/** @internal Sends and lists the events of all tasks. Each event is a record in its task's log. */
export class TaskEvents {
  readonly #store: RunStore;

  constructor(store: RunStore) {
    this.#store = store;
  }

  async send(taskId: string, name: string, value: unknown, options: SendOptions): Promise<string> {
    checkTaskId(taskId);
    checkId("An event's name", name);
    const checkBy = (what: string, by: string) => checkText(what, by, 1);
    checkOptions("SendOptions", options, { id: checkId, by: checkBy, wait: checkBy, force: checkBoolean });
    const { id = this.#store.options.runtime.randomUUID(), by, wait, force = false } = options;
    const { maxPayloadBytes, redaction } = this.#store.options;
    const subject = `The value of ${eventTitle(taskId, name)}`;
    const encoded = encodeJson(value, maxPayloadBytes, subject, redaction?.result(name), true);
    const event = { taskId, kind: "event", name, id, ...(wait !== undefined && { recordKey: wait }) } as const;
    const joined = joinFields(by === undefined ? {} : { by }, ["value", encoded]);
    await this.#append(taskId, await draftEncoded(this.#store.options, event, joined), encoded, force);
    if (wait !== undefined && !force) await this.#assertReached({ taskId, name, id, wait });
    this.#store.notifications.emit("eventSent", { taskId, name, id, ...(by !== undefined && { by }) });
    this.#store.wake(taskId);
    this.#store.wake(ANY_TASK);
    return id;
  }

  async list(taskId: string): Promise<TaskEvent[]> {
    checkTaskId(taskId);
    const headers = await this.#listHeaders(taskId);
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
   * Appends an event. If the task waits for it, the same atomic write makes the task due. If the run is being suspended
   * at that moment, either the run sees the event or this call sees the wait.
   */
  async #append(taskId: string, draft: RecordDraft, value: EncodedState, force: boolean): Promise<void> {
    for (;;) {
      const { sequence, summary } = await this.#readNewest(taskId);
      const noEventAfter = force ? undefined : await this.#assertReceivable(taskId, draft, summary);
      const isAwaited =
        summary && summary.status === "paused" && readWaits(summary)?.waitsFor.includes(draft.name ?? "");
      const dueAt = isAwaited ? new Date(this.#store.options.clock()).toISOString() : undefined;
      try {
        await this.#store.appendRecords(taskId, [draft], { expectedSequence: sequence, noEventAfter }, { dueAt });
        return;
      } catch (error) {
        if (!(error instanceof CheckpointConflictError)) throw error;
        const now = await this.#readNewest(taskId);
        // Lost a race with a checkpoint or an event: the run may wait for this event now, or may have ended.
        if (now.sequence !== sequence || noEventAfter !== undefined) continue;
        await this.#assertSent(taskId, draft, value, error);
        return;
      }
    }
  }

  /**
   * Refuses an event that no wait of the task would receive. An event with a stored id passes: it may have been sent
   * while the task still waited for it.
   *
   * @returns The sequence of the task's last event if the event is for one wait, else `undefined`. The check holds
   *   until the next event.
   * @throws {CheckpointConflictError} The task is completed or cancelled, or the wait is answered or over.
   */
  async #assertReceivable(
    taskId: string,
    { id, name = "", recordKey: wait }: RecordDraft,
    newest: CheckpointSummary | undefined,
  ): Promise<number | undefined> {
    const hasEnded = newest !== undefined && (newest.status === "completed" || isCancelled(newest));
    if (!hasEnded && wait === undefined) return undefined;
    const events = await this.#listHeaders(taskId);
    if (events.some((event) => event.id === id)) return undefined;
    const notSent = `The ${eventTitle(taskId, name)} was not sent`;
    if (hasEnded) {
      const end = isCancelled(newest) ? `was cancelled (${newest.error?.message})` : "is completed";
      throw new CheckpointConflictError(
        `${notSent}: its task ${end}, so nothing receives it. Nothing was stored. To keep the event for a run with ` +
          "`restart: true`, pass `force: true`, or --force to the command.",
      );
    }
    const open = await readOpenWaits(taskId, name, await this.#store.newestOfRun(taskId), (query) =>
      this.#store.records(query),
    );
    if (wait === undefined || !open.has(wait)) {
      throw new CheckpointConflictError(
        `${notSent}: the wait ${wait} isn't open. It has ended, or belongs to another task or name. ` +
          "Nothing was stored. `waymark show` and the `mark` records list the open waits with their keys.",
      );
    }
    const answer = events.find(
      (event) => event.name === name && event.status === "pending" && (event.wait?.key ?? wait) === wait,
    );
    if (answer !== undefined) {
      throw new CheckpointConflictError(
        `${notSent}: the wait ${wait} is answered by event ${JSON.stringify(answer.id)}, which its run receives next. ` +
          "Nothing was stored.",
      );
    }
    return events.at(-1)?.sequence ?? 0;
  }

  /** @throws {CheckpointConflictError} The wait ended before it received the event. */
  async #assertReached({
    taskId,
    name,
    id,
    wait,
  }: Pick<EventHeader, "name" | "id"> & { taskId: string; wait: string }) {
    const isMissed = async () => {
      const sent = (await this.#listHeaders(taskId)).find((event) => event.id === id);
      return sent?.status === "pending" && sent.wait?.isOpen === false;
    };
    // The receipts are read before the waits. A second check finds a receipt that was recorded between the two reads.
    if (!(await isMissed()) || !(await isMissed())) return;
    throw new CheckpointConflictError(
      `The wait ${wait} ended before it received the ${eventTitle(taskId, name)}. The event is stored as ${JSON.stringify(id)}, ` +
        "and no wait receives it. To answer the next wait of this name, send it again with another id and without `wait`.",
    );
  }

  async #listHeaders(taskId: string): Promise<readonly EventHeader[]> {
    const newest = await this.#store.newestOfRun(taskId);
    return readEventHeaders(taskId, newest, (query) => this.#store.records(query));
  }

  /** Reads the newest checkpoint. If it is damaged, returns only its sequence, if that is known. */
  async #readNewest(
    taskId: string,
  ): Promise<{ readonly sequence: number | undefined; readonly summary?: CheckpointSummary }> {
    const newest = await this.#store.firstCheckpoint({ taskId, order: "newest" });
    if (newest === undefined) return { sequence: 0 };
    return isCorrupt(newest) ? { sequence: newest.sequence } : { sequence: newest.sequence, summary: newest };
  }

  /**
   * Refuses an event whose id belongs to a different event. The order of keys in the value may differ (as between two
   * deliveries of a webhook), and so may the sender and the ciphertext. If the value was removed, only the id and the
   * name are compared.
   */
  async #assertSent(taskId: string, { id, name }: RecordDraft, value: EncodedState, cause: Error): Promise<void> {
    const query = { taskId, order: "newest", kinds: ["event"] } as const;
    for await (const header of this.#store.records({ ...query, headersOnly: true })) {
      if (header.id !== id) continue;
      if (header.name === name && (await this.#isValue(header, value))) return;
      break;
    }
    throw new CheckpointConflictError(
      `The ${eventTitle(taskId, name ?? "")} was not sent: the task already has an event with the same id but another name or value. ` +
        "That event is kept; nothing was stored.",
      { cause },
    );
  }

  /** True if the event of this header has this value. Also true if the event has lost its value. */
  async #isValue({ taskId, sequence }: LogRecord | RecordHeader, value: EncodedState): Promise<boolean> {
    const sent = await this.#readValue(taskId, sequence, "event");
    if (sent === undefined) return true;
    const stored = typeof sent === "object" && sent !== null && "value" in sent ? sent.value : undefined;
    return canonicalText(encodeJson(stored, Number.POSITIVE_INFINITY).text) === canonicalText(value.text);
  }

  /** Reads the value of a record; `undefined` if the record or its body is gone. */
  async #readValue(taskId: string, sequence: number, kind: RecordKind): Promise<unknown> {
    const record = await this.#store.recordAt(taskId, sequence, kind);
    return record && this.#store.readValue(record);
  }
}
