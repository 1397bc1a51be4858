import { copyPayload, type Payload } from "../../src/contract/checkpoint.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import type {
  LogItem,
  LogOptions,
  RecordDraft,
  RecordQuery,
  RecordSelection,
  TaskLog,
} from "../../src/contract/log.js";
import { type Maybe, requireAbsent } from "./adapter.js";
import { copyLogAppend, type LogAppend, type LogPage, logInPages } from "./records.js";

/** The object that works with a database's table of records. */
export interface LogTable {
  read(query: RecordQuery, rows: number): Maybe<LogPage>;
  /** Makes what was committed before survive a power cut. */
  sync(taskId: string): Maybe<void>;
  remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): Maybe<number>;
  replacePayload(taskId: string, sequence: number, payload: Payload, expectedSha256: string): Maybe<boolean>;
}

interface LogCalls {
  /** The most rows that are read at a time. */
  readonly pageRows: number;
  store(append: LogAppend): Promise<number>;
  /** Runs `work` with the table. Resolves to `undefined` if there is no store. */
  reading<Result>(work: (table: LogTable) => Maybe<Result>): Promise<Result | undefined>;
  /** Like `reading`, for work that changes the table. */
  changing<Result>(work: (table: LogTable) => Maybe<Result>): Promise<Result | undefined>;
  readonly watch?: TaskLog["watch"];
}

/** The log of an adapter on SQL. It copies arguments at once, since a caller may change them while its call waits. */
export class SqlLog implements TaskLog {
  readonly watch?: (changed: () => void) => () => void;
  readonly #calls: LogCalls;

  constructor(calls: LogCalls) {
    this.#calls = calls;
    if (calls.watch) this.watch = calls.watch;
  }

  append(
    taskId: string,
    records: readonly RecordDraft[],
    condition?: AppendCondition,
    options?: LogOptions,
  ): Promise<number> {
    return this.#calls.store(copyLogAppend(taskId, records, condition, options));
  }

  async *read(query: RecordQuery): AsyncGenerator<LogItem, void, void> {
    yield* logInPages(query, this.#calls.pageRows, async (rest, rows) => {
      const page = await this.#calls.reading((table) => table.read(rest, rows));
      // The sync follows the read, since what was committed between them would be yielded without a sync.
      if (query.durableOnly && page?.items.length) await this.#calls.changing((table) => table.sync(query.taskId));
      return page;
    });
  }

  async remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): Promise<number> {
    const [selected, expected] = [{ ...selection }, { ...condition }];
    const removed = await this.#calls.changing((table) => table.remove(taskId, selected, expected));
    if (removed === undefined) requireAbsent(taskId, expected);
    return removed ?? 0;
  }

  async replacePayload(taskId: string, sequence: number, payload: Payload, expectedSha256: string): Promise<boolean> {
    const copy = copyPayload(payload);
    const replace = (table: LogTable) => table.replacePayload(taskId, sequence, copy, expectedSha256);
    return (await this.#calls.changing(replace)) ?? false;
  }
}
