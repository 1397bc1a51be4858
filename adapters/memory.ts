import {
  type AppendCondition,
  type AppendOptions,
  type CheckpointQuery,
  type ExpectedTask,
  isCorrupt,
  matchRetry,
  nextSequence,
  requireNewest,
  requireUnchangedTasks,
  type StorageAdapter,
  type TaskPosition,
  type TaskQuery,
} from "../src/contract/adapter.js";
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
  summaryOf,
  type TaskSummary,
  withPayload,
  withStatus,
} from "../src/contract/checkpoint.js";
import { ClosedError } from "../src/contract/errors.js";
import { selectHeaders, selectTasks } from "../src/contract/header-index.js";
import {
  checkLease,
  isDue,
  type LeaseRecord,
  type LeaseStore,
  leaseStore,
  monotonicMs,
  nextLease,
  type TimedLease,
} from "../src/contract/leases.js";
import type { DueQuery, TaskQueue } from "../src/contract/task-queue.js";
import { findDueTime, isTransient } from "../src/contract/transient.js";

/** One task's checkpoints by id, the oldest first, and its newest one. */
interface StoredTask {
  readonly records: Map<string, StoredCheckpoint>;
  newest: StoredCheckpoint | undefined;
  /** The last sequence that was given. It is kept even if its checkpoint is removed. */
  lastSequence: number;
}

/**
 * Keeps checkpoints in the memory of this process, for tests. Closing the adapter drops them.
 *
 * Every method does its work before it waits for anything. So each call is atomic, and calls take effect in call order.
 */
export class MemoryAdapter implements StorageAdapter {
  readonly name = "memory";
  readonly capabilities = { durable: false, multiProcess: false } as const;
  readonly leases: LeaseStore = leaseStore({
    read: async (taskId) => this.#readLease(taskId),
    all: () => this.#allLeases(),
    update: async (taskId, change) => {
      const lease = change(this.#readLease(taskId));
      if (lease) this.#leases.set(taskId, lease);
    },
  });
  readonly queue: TaskQueue = {
    claimNext: async (query, holder, ttlMs, limit) =>
      this.#due(query)
        .slice(0, limit)
        .map(({ taskId }) => {
          const lease = nextLease(this.#readLease(taskId), holder, ttlMs);
          this.#leases.set(taskId, lease);
          return { taskId, token: lease.token };
        }),
    count: async (query) => {
      const due = this.#due(query);
      return { tasks: due.length, oldestDueAt: due[0]?.dueAt };
    },
  };
  readonly #tasks = new Map<string, StoredTask>();
  readonly #leases = new Map<string, LeaseRecord>();
  #closed = false;

  async append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    const task = this.#task(draft.taskId) ?? { records: new Map(), newest: undefined, lastSequence: 0 };
    const existing = task.records.get(draft.id);
    if (existing) return matchRetry(existing, draft);

    checkLease(draft.taskId, this.#readLease(draft.taskId), condition);
    const sequence = nextSequence(draft.taskId, getPosition(task), condition, options);
    const replaced = task.records.get(options?.replaces ?? "");
    this.#put(task, copyRecord(sealDraft(draft, sequence)));
    if (replaced && isTransient(replaced)) task.records.delete(replaced.id);
    task.lastSequence = sequence;
    this.#tasks.set(draft.taskId, task);
    return sequence;
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | undefined> {
    return structuredClone(this.#task(taskId)?.records.get(id));
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint> {
    for (const record of this.#select(query)) yield copyRecord(record);
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary> {
    for (const record of this.#select(query)) yield structuredClone(summaryOf(record));
  }

  async *tasks(query: TaskQuery): AsyncIterable<TaskSummary> {
    this.#assertOpen();
    const tasks = [...this.#tasks].flatMap(([taskId, { records, newest }]) =>
      newest ? { taskId, count: records.size, headers: [newest] } : [],
    );
    for (const task of selectTasks(tasks, query)) if (!isCorrupt(task)) yield structuredClone(task);
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const task = this.#task(taskId);
    const record = task?.records.get(id);
    checkLease(taskId, this.#readLease(taskId), condition);
    if (!task || !record) return false;
    requireNewest(taskId, getPosition(task).newestSequence, condition);
    this.#put(task, withStatus(record, structuredClone(change)));
    return true;
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const task = this.#task(taskId);
    const record = task?.records.get(id);
    if (!task || record?.payload.sha256 !== expectedSha256) return false;
    this.#put(task, withPayload(record, copyPayload(payload)));
    return true;
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const task = this.#task(taskId);
    checkLease(taskId, this.#readLease(taskId), condition);
    requireNewest(taskId, getPosition(task).newestSequence, condition);
    if (!task) return 0;
    if (ids === "all") {
      this.#tasks.delete(taskId);
      return task.records.size;
    }
    // If all ids are removed, the task keeps its numbering. Only "all" ends the numbering.
    const removed = ids.filter((id) => task.records.delete(id)).length;
    task.newest = [...task.records.values()].at(-1);
    return removed;
  }

  async removePrefix(prefix: string, expected?: readonly ExpectedTask[]): Promise<number> {
    this.#assertOpen();
    const doomed = [...this.#tasks].filter(([taskId]) => taskId.startsWith(prefix));
    const found = doomed.map(([taskId, task]) => ({ taskId, newestSequence: getPosition(task).newestSequence }));
    const withCheckpoints = found.filter(({ newestSequence }) => newestSequence > 0);
    requireUnchangedTasks(prefix, withCheckpoints, expected);
    let removed = 0;
    for (const [taskId, { records }] of doomed) {
      removed += records.size;
      this.#tasks.delete(taskId);
    }
    return removed;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#tasks.clear();
    this.#leases.clear();
  }

  /** The due tasks, the earliest first. */
  #due({ prefix, dueBy, except = [] }: DueQuery): { readonly taskId: string; readonly dueAt: string }[] {
    this.#assertOpen();
    const due = [...this.#tasks].flatMap(([taskId, { newest }]) => {
      const isAsked = taskId.startsWith(prefix) && !except.includes(taskId);
      const dueAt = isAsked && newest ? findDueTime(newest) : undefined;
      return dueAt !== undefined && isDue(this.#readLease(taskId), dueAt, dueBy) ? [{ taskId, dueAt }] : [];
    });
    return due.sort((a, b) => compareTexts(a.dueAt, b.dueAt));
  }

  #readLease(taskId: string): TimedLease {
    this.#assertOpen();
    return { lease: this.#leases.get(taskId), nowMs: monotonicMs() };
  }

  async *#allLeases() {
    this.#assertOpen();
    const nowMs = monotonicMs();
    for (const [taskId, lease] of this.#leases) yield { taskId, lease, nowMs };
  }

  #task(taskId: string): StoredTask | undefined {
    this.#assertOpen();
    return this.#tasks.get(taskId);
  }

  #put(task: StoredTask, record: StoredCheckpoint): void {
    task.records.set(record.id, record);
    if (record.sequence >= getPosition(task).newestSequence) task.newest = record;
  }

  #select(query: CheckpointQuery): readonly StoredCheckpoint[] {
    const found = [...selectHeaders<StoredCheckpoint>(this.#task(query.taskId)?.records.values() ?? [], query)];
    return found.filter((record): record is StoredCheckpoint => !isCorrupt(record));
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError("The memory adapter");
  }
}

function getPosition(task: StoredTask | undefined): TaskPosition {
  return { newestSequence: task?.newest?.sequence ?? 0, lastSequence: task?.lastSequence ?? 0 };
}
