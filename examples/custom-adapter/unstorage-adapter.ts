import type { CheckpointSummary, CorruptRecord, StorageAdapter } from "waymark";
import {
  AdapterCalls,
  type AppendCondition,
  type AppendOptions,
  type CheckpointDraft,
  type CheckpointQuery,
  copyRecord,
  copyRecordDraft,
  findDamage,
  isCorrupt,
  isTransient,
  matchEventRetry,
  matchRetry,
  nextSequence,
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
  toHeader,
  toSummary,
  withStatus,
} from "waymark/adapter";
import { type IndexEntry, indexKey, type KeyValueStorage, Records, type TaskIndex } from "./records.js";
import { findEvent, readPosition, storeRecords, UnstorageLog } from "./unstorage-log.js";

export interface UnstorageAdapterOptions {
  /** Owned by the caller: `close` doesn't dispose it. Use one adapter per storage at a time. */
  readonly storage: KeyValueStorage;
}

/**
 * Stores checkpoints in any unstorage driver. Each task has one index with everything except the payloads, so a list
 * takes one read. Each payload has its own key.
 *
 * unstorage has no transactions, so the `setItem` of the index commits every change: an append stores the payload
 * before it, a removal deletes the payload after it. A failure in between leaves the old state intact, and perhaps a
 * payload that no index names. Calls of one task wait for each other, so that they can't overwrite each other's
 * changes.
 */
export class UnstorageAdapter implements StorageAdapter {
  readonly name = "unstorage";
  /**
   * `durable` would promise that acknowledged checkpoints survive a kill, but drivers overwrite in place (fs) or answer
   * before they have stored the value. `multiProcess` would need a compare-and-set, which unstorage doesn't have.
   */
  readonly capabilities = { durable: false, multiProcess: false } as const;
  readonly #calls = new AdapterCalls({ name: "unstorage" });
  readonly #records: Records;
  readonly log: TaskLog;

  constructor({ storage }: UnstorageAdapterOptions) {
    this.#records = new Records(storage);
    this.log = new UnstorageLog(this.#calls, this.#records);
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    // Copies the draft before waiting for the task's other calls: the caller may change it meanwhile.
    const own = copyRecord(draft);
    const records = (options?.records ?? []).map(copyRecordDraft);
    const { taskId, id } = own;
    return this.#calls.inTurn(indexKey(taskId), async () => {
      const index = await this.#records.indexToChange(taskId);
      const { entries } = index;
      const existing = entries.find(({ header }) => header.id === id);
      if (existing) return matchRetry(requireIntact(await this.#records.checkpoint(existing.header)), own);

      matchEventRetry(taskId, records, (event) => findEvent(index, event), true);
      const sequence = nextSequence(taskId, readPosition(index), condition, options);
      const added = await storeRecords(this.#records, taskId, records, sequence - records.length);
      const record = sealDraft(own, sequence);
      await this.#records.storePayload(taskId, sequence, record.payload.body);
      const replaced = entries.find(
        ({ header }) => header.id === options?.replaces && !isCorrupt(header) && isTransient(header),
      );
      const kept = entries.filter((one) => one !== replaced);
      await this.#records.storeIndex({
        ...index,
        lastSequence: sequence,
        entries: [...kept, entryOf(toHeader(record))],
        records: [...index.records, ...added],
      });
      if (replaced !== undefined) await this.#removePayloads([replaced], taskId);
      return sequence;
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#calls.inTurn(indexKey(taskId), async () => {
      const index = await this.#records.index(indexKey(taskId));
      if (index === undefined || isCorrupt(index)) return index;
      const entry = index.entries.find(({ header }) => header.id === id);
      return entry && this.#records.checkpoint(entry.header);
    });
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    for (const header of await this.#headers(query)) {
      // Reads each payload in a separate turn, so that others and the iterating caller can write in between.
      const record = isCorrupt(header)
        ? header
        : await this.#calls.inTurn(indexKey(query.taskId), () => this.#asItIs(header));
      if (record !== undefined) yield record;
    }
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    for (const header of await this.#headers(query)) yield isCorrupt(header) ? header : toSummary(header);
  }

  /** Reads the indexes of all tasks even if there is a limit, because a key-value store has no order. */
  async *tasks(query: TaskQuery): AsyncIterable<StoredTask | CorruptRecord> {
    const tasks: ReturnType<typeof indexedTask>[] = [];
    for (const key of await this.#calls.run(() => this.#records.indexKeys())) {
      const index = await this.#calls.inTurn(key, () => this.#records.index(key));
      if (index !== undefined) tasks.push(indexedTask(index));
    }
    yield* selectTasks(tasks, query);
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    options?: StatusOptions,
  ): Promise<boolean> {
    const ownChange = structuredClone(change);
    const records = (options?.records ?? []).map(copyRecordDraft);
    return this.#calls.inTurn(indexKey(taskId), async () => {
      const index = await this.#records.indexToChange(taskId);
      const entry = index.entries.find(({ header }) => header.id === id);
      if (entry === undefined) return false;
      matchEventRetry(taskId, records, (event) => findEvent(index, event), true);
      const first = nextSequence(taskId, readPosition(index), condition);
      const changed = entryOf(withStatus(requireIntact(entry.header), ownChange));
      const added = await storeRecords(this.#records, taskId, records, first);
      await this.#records.storeIndex({
        ...index,
        lastSequence: index.lastSequence + added.length,
        entries: index.entries.map((one) => (one === entry ? changed : one)),
        records: [...index.records, ...added],
      });
      return true;
    });
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    if (ids === "all") return this.#calls.inTurn(indexKey(taskId), () => this.#removeTask(taskId, condition));
    const doomed = new Set<string | undefined>(ids);
    return this.#calls.inTurn(indexKey(taskId), async () => {
      const index = await this.#records.indexToChange(taskId);
      requireNewest(taskId, readPosition(index).newestSequence, condition);
      requireNoEvent(taskId, readPosition(index).lastEvent, condition);
      const removed = index.entries.filter(({ header }) => doomed.has(header.id));
      if (removed.length === 0) return 0;
      await this.#records.storeIndex({ ...index, entries: index.entries.filter((one) => !removed.includes(one)) });
      await this.#removePayloads(removed, taskId);
      return removed.length;
    });
  }

  close(): Promise<void> {
    return this.#calls.close();
  }

  async #headers(query: CheckpointQuery): Promise<Iterable<SealedSummary | CorruptRecord>> {
    const { taskId } = query;
    const index = await this.#calls.inTurn(indexKey(taskId), () => this.#records.index(indexKey(taskId)));
    return index === undefined ? [] : selectHeaders(indexedTask(index).headers, query);
  }

  /**
   * Returns the checkpoint of a header that was read before. If the payload doesn't match, the checkpoint may have been
   * removed since, or saved again under the same id, so both are read again. If they still don't match, it is damaged.
   */
  async #asItIs(header: SealedSummary): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const record = await this.#records.checkpoint(header);
    if (!isCorrupt(record) && findDamage(record) === undefined) return record;
    const { entries } = await this.#records.indexToChange(header.taskId);
    const now = entries.find((one) => one.header.sequence === header.sequence && one.header.id === header.id);
    return now && this.#records.checkpoint(now.header);
  }

  async #removePayloads(removed: readonly IndexEntry[], taskId: string): Promise<void> {
    for (const { header } of removed) {
      if (header.sequence !== undefined) await this.#records.removePayload(taskId, header.sequence);
    }
  }

  async #removeTask(taskId: string, condition: AppendCondition | undefined): Promise<number> {
    const index = await this.#records.index(indexKey(taskId));
    // A damaged task can be removed as a whole, but only without a condition, which can't be checked.
    if (index !== undefined && isCorrupt(index) && condition === undefined) return this.#records.removeTask(taskId);
    const whole = await this.#records.indexToChange(taskId);
    requireNewest(taskId, readPosition(whole).newestSequence, condition);
    requireNoEvent(taskId, readPosition(whole).lastEvent, condition);
    await this.#records.removeTask(taskId);
    return whole.entries.length;
  }
}

function entryOf(header: SealedSummary): IndexEntry {
  return { stored: header, header };
}

/** Returns the task in the form that `selectTasks` takes. */
function indexedTask(index: TaskIndex | CorruptRecord) {
  if (isCorrupt(index)) return { taskId: index.taskId ?? "", count: 0, lastSequence: 0, headers: [index] };
  const { taskId, lastSequence, entries, records, removedUpTo } = index;
  const last = records.at(-1);
  const isLast = last !== undefined && last.sequence > readPosition(index).newestSequence;
  const log = { ...(isLast && { last }), ...(removedUpTo > 0 && { removedUpTo }) };
  return { taskId, count: entries.length, lastSequence, headers: entries.map(({ header }) => header), log };
}
