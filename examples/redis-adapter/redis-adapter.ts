import { ClientOfflineError, ErrorReply, SocketClosedUnexpectedlyError, SocketTimeoutError } from "@redis/client";
import type { CheckpointSummary, CorruptRecord, StorageAdapter } from "waymark";
import {
  AdapterCalls,
  type AppendCondition,
  type AppendOptions,
  type CheckpointDraft,
  type CheckpointQuery,
  copyPayload,
  copyRecord,
  copyRecordDraft,
  isCorrupt,
  isTransient,
  type LeaseStore,
  leaseStore,
  matchEventRetry,
  matchesTaskId,
  matchRetry,
  nextSequence,
  type Payload,
  requireIntact,
  requireNewest,
  requireNoEvent,
  type SealedSummary,
  type StatusChange,
  type StatusOptions,
  type StoredCheckpoint,
  type StoredTask,
  sealDraft,
  selectHeaders,
  selectTasks,
  type TaskLog,
  type TaskQuery,
  toSummary,
  withPayload,
  withStatus,
} from "waymark/adapter";
import { RedisLog, sealRecords } from "./redis-log.js";
import { type RedisClient, RedisTasks } from "./redis-tasks.js";
import { checkFence, writeTask } from "./redis-write.js";

export interface RedisAdapterOptions {
  /** Owned by the caller: `close` leaves it open. */
  readonly client: RedisClient;
  /** The beginning of every key. Default `waymark:`. */
  readonly prefix?: string | undefined;
}

/**
 * Stores checkpoints in Redis or Valkey, for many machines. The server's settings decide how durable an acknowledged
 * checkpoint is: with `appendonly yes` and `appendfsync always`, it survives a power cut.
 *
 * A write reads the task, decides, and commits in one script if the task hasn't changed meanwhile. If it has changed,
 * the write starts over.
 */
export class RedisAdapter implements StorageAdapter {
  readonly name = "redis";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly leases: LeaseStore;
  readonly log: TaskLog;
  readonly #calls = new AdapterCalls({ name: "redis", isRetryable });
  readonly #tasks: RedisTasks;

  constructor({ client, prefix = "waymark:" }: RedisAdapterOptions) {
    const tasks = new RedisTasks(client, prefix);
    this.#tasks = tasks;
    this.log = new RedisLog(this.#calls, tasks);
    this.leases = leaseStore({
      read: (taskId) => this.#calls.run(async () => (await tasks.look(taskId)).lease()),
      update: (taskId, change) => this.#calls.run(() => tasks.changeLease(taskId, change)),
      all: () => this.#allLeases(),
    });
  }

  append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    // Copies the draft before waiting for the task's other calls: the caller may change it meanwhile.
    const own = copyRecord(draft);
    const drafts = (options?.records ?? []).map(copyRecordDraft);
    const { taskId, id } = own;
    const ids = [id, options?.replaces ?? id];
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      ids,
      records: drafts,
      condition,
      decide: async (seen) => {
        const [existing, replaced] = seen.headers;
        const stored = existing && (await this.#tasks.get(taskId, id));
        if (stored) return { answer: matchRetry(requireIntact(stored), own) };
        matchEventRetry(taskId, drafts, seen.findEvent, true);
        checkFence(seen, condition);
        const sequence = nextSequence(taskId, seen, condition, options);
        const removed = replaced && !isCorrupt(replaced) && isTransient(replaced) ? [replaced.id] : [];
        const records = sealRecords(taskId, drafts, sequence - drafts.length);
        const put = sealDraft(own, sequence);
        return { answer: sequence, change: { lastSequence: sequence, put, body: own.payload.body, removed, records } };
      },
    });
  }

  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#calls.run(() => this.#tasks.get(taskId, id));
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    for (const header of await this.#select(query)) {
      // Reads the header again together with its payload, so that they belong together. It may have been removed since.
      const record = isCorrupt(header) ? header : await this.get(query.taskId, header.id);
      if (record !== undefined && record.sequence === header.sequence) yield record;
    }
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    for (const header of await this.#select(query)) yield isCorrupt(header) ? header : toSummary(header);
  }

  async *tasks(query: TaskQuery): AsyncIterable<StoredTask | CorruptRecord> {
    const tasks = await this.#calls.run(async () => {
      const taskIds = (await this.#tasks.taskIds()).filter((taskId) => matchesTaskId(taskId, query));
      return Promise.all(taskIds.map((taskId) => this.#tasks.list(taskId, 0)));
    });
    yield* selectTasks(tasks, query);
  }

  setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    options?: StatusOptions,
  ): Promise<boolean> {
    const own = structuredClone(change);
    const drafts = (options?.records ?? []).map(copyRecordDraft);
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      ids: [id],
      records: drafts,
      condition,
      decide: async (seen) => {
        checkFence(seen, condition);
        const [header] = seen.headers;
        if (header === undefined) return { answer: false };
        matchEventRetry(taskId, drafts, seen.findEvent, true);
        const first = nextSequence(taskId, seen, condition);
        const put = withStatus(requireIntact(header), own);
        const lastSequence = seen.lastSequence + drafts.length;
        return { answer: true, change: { put, lastSequence, records: sealRecords(taskId, drafts, first) } };
      },
    });
  }

  replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const own = copyPayload(payload);
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      ids: [id],
      decide: async ({ headers: [found] }) => {
        const header = found && requireIntact(found);
        if (header?.payload.sha256 !== expectedSha256) return { answer: false };
        return { answer: true, change: { put: withPayload(header, own), body: own.body } };
      },
    });
  }

  remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const own = ids === "all" ? [] : [...new Set(ids)];
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      ids: own,
      condition,
      decide: async (seen) => {
        checkFence(seen, condition);
        requireNewest(taskId, seen.newestSequence, condition);
        requireNoEvent(taskId, seen.lastEvent, condition);
        if (ids === "all") return { answer: seen.count, change: { removed: ids } };
        const removed = own.filter((_, index) => seen.headers[index] !== undefined);
        return removed.length === 0 ? { answer: 0 } : { answer: removed.length, change: { removed } };
      },
    });
  }

  close(): Promise<void> {
    return this.#calls.close();
  }

  async #select(query: CheckpointQuery): Promise<Iterable<SealedSummary | CorruptRecord>> {
    const { headers } = await this.#calls.run(() => this.#tasks.list(query.taskId));
    return selectHeaders(headers, query);
  }

  async *#allLeases() {
    yield* await this.#calls.run(() => this.#tasks.leases());
  }
}

/** Whether the connection broke or the server can't answer at the moment. */
function isRetryable(error: unknown): boolean {
  if (error instanceof ErrorReply) return /^(BUSY|LOADING|MASTERDOWN|NOREPLICAS|OOM|READONLY) /.test(error.message);
  return LOST_CONNECTION.some((type) => error instanceof type);
}

const LOST_CONNECTION = [ClientOfflineError, SocketClosedUnexpectedlyError, SocketTimeoutError];
