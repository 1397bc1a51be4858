import type { AppendCondition } from "../../src/contract/conditions.js";
import {
  copyPayloadChange,
  copyRecordDraft,
  type LogItem,
  type LogOptions,
  type PayloadChange,
  type RecordDraft,
  type RecordQuery,
  type RecordSelection,
  type TaskLog,
} from "../../src/contract/log.js";
import { requireAbsent, type TableCalls } from "./adapter.js";
import { logInPages } from "./records.js";

/** The log of an adapter on SQL. Copies arguments at once, since a caller may change them while its call waits. */
export class SqlLog implements TaskLog {
  readonly watch?: NonNullable<TaskLog["watch"]>;
  readonly #calls: TableCalls;
  readonly #pageRows: number;

  /** @internal @param pageRows - How many rows are read at a time. */
  constructor(calls: TableCalls, pageRows: number) {
    this.#calls = calls;
    this.#pageRows = pageRows;
    this.watch = (changed, taskId) => calls.watch(changed, taskId);
  }

  append(
    taskId: string,
    records: readonly RecordDraft[],
    condition: AppendCondition = {},
    options: LogOptions = {},
  ): Promise<number> {
    const copies = records.map(copyRecordDraft);
    return this.#calls.enqueue({ taskId, records: copies, condition: { ...condition }, options: { ...options } });
  }

  read(query: RecordQuery): AsyncIterable<LogItem> {
    return logInPages(query, this.#pageRows, async (rest, rows) => {
      const page = await this.#calls.read(({ log }) => log.read(rest, rows));
      // The sync follows the read, because records committed after a sync would be yielded unsynced.
      if (query.durableOnly && page?.items.length) await this.#calls.change(({ log }) => log.sync(query.taskId));
      return page;
    });
  }

  async remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): Promise<number> {
    const [selected, expected] = [{ ...selection }, { ...condition }];
    const removed = await this.#calls.change(({ log }) => log.remove(taskId, selected, expected));
    if (removed === undefined) requireAbsent(taskId, expected);
    return removed ?? 0;
  }

  async replacePayloads(taskId: string, changes: readonly PayloadChange[]): Promise<readonly number[]> {
    const copies = changes.map(copyPayloadChange);
    return (await this.#calls.change(({ log }) => log.replacePayloads(taskId, copies))) ?? [];
  }
}
