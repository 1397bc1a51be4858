import { setMaxListeners } from "node:events";
import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { type OpenedPayload, openPayload } from "../codec/payload.js";
import type { CheckpointQuery, StoredTask } from "../contract/adapter.js";
import { checkTaskId } from "../contract/arguments.js";
import type { CheckpointDraft, CheckpointSummary, StoredCheckpoint } from "../contract/checkpoint.js";
import type { AppendCondition } from "../contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointCorruptError } from "../contract/errors.js";
import {
  isRecord,
  type LogItem,
  type LogOptions,
  type LogRecord,
  type RecordDraft,
  type RecordHeader,
  type RecordKind,
  type RecordQuery,
  type TaskLog,
} from "../contract/log.js";
import { type RunMarks, type RunNote, runMetadata } from "../contract/run-note.js";
import type { DueQuery } from "../contract/task-queue.js";
import { isOfRun } from "../contract/transient.js";
import { onAbort } from "../manager/abort-signals.js";
import { checkSeal } from "../manager/damage.js";
import {
  claimLease,
  claimNextLeases,
  type Lease,
  type LeaseOptions,
  type TaskLease,
  untilDue,
} from "../manager/lease.js";
import type { NotificationHub } from "../manager/notifications.js";
import type { ResolvedOptions } from "../manager/options.js";
import type { CheckpointReader, CheckpointText } from "../manager/reader.js";
import { requireLog } from "../manager/records.js";
import type { SaveOptions } from "../manager/save-options.js";
import { type DroppedResults, draftStatusChange, type StatusChanger } from "../manager/status.js";
import type { AppendRequest, CheckpointWriter, UnfinishedDraft } from "../manager/writer.js";
import { NO_STATE } from "./step-values.js";

/** A run's checkpoint that is to be appended. */
export interface RunDraft extends Pick<SaveOptions, "stage" | "label" | "metadata" | "status" | "error">, RunMarks {
  /** Its `generation` may be "": then the checkpoint begins a generation, which gets its id. */
  readonly note: RunNote;
}

/** How a run's checkpoint is appended. */
export interface RunAppend extends Pick<AppendCondition, "expectedSequence" | "noEventAfter"> {
  /** Without a lease, no attempt has begun the run. */
  readonly lease?: Lease | undefined;
  /** The id of the transient checkpoint that this one replaces. */
  readonly replaces: string | undefined;
  /** The id of a checkpoint of the task with the same or a similar state. */
  readonly resembles: string | undefined;
  readonly records: readonly RecordDraft[];
  /** Whether the draft may be stored already. */
  readonly isRetry?: boolean;
}

type RecordsQuery = RecordQuery & Required<Pick<RecordQuery, "kinds">>;

/** The key of calls of {@link RunStore.pause} that wait for any task. */
export const ANY_TASK = "";

/** What runs read and write: checkpoints and records, through the manager's reader and writer, and the tasks' leases. */
export class RunStore {
  /** Without the storage: all that runs do with it passes through this class. */
  readonly options: Omit<ResolvedOptions, "storage">;
  readonly notifications: NotificationHub;
  /** Aborts when the manager closes, which then waits for its runs. */
  readonly closing: AbortSignal;
  readonly reader: CheckpointReader;
  /** The pollers of this manager that haven't ended. */
  readonly pollers = new Set<object>();
  readonly #writer: CheckpointWriter;
  readonly #statuses: StatusChanger;
  readonly #resolved: ResolvedOptions;
  /** The leases of this manager that haven't ended. */
  readonly #leases = new Set<TaskLease>();
  readonly #wakes = new EventTarget();

  constructor(parts: {
    readonly options: ResolvedOptions;
    readonly notifications: NotificationHub;
    readonly closing: AbortSignal;
    readonly reader: CheckpointReader;
    readonly writer: CheckpointWriter;
    readonly statuses: StatusChanger;
  }) {
    this.options = parts.options;
    this.#resolved = parts.options;
    this.notifications = parts.notifications;
    this.closing = parts.closing;
    this.reader = parts.reader;
    this.#writer = parts.writer;
    this.#statuses = parts.statuses;
    // Any number of waits may be under way, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.#wakes);
  }

  /** Claims a task. See {@link claimLease}. */
  async claim(taskId: string, options: LeaseOptions): Promise<TaskLease> {
    checkTaskId(taskId);
    return this.#keep(await claimLease(this.#resolved, taskId, options));
  }

  /** Claims the next tasks that are due, at most `limit`. See {@link claimNextLeases}. */
  async claimDue(query: Omit<DueQuery, "dueBy">, options: LeaseOptions, limit: number): Promise<readonly TaskLease[]> {
    const dueBy = new Date(this.options.clock()).toISOString();
    const leases = await claimNextLeases(this.#resolved, { ...query, dueBy }, options, limit);
    return leases.map((lease) => this.#keep(lease));
  }

  /** Takes the task from its runner, for the time of `work`. */
  async underForcedLease(taskId: string, work: (lease: Lease) => Promise<void>): Promise<void> {
    const lease = await claimLease(this.#resolved, taskId, {}, { force: true });
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

  /** The newest checkpoint that a run saved. */
  async newestOfRun(taskId: string): Promise<CheckpointSummary | undefined> {
    return this.reader.newestWhere(taskId, isOfRun);
  }

  /** Encodes a state as text. @throws The errors of `save`. */
  encodeState(taskId: string, state: unknown): EncodedState {
    return this.#writer.encode(taskId, state);
  }

  /** Decodes a state of {@link encodeState}. @param id - Of the state's checkpoint, for messages. */
  decodeState(taskId: string, id: string, { encoding, text }: EncodedState): unknown {
    return this.reader.decoded({ taskId, id }, decodeJson(encoding, text));
  }

  /** A stored state in the current version, in the form of {@link encodeState}. */
  migrateState({ encoding, text, summary }: Omit<CheckpointText, "newest">): EncodedState {
    const isCurrent = summary.stateVersion === this.options.stateVersion;
    if (isCurrent || text === NO_STATE.text) return { encoding, text };
    const migrated = this.reader.migrated(summary, decodeJson(encoding, text, summary));
    return encodeJson(migrated, Number.POSITIVE_INFINITY, summary);
  }

  /** Makes a run's checkpoint without its payload, so that it can be appended again after a failure. */
  draft(taskId: string, { note, transient, waits, isChild, ...options }: RunDraft): UnfinishedDraft {
    const draft = this.#writer.draft(taskId, options);
    const run = note.generation === "" ? { ...note, generation: draft.id } : note;
    const metadata = { ...draft.metadata, ...runMetadata(run, { transient, waits, isChild }) };
    // Nobody continues a completed run, and only its parent run a child run. A failed one may be put back.
    const isOver = isChild || draft.status === "completed";
    return { ...draft, metadata, ...(!isOver && { dueAt: waits?.dueAt ?? draft.createdAt }) };
  }

  /**
   * Appends a run's checkpoint with its records, and applies retention. If the lease is lost, ends it.
   *
   * @throws {CheckpointConflictError} The condition doesn't hold.
   */
  append(draft: UnfinishedDraft, state: EncodedState, append: RunAppend): Promise<CheckpointSummary> {
    const { lease, resembles, ...how } = append;
    const sharesWith = resembles === undefined ? undefined : { taskId: draft.taskId, id: resembles };
    return this.#writer.append(draft, state, { ...how, sharesWith, fencingToken: lease?.token }, lease);
  }

  /** Makes the draft of a branch's first checkpoint. */
  draftBranch(taskId: string, options: SaveOptions): UnfinishedDraft {
    return this.#writer.draft(taskId, options);
  }

  /** Appends the first checkpoint of a branch, once it is made. */
  appendBranch(
    taskId: string,
    made: Promise<readonly [CheckpointDraft, AppendRequest]>,
    lease: Lease | undefined,
  ): Promise<CheckpointSummary> {
    return this.#writer.appendCopy(taskId, made, lease);
  }

  get hasLog(): boolean {
    return this.#resolved.storage.log !== undefined;
  }

  /** @throws {UnsupportedOperationError} The storage keeps no log. */
  requireLog(): TaskLog {
    return requireLog(this.#resolved.storage, "a run");
  }

  /** Appends records to the task's log. Returns the last one's sequence. */
  appendRecords(
    taskId: string,
    records: readonly RecordDraft[],
    condition: AppendCondition,
    options: LogOptions,
  ): Promise<number> {
    return (this.#resolved.storage.log ?? this.requireLog()).append(taskId, records, condition, options);
  }

  /**
   * The records of the query, which must not select checkpoints.
   *
   * @throws {CheckpointCorruptError} One of them is damaged.
   */
  async *records(query: RecordsQuery): AsyncGenerator<LogRecord | RecordHeader, void, void> {
    for await (const item of this.requireLog().read(query)) {
      const record = this.#requireIntact(query.taskId, item);
      if (record !== undefined) yield record;
    }
  }

  /** Calls `visit` with each of the {@link records} until it returns false. A generator would take longer than the read. */
  async visitRecords(query: RecordsQuery, visit: (record: LogRecord | RecordHeader) => boolean): Promise<void> {
    for await (const item of this.requireLog().read(query)) {
      const record = this.#requireIntact(query.taskId, item);
      if (record !== undefined && !visit(record)) return;
    }
  }

  /** The record of this kind with this sequence. @throws {CheckpointCorruptError} It is damaged. */
  async recordAt(taskId: string, sequence: number, kind: RecordKind): Promise<LogRecord | RecordHeader | undefined> {
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1, kinds: [kind] };
    for await (const record of this.records({ taskId, order: "oldest", ...range })) return record;
    return undefined;
  }

  /** The record or checkpoint with this sequence, without its value, damaged or not. */
  async itemAt(taskId: string, sequence: number): Promise<LogItem | undefined> {
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1, headersOnly: true };
    for await (const item of this.requireLog().read({ taskId, order: "oldest", ...range })) return item;
    return undefined;
  }

  /** The first checkpoint of the query, damaged or not. */
  async firstCheckpoint(query: Omit<CheckpointQuery, "limit">): Promise<CheckpointSummary | CorruptRecord | undefined> {
    for await (const checkpoint of this.#resolved.storage.list({ ...query, limit: 1 })) return checkpoint;
    return undefined;
  }

  /** The checkpoint with this sequence; `undefined` if it is gone or damaged. */
  async checkpointAt(taskId: string, sequence: number): Promise<StoredCheckpoint | undefined> {
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1 };
    for await (const found of this.#resolved.storage.read({ taskId, order: "oldest", ...range })) {
      if (!isCorrupt(found)) return this.reader.use(taskId, found.id, (intact) => intact);
    }
    return undefined;
  }

  /** Decodes a record's value. @throws {CheckpointCorruptError} It is damaged. */
  async readValue(record: LogRecord | RecordHeader): Promise<unknown> {
    return (await this.openValue(record)).state;
  }

  /** Like {@link readValue}, but a promise only if the payload has transforms. */
  openValue(record: LogRecord | RecordHeader): OpenedPayload | Promise<OpenedPayload> {
    const { payload } = record;
    if (!("body" in payload)) return { state: undefined };
    return openPayload(payload, { transforms: this.options.transforms, context: record });
  }

  /**
   * Changes a failed task back to `paused`, with its error, so that a worker or the next run continues it.
   *
   * @param dropped - Results to drop. Default: none.
   */
  async putBack(failed: CheckpointSummary, dropped?: DroppedResults): Promise<boolean> {
    const { taskId, id, sequence, error } = failed;
    const change = { status: "paused", ...(error && { error }) } as const;
    const records = await draftStatusChange(this.#resolved, failed, change, dropped);
    return this.#resolved.storage.setStatus(taskId, id, change, { expectedSequence: sequence }, { records });
  }

  /** Records that the task has failed, under its lease. */
  async failTask(taskId: string, error: Error, lease: Lease): Promise<void> {
    await this.#statuses.setNewest(taskId, "failed", error, { lease });
  }

  /** See {@link untilDue}. */
  untilDue(query: Pick<DueQuery, "prefix" | "except">): Promise<number> {
    return untilDue(this.#resolved, query);
  }

  /** What the storage has of a task, without its states, and whether newer checkpoints are damaged. */
  async findTask(taskId: string): Promise<{ readonly task?: StoredTask | undefined; readonly isDamaged: boolean }> {
    let isDamaged = false;
    for await (const found of this.#resolved.storage.tasks({ prefix: taskId, order: "taskId", limit: 1 })) {
      const isOwn = found.taskId === taskId;
      if (!isCorrupt(found)) return { task: isOwn ? found : undefined, isDamaged };
      isDamaged ||= isOwn;
    }
    return { isDamaged };
  }

  /** Whether a checkpoint that was read survives a power cut. If necessary, syncs the storage. */
  async isDurable({ taskId, id, sequence, status }: CheckpointSummary): Promise<boolean> {
    if (!this.hasLog) return true;
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1 };
    const query = { taskId, order: "newest", kinds: ["checkpoint"], durableOnly: true, ...range } as const;
    for await (const item of this.requireLog().read(query))
      return !isCorrupt(item) && !isRecord(item) && item.id === id && item.status === status;
    return false;
  }

  /** See `TaskLog.watch`. Never calls if the storage can't watch. */
  watchChanges(changed: (isOwn?: boolean) => void, taskId: string | undefined): () => void {
    return this.#resolved.storage.log?.watch?.(changed, taskId) ?? (() => undefined);
  }

  get hasWatch(): boolean {
    return this.#resolved.storage.log?.watch !== undefined;
  }

  /** Whether other processes may use the storage, too. */
  get isMultiProcess(): boolean {
    return this.#resolved.storage.capabilities.multiProcess;
  }

  /** Calls `call` at each {@link wake} of the key. Returns a function that unsubscribes. */
  onWake(key: string, call: () => void): () => void {
    this.#wakes.addEventListener(key, call);
    return () => this.#wakes.removeEventListener(key, call);
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
    const stops: (() => void)[] = [];
    await new Promise<void>((resolve) => {
      const end = () => resolve();
      stops.push(this.options.runtime.setTimeout(end, ms), onAbort(signal, end), this.onWake(key, end));
    });
    for (const stop of stops) stop();
  }

  /** The record; `undefined` if the item is a checkpoint. */
  #requireIntact(taskId: string, item: LogItem): LogRecord | RecordHeader | undefined {
    if (!isCorrupt(item) && !isRecord(item)) return undefined;
    const record = checkSeal(item);
    if (!isCorrupt(record)) return record;
    this.reader.reportDamage(record);
    throw new CheckpointCorruptError(
      `The log of task ${JSON.stringify(taskId)} has a damaged record: ${record.reason} (${record.location}). Nothing was ` +
        'changed. After "waymark repair", the step that it belongs to runs again.',
      { cause: record.cause },
    );
  }

  /** Keeps a lease until it ends, so that {@link releaseAll} releases it. */
  #keep(lease: TaskLease): TaskLease {
    this.#leases.add(lease);
    lease.signal.addEventListener("abort", () => this.#leases.delete(lease), { once: true });
    return lease;
  }
}
