import { once, setMaxListeners } from "node:events";
import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { encodeRunBody, type RunHead, type RunParts } from "../codec/run-body.js";
import { checkTaskId } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { eventMetadata, eventsTaskId } from "../contract/task-events.js";
import type { DueQuery } from "../contract/task-queue.js";
import { isOfRun, isTransient, type RunWaits, readWaits, runMetadata } from "../contract/transient.js";
import { onAbort } from "../manager/abort-signals.js";
import { claimLease, claimNextLeases, type Lease, type LeaseOptions, type TaskLease } from "../manager/lease.js";
import type { NotificationHub } from "../manager/notifications.js";
import type { ResolvedOptions } from "../manager/options.js";
import type { CheckpointReader, CheckpointText } from "../manager/reader.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { CheckpointWriter, UnfinishedDraft } from "../manager/writer.js";

/** A run's checkpoint that is to be appended. */
interface RunDraft extends Pick<SaveOptions, "stage" | "label" | "metadata" | "status" | "error"> {
  readonly isTransient: boolean;
  /** The id of the transient checkpoint that this one replaces. */
  readonly replaces: string | undefined;
  /** Given for a paused run that waits. */
  readonly waits?: RunWaits | undefined;
  /** Whether the run began within another run. */
  readonly isChild?: boolean;
}

/** What an append of a run's checkpoint needs. */
interface RunAppend {
  readonly lease: Lease;
  readonly expectedSequence: number | undefined;
  readonly replaces: string | undefined;
  /** Whether the draft may be stored already. */
  readonly isRetry: boolean;
}

/** The key of calls of {@link RunStore.pause} that wait for any task. */
export const ANY_TASK = "";

/** What runs read and write: checkpoints and events, through the manager's reader and writer, and the tasks' leases. */
export class RunStore {
  readonly options: ResolvedOptions;
  readonly notifications: NotificationHub;
  /** Aborts when the manager closes, which then waits for its runs. */
  readonly closing: AbortSignal;
  readonly reader: CheckpointReader;
  readonly #writer: CheckpointWriter;
  /** The leases of this manager that haven't ended. */
  readonly #leases = new Set<TaskLease>();
  readonly #wakes = new EventTarget();

  constructor(parts: {
    readonly options: ResolvedOptions;
    readonly notifications: NotificationHub;
    readonly closing: AbortSignal;
    readonly reader: CheckpointReader;
    readonly writer: CheckpointWriter;
  }) {
    this.options = parts.options;
    this.notifications = parts.notifications;
    this.closing = parts.closing;
    this.reader = parts.reader;
    this.#writer = parts.writer;
    // Any number of waits may be under way, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.#wakes);
  }

  /** Claims a task. See {@link claimLease}. */
  async claim(taskId: string, options: LeaseOptions): Promise<TaskLease> {
    checkTaskId(taskId);
    return this.#keep(await claimLease(this.options.storage, taskId, options));
  }

  /** Claims the next tasks that are due, at most `limit`. See {@link claimNextLeases}. */
  async claimDue(query: Omit<DueQuery, "dueBy">, options: LeaseOptions, limit: number): Promise<readonly TaskLease[]> {
    const { clock, storage } = this.options;
    const dueBy = new Date(clock()).toISOString();
    const leases = await claimNextLeases(storage, { ...query, dueBy }, options, limit);
    return leases.map((lease) => this.#keep(lease));
  }

  /** Takes the task from its runner, for the time of `work`. */
  async underForcedLease(taskId: string, work: (lease: Lease) => Promise<void>): Promise<void> {
    const lease = await claimLease(this.options.storage, taskId, {}, { force: true });
    try {
      await work(lease);
    } finally {
      await lease.release();
    }
    // A runner of this manager needn't wait for its next renewal. The renewal rejects, because the lease is lost; if the
    // storage fails, the next renewal finds that out.
    for (const held of this.#leases) if (held.taskId === taskId) await held.renew().catch(() => undefined);
  }

  /** Releases a lease. If that fails, the lease expires by itself. */
  async release(lease: Lease): Promise<void> {
    const { taskId } = lease;
    await lease.release().catch((error: unknown) => {
      this.options.logger.warn({ taskId, error }, "A lease could not be released; it expires by itself");
    });
  }

  /** Releases every lease of this manager. */
  async releaseAll(): Promise<void> {
    for (const lease of this.#leases) await this.release(lease);
  }

  /** The text of the newest checkpoint that a run saved. */
  async newestTextOfRun(taskId: string): Promise<CheckpointText | undefined> {
    const newest = await this.reader.newestWhere(taskId, isOfRun);
    return newest && this.reader.textById(taskId, newest.id);
  }

  async newestTransientId(taskId: string): Promise<string | undefined> {
    return (await this.reader.newestWhere(taskId, isTransient))?.id;
  }

  /** Encodes a state as text. @throws The errors of `save`. */
  encodeState(taskId: string, state: unknown): string {
    return this.#writer.encode(taskId, state).text;
  }

  /** Decodes a state of {@link encodeState}. @param id - Of the state's checkpoint, for messages. */
  decodeState(taskId: string, id: string, text: string): unknown {
    return this.reader.decoded({ taskId, id }, decodeJson("json-tagged", text));
  }

  /** A stored state in the current version, in the form of {@link encodeState}. */
  migrateState({ encoding, text, summary }: Omit<CheckpointText, "newest">): string {
    const isCurrent = encoding === "json-tagged" && summary.stateVersion === this.options.stateVersion;
    if (isCurrent) return text;
    const migrated = this.reader.migrated(summary, decodeJson(encoding, text, summary));
    return encodeJson(migrated, Number.POSITIVE_INFINITY, summary).text;
  }

  /** Makes a run's checkpoint without its payload, so that it can be appended again after a failure. */
  draft(taskId: string, { isTransient, replaces, waits, isChild, ...options }: RunDraft): UnfinishedDraft {
    const note = runMetadata(isTransient ? { replaces } : undefined, undefined, waits, isChild);
    const draft = this.#writer.draft(taskId, options, note);
    // Only the parent run continues a child run.
    return isChild ? draft : { ...draft, dueAt: waits?.dueAt ?? draft.createdAt };
  }

  /** Appends a run's checkpoint, and applies retention. If the lease is lost, ends it. */
  append(draft: UnfinishedDraft, encoded: EncodedState, { lease, ...how }: RunAppend): Promise<CheckpointSummary> {
    return this.#writer.finish(this.#writer.append(draft, encoded, { ...how, fencingToken: lease.token }), lease);
  }

  /**
   * Appends a run that no attempt has begun.
   *
   * @throws {CheckpointConflictError} Another writer has saved since `expectedSequence`.
   */
  async enqueue(
    taskId: string,
    draft: RunDraft,
    run: Omit<RunParts, "head"> & { readonly head: Omit<RunHead, "id"> },
    expectedSequence: number | undefined,
  ): Promise<void> {
    const made = this.draft(taskId, draft);
    const head = { ...run.head, id: made.id, generation: run.head.generation || made.id };
    const how = { expectedSequence, replaces: draft.replaces };
    this.notifications.emit("saved", await this.#writer.append(made, encodeRunBody({ ...run, head }, ""), how));
    this.wake(ANY_TASK);
  }

  /** @throws {CheckpointConflictError} The task has an event with this id, and another name or value. */
  appendEvent(
    taskId: string,
    value: EncodedState,
    { id, name, by }: { readonly id: string | undefined; readonly name: string; readonly by: string | undefined },
  ): Promise<CheckpointSummary> {
    const draft = this.#writer.draft(eventsTaskId(taskId), { id, stage: name, status: "paused" }, eventMetadata(by));
    return this.#writer.append(draft, value, { isRetry: id !== undefined });
  }

  /** The task's events, the oldest first. */
  events(taskId: string): AsyncIterable<CheckpointText> {
    return this.reader.texts({ taskId: eventsTaskId(taskId), order: "oldest" });
  }

  /** The events with this name that no wait has received. @param settled - Only later ones are read. */
  pendingEvents(taskId: string, name: string, settled: number): AsyncIterable<CheckpointText> {
    return this.reader.texts({ ...pendingQuery(taskId, settled), stage: name });
  }

  async refuseEvent(taskId: string, id: string, error: CheckpointSummary["error"]): Promise<void> {
    await this.options.storage.setStatus(eventsTaskId(taskId), id, { status: "failed", ...(error && { error }) });
  }

  /**
   * Marks events as received, so that no other wait receives them.
   *
   * @param settled - No event up to this sequence is pending, so only later ones are read.
   * @returns The new `settled`.
   */
  async receiveEvents(taskId: string, ids: ReadonlySet<string>, settled: number): Promise<number> {
    const { storage } = this.options;
    if (ids.size === 0) return settled;
    let [isFirst, last, left] = [true, settled, ids.size];
    for await (const event of storage.list(pendingQuery(taskId, settled))) {
      const isReceived = !isCorrupt(event) && ids.has(event.id);
      if (isReceived) await storage.setStatus(event.taskId, event.id, { status: "completed" });
      isFirst &&= isReceived;
      if (isFirst) last = event.sequence ?? last;
      left -= Number(isReceived);
      if (left === 0) break;
    }
    return last;
  }

  /** Makes a paused run due if an event is pending for which it waits. A worker, or the next run, then continues it. */
  async makeDueIfEventPending(taskId: string): Promise<void> {
    for (;;) {
      const newest = await this.reader.newestWhere(taskId);
      const waits = newest?.status === "paused" ? readWaits(newest) : undefined;
      if (newest === undefined || waits === undefined || !(await this.#isPending(taskId, waits.waitsFor))) return;
      const condition = { expectedSequence: newest.sequence };
      try {
        if (await this.options.storage.setStatus(taskId, newest.id, { status: "running" }, condition)) return;
      } catch (error) {
        // Lost a race with another writer: read again.
        if (!(error instanceof CheckpointConflictError)) throw error;
      }
    }
  }

  /** Changes a failed task back to `paused`, with its error, so that a worker or the next run continues it. */
  putBack({ taskId, id, sequence, error }: CheckpointSummary): Promise<boolean> {
    const change = { status: "paused", ...(error && { error }) } as const;
    return this.options.storage.setStatus(taskId, id, change, { expectedSequence: sequence });
  }

  /** Ends the pauses of this process for a task, or for {@link ANY_TASK}. */
  wake(key: string): void {
    this.#wakes.dispatchEvent(new Event(key));
  }

  /**
   * Resolves after `ms` milliseconds, when `key` is woken, or when the signal aborts. Keeps the process alive.
   *
   * @param key - A task's id, or {@link ANY_TASK}.
   */
  async pause(key: string, ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const end = () => over.abort();
    const timer = setTimeout(end, ms);
    const forget = onAbort(signal, end);
    this.#wakes.addEventListener(key, end, { signal: over.signal });
    if (!over.signal.aborted) await once(over.signal, "abort");
    clearTimeout(timer);
    forget();
  }

  async #isPending(taskId: string, names: readonly string[]): Promise<boolean> {
    for await (const event of this.options.storage.list(pendingQuery(taskId))) {
      if (!isCorrupt(event) && names.includes(event.stage ?? "")) return true;
    }
    return false;
  }

  /** Keeps a lease until it ends, so that {@link releaseAll} releases it. */
  #keep(lease: TaskLease): TaskLease {
    this.#leases.add(lease);
    lease.signal.addEventListener("abort", () => this.#leases.delete(lease), { once: true });
    return lease;
  }
}

function pendingQuery(taskId: string, settled = 0) {
  return { taskId: eventsTaskId(taskId), order: "oldest", afterSequence: settled, status: ["paused"] } as const;
}
