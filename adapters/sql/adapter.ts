import type {
  AppendOptions,
  CheckpointQuery,
  StatusOptions,
  StorageAdapter,
  StoredTask,
  TaskQuery,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  copyPayload,
  copyRecord,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import {
  type AppendCondition,
  type ExpectedTask,
  nextSequence,
  requireNewest,
  requireUnchangedTasks,
  type TaskPosition,
} from "../../src/contract/conditions.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";
import { checkLease, type LeaseStore, NO_LEASE } from "../../src/contract/leases.js";
import { copyRecordDraft } from "../../src/contract/log.js";
import type { DueCount, TaskQueue } from "../../src/contract/task-queue.js";
import { inPages, PAGE_ROWS, type Page, type TaskFound, tasksInPages } from "./pages.js";
import type { LogAppend, LogTable } from "./records.js";
import type { Changed } from "./watchers.js";

export const NOTHING_DUE: DueCount = { tasks: 0, oldestDueAt: undefined };

export type Maybe<Result> = Result | Promise<Result>;

/** The arguments of an append. */
export interface Append {
  readonly draft: CheckpointDraft;
  readonly condition: AppendCondition;
  readonly options: AppendOptions;
}

/** @internal Returns the id of the task to which the append belongs. */
export function getTaskId(append: Append | LogAppend): string {
  return "draft" in append ? append.draft.taskId : append.taskId;
}

/**
 * @internal Returns the sequence of an append to an empty task.
 *
 * @throws {CheckpointError} A condition of the append doesn't hold.
 */
export function firstSequence(append: Append | LogAppend): number {
  checkLease(getTaskId(append), NO_LEASE, append.condition);
  return requireSequence(append, { newestSequence: 0, lastSequence: 0 });
}

/**
 * @internal Returns the sequence of the checkpoint or of the first record. See `nextSequence`.
 *
 * @throws {CheckpointError} A condition of the append doesn't hold. The lease isn't checked.
 */
export function requireSequence(append: Append | LogAppend, position: TaskPosition): number {
  const { condition, options } = append;
  const sequence = "firstSequence" in options ? options.firstSequence : undefined;
  return nextSequence(getTaskId(append), position, condition, { sequence, ...options });
}

/** @internal The objects that work with a database's tables. */
export interface SqlStore {
  readonly log: LogTable;
  readonly reader: {
    get(taskId: string, id: string): Maybe<StoredCheckpoint | CorruptRecord | undefined>;
    summaries(query: CheckpointQuery, rows: number): Maybe<Page<CheckpointSummary>>;
    taskIds(query: TaskQuery, limit: number, skip: number): Maybe<readonly string[]>;
    tasks(taskIds: readonly string[]): Maybe<readonly TaskFound[]>;
  };
  readonly writer: {
    setStatus(
      taskId: string,
      id: string,
      change: StatusChange,
      condition?: AppendCondition,
      options?: StatusOptions,
    ): Maybe<boolean>;
    replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Maybe<boolean>;
    remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Maybe<number>;
    removePrefix(prefix: string, expected?: readonly ExpectedTask[]): Maybe<number>;
  };
}

/** @internal Runs an adapter's calls in order. */
export interface TableCalls {
  enqueue(append: Append | LogAppend): Promise<number>;
  /** Runs `work` with the tables. Resolves to `undefined` if there are no tables. */
  read<Result>(work: (store: SqlStore) => Maybe<Result>): Promise<Result | undefined>;
  /** Like `read`, for work that changes the tables. */
  change<Result>(work: (store: SqlStore) => Maybe<Result>): Promise<Result | undefined>;
  /** See `TaskLog.watch`. */
  watch(changed: Changed, taskId: string | undefined): () => void;
}

/** The base of the adapters on SQL. Copies arguments at once, since a caller may change them while its call waits. */
export abstract class SqlAdapter implements StorageAdapter {
  abstract readonly name: string;
  readonly capabilities = { durable: true, multiProcess: true } as const;
  abstract readonly maintenance: StorageMaintenance;
  abstract readonly leases: LeaseStore;
  abstract readonly queue: TaskQueue;
  abstract read(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint | CorruptRecord, void, void>;
  abstract close(): Promise<void>;

  /** @internal */
  protected abstract readonly tableCalls: TableCalls;

  append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    const records = options?.records?.map(copyRecordDraft);
    return this.tableCalls.enqueue({
      draft: copyRecord(draft),
      condition: { ...condition },
      options: { ...options, records },
    });
  }

  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.tableCalls.read(({ reader }) => reader.get(taskId, id));
  }

  list(query: CheckpointQuery): AsyncGenerator<CheckpointSummary | CorruptRecord, void, void> {
    return inPages(query, PAGE_ROWS, (rest, rows) =>
      this.tableCalls.read(({ reader }) => reader.summaries(rest, rows)),
    );
  }

  tasks(query: TaskQuery): AsyncGenerator<StoredTask | CorruptRecord, void, void> {
    return tasksInPages(query, {
      ids: async (...part) => (await this.tableCalls.read(({ reader }) => reader.taskIds(...part))) ?? [],
      tasks: async (ids) => (await this.tableCalls.read(({ reader }) => reader.tasks(ids))) ?? [],
      summaries: (...part) => this.tableCalls.read(({ reader }) => reader.summaries(...part)),
    });
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    options?: StatusOptions,
  ): Promise<boolean> {
    const [copy, asked] = [structuredClone(change), { ...condition }];
    const records = options?.records?.map(copyRecordDraft);
    const changed = await this.tableCalls.change(({ writer }) =>
      writer.setStatus(taskId, id, copy, asked, { records }),
    );
    if (changed === undefined) checkLease(taskId, NO_LEASE, asked);
    return changed ?? false;
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const copy = copyPayload(payload);
    return (
      (await this.tableCalls.change(({ writer }) => writer.replacePayload(taskId, id, copy, expectedSha256))) ?? false
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const [copy, asked] = [typeof ids === "string" ? ids : [...ids], { ...condition }];
    const removed = await this.tableCalls.change(({ writer }) => writer.remove(taskId, copy, asked));
    if (removed === undefined) requireAbsent(taskId, asked);
    return removed ?? 0;
  }

  async removePrefix(prefix: string, expected?: readonly ExpectedTask[]): Promise<number> {
    const asked = expected?.map((task) => ({ ...task }));
    const removed = await this.tableCalls.change(({ writer }) => writer.removePrefix(prefix, asked));
    if (removed === undefined) requireUnchangedTasks(prefix, [], asked);
    return removed ?? 0;
  }
}

/** @throws {CheckpointError} The condition doesn't hold for a task of a store that doesn't exist. */
export function requireAbsent(taskId: string, condition: AppendCondition): void {
  checkLease(taskId, NO_LEASE, condition);
  requireNewest(taskId, 0, condition);
}
