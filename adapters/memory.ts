import {
  type AppendCondition,
  type CheckpointQuery,
  checkExpected,
  matchesQuery,
  nextSequence,
  type StorageAdapter,
  sequenceOfSame,
  type TaskQuery,
} from "../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  compareTaskIds,
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

/** One task: its checkpoints, the oldest first, and the last sequence it gave, which outlives the checkpoint. */
interface StoredTask {
  readonly records: readonly StoredCheckpoint[];
  readonly lastSequence: number;
}

const NO_TASK: StoredTask = { records: [], lastSequence: 0 };

/**
 * Checkpoints in the memory of this process, for tests: nothing is left once the adapter is closed.
 *
 * No method waits for anything before it has done its work, so every call is atomic and takes effect in call order.
 */
export class MemoryAdapter implements StorageAdapter {
  readonly name = "memory";
  readonly capabilities = { durable: false, multiProcess: false } as const;
  readonly #tasks = new Map<string, StoredTask>();
  #closed = false;

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    const { records, lastSequence } = this.#task(draft.taskId);
    const existing = records.find(({ id }) => id === draft.id);
    if (existing) return sequenceOfSame(existing, draft);

    const position = { newestSequence: newestSequence(records), lastSequence };
    const sequence = nextSequence(draft.taskId, position, condition);
    const record = copyOf(sealDraft(draft, sequence));
    this.#tasks.set(draft.taskId, { records: [...records, record], lastSequence: sequence });
    return sequence;
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | undefined> {
    return structuredClone(this.#task(taskId).records.find((record) => record.id === id));
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint> {
    for (const record of this.#select(query)) yield copyOf(record);
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary> {
    for (const record of this.#select(query)) yield structuredClone(summaryOf(record));
  }

  async *tasks(query: TaskQuery): AsyncIterable<TaskSummary> {
    this.#assertOpen();
    const found: TaskSummary[] = [];
    for (const [taskId, { records }] of this.#tasks) {
      const newest = records.at(-1);
      if (newest && matchesTask(newest, query)) found.push({ taskId, count: records.length, newest });
    }
    found.sort(query.order === "recent" ? byRecency : byTaskId);
    for (const task of found.slice(0, query.limit)) {
      yield { ...task, newest: structuredClone(summaryOf(task.newest)) };
    }
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const { records, lastSequence } = this.#task(taskId);
    const index = records.findIndex((record) => record.id === id);
    const record = records[index];
    if (!record) return false;

    checkExpected(taskId, newestSequence(records), condition);
    const changed = withStatus(record, structuredClone(change));
    this.#tasks.set(taskId, { records: records.with(index, changed), lastSequence });
    return true;
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const { records, lastSequence } = this.#task(taskId);
    const index = records.findIndex((record) => record.id === id);
    const record = records[index];
    if (record?.payload.sha256 !== expectedSha256) return false;
    const changed = withPayload(record, structuredClone(payload));
    this.#tasks.set(taskId, { records: records.with(index, changed), lastSequence });
    return true;
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const { records, lastSequence } = this.#task(taskId);
    checkExpected(taskId, newestSequence(records), condition);
    if (ids === "all") {
      this.#tasks.delete(taskId);
      return records.length;
    }
    const doomed = new Set(ids);
    const kept = records.filter(({ id }) => !doomed.has(id));
    // An emptied task keeps its numbering: only "all" ends it.
    if (kept.length < records.length) this.#tasks.set(taskId, { records: kept, lastSequence });
    return records.length - kept.length;
  }

  async removeTasks(prefix: string): Promise<number> {
    this.#assertOpen();
    let removed = 0;
    for (const [taskId, { records }] of this.#tasks) {
      if (!taskId.startsWith(prefix)) continue;
      removed += records.length;
      this.#tasks.delete(taskId);
    }
    return removed;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#tasks.clear();
  }

  #task(taskId: string): StoredTask {
    this.#assertOpen();
    return this.#tasks.get(taskId) ?? NO_TASK;
  }

  /** As they are now: a task's records are replaced, never changed, so an iteration isn't disturbed by later writes. */
  #select(query: CheckpointQuery): readonly StoredCheckpoint[] {
    const { skip = 0, limit = Number.POSITIVE_INFINITY } = query;
    const found = this.#task(query.taskId).records.filter((record) => matchesQuery(record, query));
    if (query.order === "newest") found.reverse();
    return found.slice(skip, skip + limit);
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError("The memory adapter");
  }
}

/** A copy that shares nothing that can change. structuredClone would copy the payload's text too, which can't change. */
function copyOf(record: StoredCheckpoint): StoredCheckpoint {
  const { metadata, error, payload } = record;
  const body = typeof payload.body === "string" ? payload.body : payload.body.slice();
  return {
    ...record,
    ...(metadata && { metadata: structuredClone(metadata) }),
    ...(error && { error: { ...error } }),
    payload: { ...payload, body },
  };
}

function newestSequence(records: readonly StoredCheckpoint[]): number {
  return records.at(-1)?.sequence ?? 0;
}

function matchesTask(newest: CheckpointSummary, query: TaskQuery): boolean {
  return (
    (query.prefix === undefined || newest.taskId.startsWith(query.prefix)) &&
    (query.after === undefined || compareTaskIds(newest.taskId, query.after) > 0) &&
    (query.status === undefined || query.status.includes(newest.status))
  );
}

function byTaskId(a: TaskSummary, b: TaskSummary): number {
  return compareTaskIds(a.taskId, b.taskId);
}

/** ISO 8601 strings of one form and one zone are in the order of their times. */
function byRecency(a: TaskSummary, b: TaskSummary): number {
  if (a.newest.createdAt === b.newest.createdAt) return byTaskId(a, b);
  return a.newest.createdAt > b.newest.createdAt ? -1 : 1;
}
