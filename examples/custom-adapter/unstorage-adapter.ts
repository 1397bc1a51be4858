import {
  CheckpointCorruptError,
  CheckpointError,
  type CheckpointSummary,
  ClosedError,
  type CorruptRecord,
  type StorageAdapter,
  StorageError,
  type TaskSummary,
} from "waymark";
import {
  type AdapterCapabilities,
  type AppendCondition,
  type AppendOptions,
  type CheckpointDraft,
  type CheckpointQuery,
  findDamage,
  isCorrupt,
  isPassing,
  matchRetry,
  nextSequence,
  requireNewest,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  sealDraft,
  summaryOf,
  type TaskQuery,
  withStatus,
} from "waymark/adapter";
import { indexKey, type KeyValueStorage, Records } from "./records.js";
import { corruptionOf, newestSequence, select, selectTasks, type TaskIndex } from "./task-index.js";

export interface UnstorageAdapterOptions {
  /** Belongs to the caller: `close` doesn't dispose it. Only one adapter per storage at a time. */
  readonly storage: KeyValueStorage;
}

/**
 * Checkpoints in any unstorage driver. Each task has one index with everything but the payloads, so a list takes one
 * read. Each payload has its own key.
 *
 * unstorage has no transactions, so one `setItem`, the index's, commits every change. An append stores its payload
 * before it, a removal deletes its payload after it. A failure halfway leaves the old state intact, and perhaps a
 * payload that no index names. Calls of one task wait for each other. This keeps their order, and no call reads an
 * index that another is about to replace.
 */
export class UnstorageAdapter implements StorageAdapter {
  readonly name = "unstorage";
  /**
   * `durable` would promise that a kill loses nothing acknowledged, but drivers overwrite in place (fs) or answer
   * before they have stored. `multiProcess` needs a compare-and-set, which unstorage doesn't have.
   */
  readonly capabilities: AdapterCapabilities = { durable: false, multiProcess: false };
  readonly #records: Records;
  /** By task: the end of its last call under way. */
  readonly #queues = new Map<string, Promise<void>>();
  #closed = false;

  constructor({ storage }: UnstorageAdapterOptions) {
    this.#records = new Records(storage);
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    // Encoded before the first await: the caller may change its draft while the call waits.
    const own = structuredClone(draft);
    const { taskId, id } = own;
    return this.#inTurn(indexKey(taskId), async () => {
      const { headers, lastSequence } = await this.#index(taskId);
      const existing = headers.find((header) => header.id === id);
      if (existing) return this.#sequenceOfStored(existing, own);

      const position = { newestSequence: newestSequence(headers), lastSequence };
      const sequence = nextSequence(taskId, position, condition, options);
      const { payload, ...header } = sealDraft(own, sequence);
      const { body, ...digest } = payload;
      await this.#records.storePayload(taskId, sequence, body);
      const replaced = headers.find((one) => one.id === options?.replaces && isPassing(one));
      const kept = headers.filter((one) => one !== replaced);
      const grown = [...kept, { ...header, payload: digest }];
      await this.#records.storeIndex({ taskId, lastSequence: sequence, headers: grown });
      if (replaced !== undefined) await this.#records.removePayload(taskId, replaced.sequence);
      return sequence;
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#inTurn(indexKey(taskId), async () => {
      const index = await this.#records.index(indexKey(taskId));
      if (index === undefined || isCorrupt(index)) return index;
      const header = index.headers.find((one) => one.id === id);
      if (header === undefined) return undefined;
      return this.#checkpoint(header);
    });
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    const key = indexKey(query.taskId);
    for (const header of await this.#headers(query)) {
      // Each payload is read in a turn of its own, so that others, and the caller itself, can write to the task in
      // between.
      const record = isCorrupt(header) ? header : await this.#inTurn(key, () => this.#asItIs(header));
      if (record !== undefined) yield record;
    }
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    for (const header of await this.#headers(query)) yield isCorrupt(header) ? header : summaryOf(header);
  }

  /** Reads every task's index, whatever the limit, because a key-value store has no order. */
  async *tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    const indexes: (TaskIndex | CorruptRecord)[] = [];
    for (const key of await this.#inTurn("all tasks", () => this.#records.indexKeys())) {
      const index = await this.#inTurn(key, () => this.#records.index(key));
      if (index !== undefined) indexes.push(index);
    }
    yield* selectTasks(indexes, query);
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const ownChange = structuredClone(change);
    return this.#inTurn(indexKey(taskId), async () => {
      const index = await this.#index(taskId);
      const header = index.headers.find((one) => one.id === id);
      if (header === undefined) return false;
      requireNewest(taskId, newestSequence(index.headers), condition);
      const changed = withStatus(header, ownChange);
      const headers = index.headers.map((one) => (one === header ? changed : one));
      await this.#records.storeIndex({ ...index, headers });
      return true;
    });
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    if (ids === "all") return this.#inTurn(indexKey(taskId), () => this.#removeTask(taskId, condition));
    const doomedIds = new Set(ids);
    return this.#inTurn(indexKey(taskId), async () => {
      const index = await this.#index(taskId);
      requireNewest(taskId, newestSequence(index.headers), condition);
      const doomed = index.headers.filter(({ id }) => doomedIds.has(id));
      if (doomed.length === 0) return 0;
      // An emptied task keeps its index, because only "all" ends its numbering.
      const headers = index.headers.filter(({ id }) => !doomedIds.has(id));
      await this.#records.storeIndex({ ...index, headers });
      for (const { sequence } of doomed) await this.#records.removePayload(taskId, sequence);
      return doomed.length;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#queues.values());
  }

  /** Runs calls of one name one after another, in call order. A driver's error becomes a StorageError. */
  async #inTurn<Result>(name: string, call: () => Promise<Result>): Promise<Result> {
    if (this.#closed) throw new ClosedError("The unstorage adapter");
    const result = (this.#queues.get(name) ?? Promise.resolve()).then(call);
    const done = result.then(nothing, nothing);
    this.#queues.set(name, done);
    try {
      return await result;
    } catch (cause) {
      if (cause instanceof CheckpointError) throw cause;
      throw new StorageError("The storage under unstorage failed. Acknowledged checkpoints are intact.", {
        cause,
      });
    } finally {
      if (this.#queues.get(name) === done) this.#queues.delete(name);
    }
  }

  /** For writers: an unreadable index must never be overwritten. */
  async #index(taskId: string): Promise<TaskIndex> {
    const index = await this.#records.index(indexKey(taskId));
    if (index === undefined) return { taskId, lastSequence: 0, headers: [] };
    if (!isCorrupt(index)) return index;
    const what = `${index.location}: ${index.reason} It was left untouched, and nothing was stored.`;
    throw new CheckpointCorruptError(what, { cause: index.cause });
  }

  async #headers(query: CheckpointQuery): Promise<Iterable<SealedSummary | CorruptRecord>> {
    const key = indexKey(query.taskId);
    const index = await this.#inTurn(key, () => this.#records.index(key));
    if (index === undefined) return [];
    return isCorrupt(index) ? [index] : select(index.headers, query);
  }

  /**
   * The checkpoint of a header that was read before. If its payload doesn't fit, the checkpoint may have been removed
   * since, or saved again under its id, so both are read again. If they still don't fit, the checkpoint is damaged.
   */
  async #asItIs(header: SealedSummary): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const record = await this.#records.checkpoint(header);
    if (!isCorrupt(record) && findDamage(record) === undefined) return record;
    const { headers } = await this.#index(header.taskId);
    const now = headers.find(({ sequence, id }) => sequence === header.sequence && id === header.id);
    return now && this.#checkpoint(now);
  }

  async #checkpoint(header: SealedSummary): Promise<StoredCheckpoint | CorruptRecord> {
    return corruptionOf(header) ?? this.#records.checkpoint(header);
  }

  /** Answers an append whose id exists. If that checkpoint is damaged, nobody can tell whether it equals the draft. */
  async #sequenceOfStored(header: SealedSummary, draft: CheckpointDraft): Promise<number> {
    const stored = await this.#checkpoint(header);
    const damage = isCorrupt(stored) ? stored.reason : findDamage(stored);
    if (damage === undefined) return matchRetry(header, draft);
    throw new CheckpointCorruptError(
      `Checkpoint ${header.id} of task ${JSON.stringify(header.taskId)} exists and is damaged: ${damage} ` +
        "It was left untouched, and nothing was stored.",
    );
  }

  async #removeTask(taskId: string, condition: AppendCondition | undefined): Promise<number> {
    const index = await this.#records.index(indexKey(taskId));
    // A damaged task can be removed as a whole, but nobody can tell whether a condition holds for it.
    if (index !== undefined && isCorrupt(index) && condition === undefined) return this.#records.removeTask(taskId);
    const { headers } = await this.#index(taskId);
    requireNewest(taskId, newestSequence(headers), condition);
    await this.#records.removeTask(taskId);
    return headers.length;
  }
}

function nothing(): void {}
