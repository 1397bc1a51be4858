import {
  type AdapterCalls,
  type AppendCondition,
  copyPayload,
  copyRecordDraft,
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
  sealRecord,
  sealRecordDraft,
  type TaskLog,
  toRecordHeader,
  toSummary,
} from "waymark/adapter";
import type { RedisTasks } from "./redis-tasks.js";
import { checkFence, writeTask } from "./redis-write.js";

/** The maximum number of items read at a time. */
const PAGE_ITEMS = 100;

/** Stores the records of a task. The server stores each write at once, so `lazy` has no effect. */
export class RedisLog implements TaskLog {
  readonly #calls: AdapterCalls;
  readonly #tasks: RedisTasks;

  constructor(calls: AdapterCalls, tasks: RedisTasks) {
    this.#calls = calls;
    this.#tasks = tasks;
  }

  append(
    taskId: string,
    records: readonly RecordDraft[],
    condition?: AppendCondition,
    { firstSequence }: LogOptions = {},
  ): Promise<number> {
    const own = records.map(copyRecordDraft);
    const expected = { ...condition };
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      records: own,
      condition: expected,
      decide: async (seen) => {
        const stored = matchEventRetry(taskId, own, seen.findEvent);
        if (stored !== undefined) return { answer: stored };
        checkFence(seen, expected);
        const first = nextSequence(taskId, seen, expected, { sequence: firstSequence });
        const lastSequence = first + own.length - 1;
        return { answer: lastSequence, change: { lastSequence, records: sealRecords(taskId, own, first) } };
      },
    });
  }

  async *read(query: RecordQuery): AsyncGenerator<LogItem, void, void> {
    const bound = query.order === "newest" ? "beforeSequence" : "afterSequence";
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    for (let rest = query; ; ) {
      const page = await this.#calls.run(() => this.#tasks.log(query.taskId, rest, PAGE_ITEMS));
      for (const item of page) {
        if (left === 0) return;
        if (!isCorrupt(item) && !matchesRecords(item, query)) continue;
        if (!isCorrupt(item)) left -= 1;
        yield isCorrupt(item) || "kind" in item ? item : toSummary(item);
      }
      const last = page.at(-1)?.sequence;
      if (page.length < PAGE_ITEMS || last === undefined) return;
      rest = { ...rest, [bound]: last };
    }
  }

  remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): Promise<number> {
    const [own, expected] = [{ ...selection }, { ...condition }];
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      condition: expected,
      decide: async (seen) => {
        checkFence(seen, expected);
        requireNewest(taskId, seen.newestSequence, expected);
        requireNoEvent(taskId, seen.lastEvent, expected);
        const removed = await this.#select(taskId, own);
        if (removed.length === 0) return { answer: 0 };
        const events = removed.filter(({ kind }) => kind === "event");
        const gone = removed.filter(({ kind }) => kind !== "event");
        const removedSequences = gone.filter(({ kind }) => kind !== "mark").map(({ sequence }) => sequence);
        const change = {
          records: events.map((event) => ({ ...event, sizeBytes: 0 })),
          removedRecords: gone.map(({ sequence }) => sequence),
          removedUpTo: Math.max(seen.removedUpTo, ...removedSequences),
        };
        return { answer: removed.length, change };
      },
    });
  }

  replacePayloads(
    taskId: string,
    changes: Parameters<NonNullable<TaskLog["replacePayloads"]>>[1],
  ): Promise<readonly number[]> {
    const own = changes.map((change) => ({ ...change, payload: copyPayload(change.payload) }));
    return writeTask(this.#calls, this.#tasks, {
      taskId,
      decide: async () => {
        const records: LogRecord[] = [];
        for (const { sequence, payload, expectedSha256 } of own) {
          const range = { taskId, order: "oldest", afterSequence: sequence - 1, beforeSequence: sequence + 1 } as const;
          const [header] = await this.#tasks.log(taskId, { ...range, headersOnly: true }, 1);
          if (header === undefined || isCorrupt(header) || !("kind" in header)) continue;
          const { sizeBytes, ...record } = toRecordHeader(header);
          if (sizeBytes === 0 || record.payload.sha256 !== expectedSha256) continue;
          const changed = { ...record, payload };
          records.push({ ...changed, seal: sealRecord(changed) });
        }
        return { answer: records.map(({ sequence }) => sequence), change: { records } };
      },
    });
  }

  /** Reads the readable records of a selection. The later commit fails if the task has changed since. */
  async #select(taskId: string, selection: RecordSelection): Promise<RecordHeader[]> {
    const selected: RecordHeader[] = [];
    let after = selection.afterSequence ?? 0;
    for (;;) {
      const query = { ...selection, taskId, order: "oldest", afterSequence: after, headersOnly: true } as const;
      const page = await this.#tasks.log(taskId, query, PAGE_ITEMS);
      for (const item of page) {
        if (isCorrupt(item) || !("kind" in item) || !matchesRecords(item, selection)) continue;
        const header = toRecordHeader(item);
        if (header.sizeBytes > 0) selected.push(header);
      }
      if (page.length < PAGE_ITEMS) return selected;
      after = page.at(-1)?.sequence ?? after;
    }
  }
}

export function sealRecords(taskId: string, drafts: readonly RecordDraft[], first: number): LogRecord[] {
  return drafts.map((draft, index) => sealRecordDraft(taskId, draft, first + index));
}
