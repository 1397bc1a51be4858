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

/** A run's checkpoint to append. */
export interface RunDraft extends Pick<SaveOptions, "stage" | "label" | "metadata" | "status" | "error">, RunMarks {
  /** If the note's `generation` is "", the checkpoint begins a new generation, named by the checkpoint's id. */
  readonly note: RunNote;
}

/** How a run's checkpoint is appended. */
export interface RunAppend extends Pick<AppendCondition, "expectedSequence" | "noEventAfter"> {
  /** Missing if no attempt has begun the run. */
  readonly lease?: Lease | undefined;
  /** The id of the transient checkpoint that this one replaces. */
  readonly replaces: string | undefined;
  /** The id of one of the task's checkpoints that has the same or a similar state. */
  readonly resembles: string | undefined;
  readonly records: readonly RecordDraft[];
  /** Whether the draft may be stored already. */
  readonly isRetry?: boolean;
}

type RecordsQuery = RecordQuery & Required<Pick<RecordQuery, "kinds">>;

/** The key of calls of {@link RunStore.pause} that wait for any task. */
export const ANY_TASK = "";

/** Reads and writes the checkpoints, records and leases of runs, through the manager's reader and writer. */
export class RunStore {
  /** Leaves out the storage, since runs use it only through this class. */
  readonly options: Omit<ResolvedOptions, "storage">;
  readonly notifications: NotificationHub;
  /** Aborts when the manager closes. The manager then waits for its runs. */
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

  /** Takes the task's lease from its runner while `work` runs. */
  async underForcedLease(taskId: string, work: (lease: Lease) => Promise<void>): Promise<void> {
    const lease = await claimLease(this.#resolved, taskId, {}, { force: true });
    try {
      await work(lease);
    } finally {
      await lease.release();
    }
    // Renewing at once lets a runner of this manager notice that its lease is lost. The renewal rejects; if the storage
    // fails, the runner notices at its next renewal.
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

  /** Returns the newest checkpoint that a run saved. */
  async newestOfRun(taskId: string): Promise<CheckpointSummary | undefined> {
    return this.reader.newestWhere(taskId, isOfRun);
  }

  /** Encodes a state as text. @throws The errors of `save`. */
  encodeState(taskId: string, state: unknown): EncodedState {
    return this.#writer.encode(taskId, state);
  }

  /** Decodes a state that {@link encodeState} made. @param id - The id of the state's checkpoint, for messages. */
  decodeState(taskId: string, id: string, { encoding, text }: EncodedState): unknown {
    return this.reader.decoded({ taskId, id }, decodeJson(encoding, text));
  }

  /** Migrates a stored state to the current version, and encodes it as {@link encodeState} does. */
  migrateState({ encoding, text, summary }: Omit<CheckpointText, "newest">): EncodedState {
    const isCurrent = summary.stateVersion === this.options.stateVersion;
    if (isCurrent || text === NO_STATE.text) return { encoding, text };
    const migrated = this.reader.migrated(summary, decodeJson(encoding, text, summary));
    return encodeJson(migrated, Number.POSITIVE_INFINITY, summary);
  }

  /** Makes the draft of a run's checkpoint, without its payload. After a failure, the draft can be appended again. */
  draft(taskId: string, { note, transient, waits, parent, ...options }: RunDraft): UnfinishedDraft {
    const draft = this.#writer.draft(taskId, options);
    const run = note.generation === "" ? { ...note, generation: draft.id } : note;
    const metadata = { ...draft.metadata, ...runMetadata(run, { transient, waits, parent }) };
    // A completed run isn't continued, and only its parent run continues a child run. A failed run may be put back.
    const isOver = parent !== undefined || draft.status === "completed";
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

  /** Appends the first checkpoint of a branch, once its draft is made. */
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
   * Yields the records of the query, which must not select checkpoints.
   *
   * @throws {CheckpointCorruptError} A record is damaged.
   */
  async *records(query: RecordsQuery): AsyncGenerator<LogRecord | RecordHeader, void, void> {
    for await (const item of this.requireLog().read(query)) {
      const record = this.#requireIntact(query.taskId, item);
      if (record !== undefined) yield record;
    }
  }

  /**
   * Calls `visit` with each of the {@link records} until `visit` returns false. Passing them through a generator would
   * take longer than reading them.
   */
  async visitRecords(query: RecordsQuery, visit: (record: LogRecord | RecordHeader) => boolean): Promise<void> {
    for await (const item of this.requireLog().read(query)) {
      const record = this.#requireIntact(query.taskId, item);
      if (record !== undefined && !visit(record)) return;
    }
  }

  /** Returns the record of this kind with this sequence. @throws {CheckpointCorruptError} The record is damaged. */
  async recordAt(taskId: string, sequence: number, kind: RecordKind): Promise<LogRecord | RecordHeader | undefined> {
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1, kinds: [kind] };
    for await (const record of this.records({ taskId, order: "oldest", ...range })) return record;
    return undefined;
  }

  /** Returns the record or checkpoint with this sequence, without its value, damaged or not. */
  async itemAt(taskId: string, sequence: number): Promise<LogItem | undefined> {
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1, headersOnly: true };
    for await (const item of this.requireLog().read({ taskId, order: "oldest", ...range })) return item;
    return undefined;
  }

  /** Returns the first checkpoint of the query, damaged or not. */
  async firstCheckpoint(query: Omit<CheckpointQuery, "limit">): Promise<CheckpointSummary | CorruptRecord | undefined> {
    for await (const checkpoint of this.#resolved.storage.list({ ...query, limit: 1 })) return checkpoint;
    return undefined;
  }

  /** Returns the checkpoint with this sequence; `undefined` if it is gone or damaged. */
  async checkpointAt(taskId: string, sequence: number): Promise<StoredCheckpoint | undefined> {
    const range = { afterSequence: sequence - 1, beforeSequence: sequence + 1 };
    for await (const found of this.#resolved.storage.read({ taskId, order: "oldest", ...range })) {
      if (!isCorrupt(found)) return this.reader.use(taskId, found.id, (intact) => intact);
    }
    return undefined;
  }

  /** Decodes a record's value. @throws {CheckpointCorruptError} The value is damaged. */
  async readValue(record: LogRecord | RecordHeader): Promise<unknown> {
    return (await this.openValue(record)).state;
  }

  /** Like {@link readValue}, but returns a promise only if the payload has transforms. */
  openValue(record: LogRecord | RecordHeader): OpenedPayload | Promise<OpenedPayload> {
    const { payload } = record;
    if (!("body" in payload)) return { state: undefined };
    return openPayload(payload, { transforms: this.options.transforms, context: record });
  }

  /**
   * Changes a failed task back to `paused`, so that a worker or the next run continues it. Keeps the task's error.
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

  /** Returns the task as the storage lists it, and whether newer checkpoints of it are damaged. */
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

  /** See `TaskLog.watch`. Never calls `changed` if the storage can't watch. */
  watchChanges(changed: (isOwn?: boolean) => void, taskId: string | undefined): () => void {
    return this.#resolved.storage.log?.watch?.(changed, taskId) ?? (() => undefined);
  }

  get hasWatch(): boolean {
    return this.#resolved.storage.log?.watch !== undefined;
  }

  /** Whether other processes may also use the storage. */
  get isMultiProcess(): boolean {
    return this.#resolved.storage.capabilities.multiProcess;
  }

  /** Calls `call` at each {@link wake} of the key. Returns a function that unsubscribes. */
  onWake(key: string, call: () => void): () => void {
    this.#wakes.addEventListener(key, call);
    return () => this.#wakes.removeEventListener(key, call);
  }

  /** Ends the pauses of this process for the key: a task's id, or {@link ANY_TASK}. */
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

  /**
   * Returns the record; `undefined` if the item is a checkpoint.
   *
   * @throws {CheckpointCorruptError} The record is damaged.
   */
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
