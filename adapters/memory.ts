import {
  type AppendOptions,
  type CheckpointQuery,
  matchRetry,
  type StatusOptions,
  type StorageAdapter,
  type StoredTask,
  type TaskQuery,
} from "../src/contract/adapter.js";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  compareTexts,
  copyPayload,
  copyRecord,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  toSummary,
  withPayload,
  withStatus,
} from "../src/contract/checkpoint.js";
import {
  type AppendCondition,
  type ExpectedTask,
  nextSequence,
  requireNewest,
  requireNoEvent,
  requireUnchangedTasks,
  type TaskPosition,
} from "../src/contract/conditions.js";
import { isCorrupt } from "../src/contract/corrupt-record.js";
import { ClosedError } from "../src/contract/errors.js";
import { selectHeaders, selectTasks } from "../src/contract/header-index.js";
import {
  checkLease,
  isDue,
  type LeaseRecord,
  type LeaseStore,
  leaseStore,
  nextLease,
  type TimedLease,
} from "../src/contract/leases.js";
import {
  copyRecordDraft,
  isRecord,
  type LogItem,
  type LogOptions,
  type LogRecord,
  matchEventRetry,
  matchesRecords,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type RecordSelection,
  sealRecord,
  sealRecordDraft,
  type TaskLog,
  toRecordHeader,
} from "../src/contract/log.js";
import { monotonicMs, type Runtime } from "../src/contract/runtime.js";
import type { DueQuery, TaskQueue } from "../src/contract/task-queue.js";
import { findDueTime, isTransient } from "../src/contract/transient.js";

/** One task's checkpoints and records. */
interface Task {
  /** The checkpoints by id, the oldest first. */
  readonly checkpoints: Map<string, StoredCheckpoint>;
  newest: StoredCheckpoint | undefined;
  /** The records in sequence order. An event whose body was removed is kept as its header. */
  records: (LogRecord | RecordHeader)[];
  /** The events among the records, by id. */
  readonly events: Map<string, LogRecord | RecordHeader>;
  lastEvent: number;
  /** The last sequence that was taken, even if its record was removed since. */
  lastSequence: number;
  /** A due time that a record set, earlier than the newest checkpoint's: see {@link LogOptions.dueAt}. */
  dueAt: string | undefined;
  removedUpTo: number;
}

/**
 * Keeps checkpoints in the memory of this process, for tests. Closing the adapter drops them.
 *
 * Every method does its work before it waits for anything. Each call is therefore atomic, and calls take effect in call
 * order.
 */
export class MemoryAdapter implements StorageAdapter {
  readonly name = "memory";
  readonly capabilities = { durable: false, multiProcess: false } as const;
  readonly leases: LeaseStore = leaseStore({
    read: async (taskId) => this.#readLease(taskId),
    all: () => this.#listLeases(),
    update: async (taskId, change) => {
      const now = this.#readLease(taskId);
      const lease = change(now);
      if (lease === undefined) return;
      this.#leases.set(taskId, lease);
      // A released task may be due, but a renewal makes no task due.
      if (lease.token !== now.lease?.token || lease.expiresAtMs < now.lease.expiresAtMs) this.#notify();
    },
  });
  readonly queue: TaskQueue = {
    claimNext: async (query, holder, ttlMs, limit) =>
      this.#findDue(query)
        .slice(0, limit)
        .map(({ taskId }) => {
          const lease = nextLease(this.#readLease(taskId), holder, ttlMs);
          this.#leases.set(taskId, lease);
          return { taskId, token: lease.token };
        }),
    count: async (query) => {
      const due = this.#findDue(query);
      return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
    },
  };
  readonly log: TaskLog = {
    append: async (taskId, records, condition, options) =>
      this.#appendRecords(taskId, records.map(copyRecordDraft), condition, options),
    read: (query) => this.#readLog(query),
    remove: async (taskId, selection, condition) => this.#removeRecords(taskId, selection, condition),
    replacePayloads: async (taskId, changes) => {
      const task = this.#getTask(taskId);
      const replaced = changes.filter(({ sequence, payload, expectedSha256 }) => {
        const index = task?.records.findIndex((record) => record.sequence === sequence) ?? -1;
        const record = task?.records[index];
        if (!task || !record || isEmptied(record) || record.payload.sha256 !== expectedSha256) return false;
        const unsealed = { ...record, payload: copyPayload(payload) };
        const changed = { ...unsealed, seal: sealRecord(unsealed) };
        task.records[index] = changed;
        if (changed.id !== undefined) task.events.set(changed.id, changed);
        return true;
      });
      if (replaced.length > 0) this.#notify();
      return replaced.map(({ sequence }) => sequence);
    },
    watch: (changed) => {
      this.#watchers.add(changed);
      return () => this.#watchers.delete(changed);
    },
  };
  readonly #watchers = new Set<() => void>();
  readonly #tasks = new Map<string, Task>();
  readonly #leases = new Map<string, LeaseRecord>();
  readonly #nowMs: () => number;
  #closed = false;

  /** @param options.runtime - Decides when leases expire. Default: the machine's monotonic clock. */
  constructor(options: { readonly runtime?: Pick<Runtime, "elapsedMs"> | undefined } = {}) {
    checkKeys("MemoryAdapterOptions", options, listKeys<typeof options>({ runtime: true }));
    const { runtime } = options;
    this.#nowMs = runtime === undefined ? monotonicMs : () => runtime.elapsedMs();
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    const { taskId } = draft;
    const task = this.#getTask(taskId) ?? makeTask();
    const existing = task.checkpoints.get(draft.id);
    if (existing) return matchRetry(existing, draft);

    const records = options?.records?.map(copyRecordDraft) ?? [];
    matchEventRetry(taskId, records, (id) => task.events.get(id), true);
    checkLease(taskId, this.#readLease(taskId), condition);
    const sequence = nextSequence(taskId, getPosition(task), condition, options);
    const replaced = task.checkpoints.get(options?.replaces ?? "");
    this.#putRecords(taskId, task, records, sequence - records.length);
    this.#put(task, copyRecord(sealDraft(draft, sequence)));
    if (replaced && isTransient(replaced)) task.checkpoints.delete(replaced.id);
    task.lastSequence = sequence;
    task.dueAt = undefined;
    this.#tasks.set(taskId, task);
    this.#notify();
    return sequence;
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | undefined> {
    return structuredClone(this.#getTask(taskId)?.checkpoints.get(id));
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint> {
    for (const record of this.#select(query)) yield copyRecord(record);
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary> {
    for (const record of this.#select(query)) yield structuredClone(toSummary(record));
  }

  async *tasks(query: TaskQuery): AsyncIterable<StoredTask> {
    this.#assertOpen();
    const tasks = [...this.#tasks].map(([taskId, task]) => ({
      taskId,
      count: task.checkpoints.size,
      lastSequence: task.lastSequence,
      headers: task.newest ? [task.newest] : [],
      log: summarizeTask(task),
    }));
    for (const task of selectTasks(tasks, query)) if (!isCorrupt(task)) yield structuredClone(task);
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    { records: drafts = [] }: StatusOptions = {},
  ): Promise<boolean> {
    const task = this.#getTask(taskId);
    const checkpoint = task?.checkpoints.get(id);
    checkLease(taskId, this.#readLease(taskId), condition);
    if (!task || !checkpoint) return false;
    const records = drafts.map(copyRecordDraft);
    matchEventRetry(taskId, records, (event) => task.events.get(event), true);
    const first = nextSequence(taskId, getPosition(task), condition);
    this.#put(task, withStatus(checkpoint, structuredClone(change)));
    if (task.newest?.id === id) task.dueAt = undefined;
    this.#putRecords(taskId, task, records, first);
    this.#notify();
    return true;
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const task = this.#getTask(taskId);
    const checkpoint = task?.checkpoints.get(id);
    if (!task || checkpoint?.payload.sha256 !== expectedSha256) return false;
    this.#put(task, withPayload(checkpoint, copyPayload(payload)));
    return true;
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const task = this.#getTask(taskId);
    checkLease(taskId, this.#readLease(taskId), condition);
    requireNewest(taskId, getPosition(task).newestSequence, condition);
    requireNoEvent(taskId, getPosition(task).lastEvent, condition);
    if (!task) return 0;
    if (ids === "all") {
      this.#tasks.delete(taskId);
      this.#notify();
      return task.checkpoints.size;
    }
    // If all ids are removed, the task keeps its numbering. Only "all" ends the numbering.
    const removed = ids.filter((id) => task.checkpoints.delete(id)).length;
    const newest = [...task.checkpoints.values()].at(-1);
    if (newest !== task.newest) task.dueAt = undefined;
    task.newest = newest;
    this.#notify();
    return removed;
  }

  async removePrefix(prefix: string, expected?: readonly ExpectedTask[]): Promise<number> {
    this.#assertOpen();
    const doomed = [...this.#tasks].filter(([taskId]) => taskId.startsWith(prefix));
    const found = doomed.map(([taskId, task]) => ({ taskId, newestSequence: getPosition(task).newestSequence }));
    const withCheckpoints = found.filter(({ newestSequence }) => newestSequence > 0);
    requireUnchangedTasks(prefix, withCheckpoints, expected);
    let removed = 0;
    for (const [taskId, { checkpoints }] of doomed) {
      removed += checkpoints.size;
      this.#tasks.delete(taskId);
    }
    this.#notify();
    return removed;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#tasks.clear();
    this.#leases.clear();
    this.#watchers.clear();
  }

  #appendRecords(
    taskId: string,
    records: readonly RecordDraft[],
    condition?: AppendCondition,
    { firstSequence, dueAt }: LogOptions = {},
  ): number {
    const task = this.#getTask(taskId) ?? makeTask();
    const stored = matchEventRetry(taskId, records, (id) => task.events.get(id));
    if (stored !== undefined) return stored;
    checkLease(taskId, this.#readLease(taskId), condition);
    const first = nextSequence(taskId, getPosition(task), condition, { sequence: firstSequence });
    this.#putRecords(taskId, task, records, first);
    if (dueAt !== undefined && !(task.dueAt !== undefined && task.dueAt <= dueAt)) task.dueAt = dueAt;
    this.#tasks.set(taskId, task);
    this.#notify();
    return task.lastSequence;
  }

  async *#readLog(query: RecordQuery): AsyncGenerator<LogItem, void, void> {
    const { taskId, order, limit, headersOnly } = query;
    const task = this.#getTask(taskId);
    if (!task) return;
    const direction = order === "newest" ? -1 : 1;
    const items = [...task.records, ...task.checkpoints.values()]
      .filter((item) => matchesRecords(item, query))
      .sort((a, b) => direction * (a.sequence - b.sequence))
      .slice(0, limit);
    for (const item of items) {
      if (!isRecord(item)) yield structuredClone(toSummary(item));
      else if (headersOnly || isEmptied(item)) yield structuredClone(toRecordHeader(item));
      else yield { ...item, payload: copyPayload(item.payload) };
    }
  }

  #removeRecords(taskId: string, selection: RecordSelection, condition?: AppendCondition): number {
    const task = this.#getTask(taskId);
    checkLease(taskId, this.#readLease(taskId), condition);
    requireNewest(taskId, getPosition(task).newestSequence, condition);
    requireNoEvent(taskId, getPosition(task).lastEvent, condition);
    if (!task) return 0;
    let removed = 0;
    task.records = task.records.flatMap((record) => {
      if (isEmptied(record) || !matchesRecords(record, selection)) return [record];
      removed += 1;
      if (record.kind === "event") return [emptyEvent(task, record)];
      if (record.kind !== "mark") task.removedUpTo = Math.max(task.removedUpTo, record.sequence);
      return [];
    });
    this.#notify();
    return removed;
  }

  /** Returns the due tasks, the earliest first. */
  #findDue({ prefix, dueBy, except = [] }: DueQuery): { readonly taskId: string; readonly dueAt: string }[] {
    this.#assertOpen();
    const due = [...this.#tasks].flatMap(([taskId, task]) => {
      const isAsked = taskId.startsWith(prefix) && !except.includes(taskId);
      const dueAt = isAsked ? findTaskDueTime(task) : undefined;
      return dueAt !== undefined && isDue(this.#readLease(taskId), dueAt, dueBy) ? [{ taskId, dueAt }] : [];
    });
    return due.sort((a, b) => compareTexts(a.dueAt, b.dueAt));
  }

  #readLease(taskId: string): TimedLease {
    this.#assertOpen();
    return { lease: this.#leases.get(taskId), nowMs: this.#nowMs() };
  }

  async *#listLeases() {
    this.#assertOpen();
    const nowMs = this.#nowMs();
    for (const [taskId, lease] of this.#leases) yield { taskId, lease, nowMs };
  }

  #getTask(taskId: string): Task | undefined {
    this.#assertOpen();
    return this.#tasks.get(taskId);
  }

  #put(task: Task, checkpoint: StoredCheckpoint): void {
    task.checkpoints.set(checkpoint.id, checkpoint);
    if (checkpoint.sequence >= getPosition(task).newestSequence) task.newest = checkpoint;
  }

  #putRecords(taskId: string, task: Task, drafts: readonly RecordDraft[], first: number): void {
    for (const [index, draft] of drafts.entries()) {
      const record = sealRecordDraft(taskId, draft, first + index);
      task.records.push(record);
      task.lastSequence = record.sequence;
      if (record.id === undefined) continue;
      task.events.set(record.id, record);
      task.lastEvent = record.sequence;
    }
  }

  #notify(): void {
    for (const changed of [...this.#watchers]) changed();
  }

  #select(query: CheckpointQuery): readonly StoredCheckpoint[] {
    const found = [...selectHeaders<StoredCheckpoint>(this.#getTask(query.taskId)?.checkpoints.values() ?? [], query)];
    return found.filter((record): record is StoredCheckpoint => !isCorrupt(record));
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError("The memory adapter");
  }
}

function makeTask(): Task {
  return {
    checkpoints: new Map(),
    newest: undefined,
    dueAt: undefined,
    records: [],
    events: new Map(),
    lastEvent: 0,
    lastSequence: 0,
    removedUpTo: 0,
  };
}

function getPosition(task: Task | undefined): Required<TaskPosition> {
  const { newest, lastSequence = 0, lastEvent = 0 } = task ?? {};
  return { newestSequence: newest?.sequence ?? 0, lastSequence, lastEvent };
}

/** Whether an event's body was removed. */
function isEmptied(record: LogRecord | RecordHeader): record is RecordHeader {
  return "sizeBytes" in record;
}

/** Removes an event's body, but keeps its id and digest. */
function emptyEvent(task: Task, event: LogRecord): RecordHeader {
  const header = { ...toRecordHeader(event), sizeBytes: 0 };
  if (event.id !== undefined) task.events.set(event.id, header);
  return header;
}

/**
 * Returns the time from which a worker may continue the task: its newest checkpoint's, or an earlier one that a record
 * set.
 */
function findTaskDueTime({ newest, dueAt }: Task): string | undefined {
  const own = newest && findDueTime(newest);
  return own !== undefined && dueAt !== undefined && dueAt < own ? dueAt : own;
}

function summarizeTask(task: Task): Pick<StoredTask, "last" | "dueAt" | "removedUpTo"> {
  const { records, newest, removedUpTo } = task;
  const last = records.at(-1);
  const dueAt = findTaskDueTime(task);
  return {
    ...(last && last.sequence > (newest?.sequence ?? 0) && { last: toRecordHeader(last) }),
    ...(dueAt !== undefined && { dueAt }),
    ...(removedUpTo > 0 && { removedUpTo }),
  };
}
