import type { CheckpointSummary, CorruptRecord } from "waymark";
import {
  type AdapterCalls,
  type AppendCondition,
  copyRecordDraft,
  findRecordDamage,
  isCorrupt,
  type LogItem,
  type LogOptions,
  type LogRecord,
  matchEventRetry,
  matchesRecords,
  nextSequence,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type RecordSelection,
  requireNewest,
  requireNoEvent,
  sealRecordDraft,
  type TaskLog,
  toRecordHeader,
  toSummary,
} from "waymark/adapter";
import { indexKey, type Records, type TaskIndex } from "./records.js";

/**
 * Stores the records of a task next to its checkpoints. Their headers are in the task's index, and each body has its
 * own key, like a checkpoint's payload. An append costs more as the log grows, so this suits logs of some hundred
 * records.
 */
export class UnstorageLog implements TaskLog {
  readonly #calls: AdapterCalls;
  readonly #records: Records;

  constructor(calls: AdapterCalls, records: Records) {
    this.#calls = calls;
    this.#records = records;
  }

  /**
   * Every append is stored at once, so `lazy` has no effect. The adapter has no queue, so `dueAt` has no effect either.
   */
  append(
    taskId: string,
    records: readonly RecordDraft[],
    condition?: AppendCondition,
    { firstSequence }: LogOptions = {},
  ): Promise<number> {
    const own = records.map(copyRecordDraft);
    const expected = { ...condition };
    return this.#calls.inTurn(indexKey(taskId), async () => {
      const index = await this.#records.indexToChange(taskId);
      const stored = matchEventRetry(taskId, own, (id) => findEvent(index, id));
      if (stored !== undefined) return stored;
      const first = nextSequence(taskId, readPosition(index), expected, { sequence: firstSequence });
      const added = await storeRecords(this.#records, taskId, own, first);
      const lastSequence = first + own.length - 1;
      await this.#records.storeIndex({ ...index, lastSequence, records: [...index.records, ...added] });
      return lastSequence;
    });
  }

  async *read(query: RecordQuery): AsyncGenerator<LogItem, void, void> {
    const { taskId, order, limit = Number.POSITIVE_INFINITY } = query;
    const index = await this.#calls.inTurn(indexKey(taskId), () => this.#records.index(indexKey(taskId)));
    const direction = order === "newest" ? -1 : 1;
    let count = 0;
    const items = listItems(index, query).sort((a, b) => direction * ((a.sequence ?? 0) - (b.sequence ?? 0)));
    for (const item of items) {
      if (count === limit) return;
      // Reads each body in a separate turn, so that others and the iterating caller can write in between.
      const isBodyWanted = !isCorrupt(item) && "kind" in item && query.headersOnly !== true && item.sizeBytes > 0;
      const whole = isBodyWanted ? await this.#calls.inTurn(indexKey(taskId), () => this.#withBody(item)) : item;
      if (whole === undefined) continue;
      if (!isCorrupt(whole)) count += 1;
      yield whole;
    }
  }

  remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): Promise<number> {
    const [own, expected] = [{ ...selection }, { ...condition }];
    return this.#calls.inTurn(indexKey(taskId), async () => {
      const index = await this.#records.indexToChange(taskId);
      requireNewest(taskId, readPosition(index).newestSequence, expected);
      requireNoEvent(taskId, readPosition(index).lastEvent, expected);
      const removed = index.records.filter((record) => record.sizeBytes > 0 && matchesRecords(record, own));
      if (removed.length === 0) return 0;
      const gone = removed.filter(({ kind }) => kind !== "event");
      const removedSequences = gone.filter(({ kind }) => kind !== "mark").map(({ sequence }) => sequence);
      const records = index.records
        .filter((record) => !gone.includes(record))
        .map((record) => (removed.includes(record) ? { ...record, sizeBytes: 0 } : record));
      await this.#records.storeIndex({
        ...index,
        records,
        removedUpTo: Math.max(index.removedUpTo, ...removedSequences),
      });
      for (const { sequence } of removed) await this.#records.removePayload(taskId, sequence);
      return removed.length;
    });
  }

  /**
   * Returns the record of a header that was read before. If the body is missing or doesn't match, the record may have
   * been removed since, so both are read again.
   */
  async #withBody(header: RecordHeader): Promise<LogRecord | RecordHeader | CorruptRecord | undefined> {
    const record = await this.#readRecord(header);
    if (!isCorrupt(record) && findRecordDamage(record) === undefined) return record;
    const index = await this.#records.indexToChange(header.taskId);
    const now = index.records.find(({ sequence, seal }) => sequence === header.sequence && seal === header.seal);
    return now && (now.sizeBytes === 0 ? now : this.#readRecord(now));
  }

  async #readRecord({ sizeBytes: _sizeBytes, ...header }: RecordHeader): Promise<LogRecord | CorruptRecord> {
    const { taskId, sequence } = header;
    const body = await this.#records.payload(taskId, sequence, {});
    return isCorrupt(body) ? body : { ...header, payload: { ...header.payload, body: body.body } };
  }
}

/** Stores the bodies and returns the headers. Storing the index with these headers commits the records. */
export async function storeRecords(
  records: Records,
  taskId: string,
  drafts: readonly RecordDraft[],
  first: number,
): Promise<RecordHeader[]> {
  const sealed = drafts.map((draft, index) => sealRecordDraft(taskId, draft, first + index));
  for (const { sequence, payload } of sealed) await records.storePayload(taskId, sequence, payload.body);
  return sealed.map(toRecordHeader);
}

export function readPosition({ lastSequence, entries, records }: TaskIndex) {
  return {
    newestSequence: entries.findLast(({ header }) => header.sequence !== undefined)?.header.sequence ?? 0,
    lastSequence,
    lastEvent: records.findLast(({ kind }) => kind === "event")?.sequence ?? 0,
  };
}

export function findEvent({ records }: TaskIndex, id: string): RecordHeader | undefined {
  return records.find((record) => record.id === id);
}

function listItems(
  index: TaskIndex | CorruptRecord | undefined,
  query: RecordQuery,
): (RecordHeader | CheckpointSummary | CorruptRecord)[] {
  if (index === undefined) return [];
  if (isCorrupt(index)) return [index];
  const checkpoints = index.entries.map(({ header }) => (isCorrupt(header) ? header : toSummary(header)));
  // Damaged items are always reported, because the query can't be matched against them.
  return [...index.records, ...checkpoints].filter((item) => isCorrupt(item) || matchesRecords(item, query));
}
