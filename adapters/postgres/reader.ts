import { hash } from "node:crypto";
import {
  type CheckpointQuery,
  type CorruptRecord,
  isCorrupt,
  matchesQuery,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  brokenSeal,
  CHECKPOINT_STATUSES,
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  type SealedSummary,
  type StoredCheckpoint,
  summaryOf,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { BrokenHistoryError } from "../sql/history.js";
import { COLUMNS, damagedRow, HIGHEST, type SqlRow, sealedSummaryOf } from "../sql/rows.js";
import type { Statements } from "./connection.js";
import { isNoText } from "./errors.js";
import type { PostgresHistories } from "./histories.js";
import type { PostgresStatements } from "./statements.js";

/** Which sequences of a task, both included. A damaged one may be any of PostgreSQL's. */
export interface Range {
  readonly low: bigint;
  readonly high: bigint;
}

/** Part of a longer answer. `rest`: what is left of the range, if there may be something. */
export interface Page<Found> {
  readonly entries: readonly Entry<Found>[];
  readonly rest: Range | undefined;
}

/** A row's sequence, and what the row holds, or why that can't be read. */
export interface Entry<Found> {
  readonly sequence: string;
  readonly found: Found | CorruptRecord;
}

/** How much a page may have. */
export interface PageSize {
  readonly rows: number;
  /** A page has a first checkpoint, and more of them up to this many bytes. */
  readonly bytes: number;
}

const [LOWEST_BIGINT, HIGHEST_BIGINT] = [-(2n ** 63n), 2n ** 63n - 1n];
const WIDTH = COLUMNS.length;
const MISSING = "its task has it as the newest, and it isn't there";

/** The sequences that a query asks for. */
export function rangeOf({ beforeSequence, afterSequence }: CheckpointQuery): Range {
  return {
    low: afterSequence === undefined ? LOWEST_BIGINT : BigInt(afterSequence) + 1n,
    high: beforeSequence === undefined ? HIGHEST_BIGINT : BigInt(beforeSequence) - 1n,
  };
}

/** What a checkpoint is found by. */
export function digestOf(id: string): Buffer {
  return hash("sha256", id, "buffer");
}

/** The number of a `bigint` column, as any driver gives it. */
export function numberIn(value: unknown): unknown {
  return typeof value === "string" || typeof value === "bigint" ? Number(value) : value;
}

/** Reads the tables. A CorruptRecord stands for a row that makes no sense; the other rows are given. */
export class PostgresReader {
  readonly #sql: PostgresStatements;
  readonly #histories: PostgresHistories;
  readonly #place: string;

  /** @param place - Where the tables are, for messages. */
  constructor(sql: PostgresStatements, histories: PostgresHistories, place: string) {
    this.#sql = sql;
    this.#histories = histories;
    this.#place = place;
  }

  async get(from: Statements, taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const [row] = await from.rows(this.#sql.wholeById, taskId, digestOf(id));
    return row && this.#wholeOf(taskId, row, bytesIn(row[WIDTH + 1]));
  }

  /** The checkpoint with that sequence, as {@link Entry} has it. */
  async at(from: Statements, taskId: string, sequence: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const [row] = await from.rows(this.#sql.wholeAt, taskId, sequence);
    return row && this.#wholeOf(taskId, row, bytesIn(row[WIDTH + 1]));
  }

  /** The checkpoint of that id, with its seal, which isn't checked. */
  async sealed(from: Statements, taskId: string, id: string): Promise<SealedSummary | CorruptRecord | undefined> {
    const [row] = await from.rows(this.#sql.byId, taskId, digestOf(id));
    return row && this.#sealedOf(taskId, row);
  }

  /** Summaries that the query asks for, of a part of its range. */
  async summaries(
    from: Statements,
    query: CheckpointQuery,
    { low, high }: Range,
    size: PageSize,
  ): Promise<Page<CheckpointSummary>> {
    const part = [query.taskId, low, high, size.rows, query.skip ?? 0];
    const rows = await from.rows(this.#sql.summaries[query.order], ...part);
    const entries = rows.map((row) => ({ sequence: String(row[0]), found: this.#summaryOf(query.taskId, row) }));
    return {
      entries: entries.filter(({ found }) => isCorrupt(found) || matchesQuery(found, query)),
      rest: rows.length < size.rows ? undefined : restAfter(rows, query, { low, high }),
    };
  }

  /** Whole checkpoints that the query asks for, of a part of its range. */
  async checkpoints(
    from: Statements,
    query: CheckpointQuery,
    { low, high }: Range,
    size: PageSize,
  ): Promise<Page<StoredCheckpoint>> {
    const { taskId, order, stage, status, skip = 0 } = query;
    const isPlain = size.rows === 1 && skip === 0 && stage === undefined && status === undefined;
    const first = isPlain ? await this.#first(from, query, { low, high }) : undefined;
    if (first !== undefined) return first;
    const filtered = [size.rows, skip, stage ?? null, status ?? CHECKPOINT_STATUSES, size.bytes];
    const rows = await from.rows(this.#sql.checkpoints[order], taskId, low, high, ...filtered);
    const entries: Entry<StoredCheckpoint>[] = [];
    let bytes = 0;
    for (const row of rows) {
      const weight = Number(row[WIDTH + 3]);
      bytes += weight;
      if (!isCorrupt(this.#sealedOf(taskId, row)) && weight === 0) continue;
      entries.push({ sequence: String(row[0]), found: this.#wholeOf(taskId, row, bytesIn(row[WIDTH + 1])) });
    }
    const isWhole = rows.length < size.rows && bytes < size.bytes;
    return { entries, rest: isWhole ? undefined : restAfter(rows, query, { low, high }) };
  }

  /** Ids of tasks that the query asks for by what their rows say. */
  async taskIds(from: Statements, query: TaskQuery, limit: number, skip: number): Promise<readonly string[]> {
    const { order, status = CHECKPOINT_STATUSES, prefix = "", after } = query;
    const { idsByTaskId, idsByRecency, idsByRecencyInRange } = this.#sql.acrossTasks;
    const part = [status, Number.isFinite(limit) ? limit : null, skip];
    // The first text after an id is that id and the lowest character.
    const first = after === undefined || compareTaskIds(after, prefix) < 0 ? prefix : `${after}\0`;
    const range = [first, prefix + HIGHEST];
    const rows =
      order === "taskId"
        ? await from.rows(idsByTaskId, ...part, ...range)
        : prefix === ""
          ? await from.rows(idsByRecency, ...part)
          : await from.rows(idsByRecencyInRange, ...part, ...range);
    return rows.map(([taskId]) => String(taskId));
  }

  /**
   * Those of the tasks whose newest intact checkpoint has any of the statuses, in the order of their ids. The damaged ones
   * after that come first.
   */
  async tasks(
    from: Statements,
    taskIds: readonly string[],
    statuses: readonly CheckpointStatus[],
  ): Promise<readonly (TaskSummary | CorruptRecord)[]> {
    const rows = new Map<unknown, SqlRow>();
    for (const [taskId, ...row] of await from.rows(this.#sql.acrossTasks.tasks, taskIds)) rows.set(taskId, row);
    const found: (TaskSummary | CorruptRecord)[] = [];
    for (const taskId of taskIds) {
      const row = rows.get(taskId);
      if (row) found.push(...(await this.#task(from, taskId, row, statuses)));
    }
    return found;
  }

  async #task(
    from: Statements,
    taskId: string,
    [count, sequence, ...row]: SqlRow,
    statuses: readonly CheckpointStatus[],
  ): Promise<readonly (TaskSummary | CorruptRecord)[]> {
    // Somebody has removed its checkpoints since.
    if (sequence === null) return [];
    const newest = String(sequence);
    const missing = () =>
      damagedRow(locationOf(this.#place, taskId, newest), { taskId, sequence: Number(newest) }, MISSING);
    const damaged: CorruptRecord[] = [];
    let page: Page<CheckpointSummary> = {
      entries: [{ sequence: newest, found: row[0] === null ? missing() : this.#summaryOf(taskId, row) }],
      rest: { low: LOWEST_BIGINT, high: BigInt(newest) - 1n },
    };
    for (;;) {
      for (const { found } of page.entries) {
        if (isCorrupt(found)) damaged.push(found);
        else if (!statuses.includes(found.status)) return damaged;
        else return [...damaged, { taskId, count: Number(count), newest: found }];
      }
      if (page.rest === undefined) return damaged;
      page = await this.summaries(from, { taskId, order: "newest" }, page.rest, { rows: 16, bytes: 0 });
    }
  }

  #sealedOf(taskId: string, row: SqlRow): SealedSummary | CorruptRecord {
    return sealedSummaryOf(taskId, row.slice(0, WIDTH).map(numberAt), () => locationOf(this.#place, taskId, row[0]));
  }

  /** With the seal checked: of a summary, nobody above can check it. */
  #summaryOf(taskId: string, row: SqlRow): CheckpointSummary | CorruptRecord {
    const found = this.#sealedOf(taskId, row);
    if (isCorrupt(found)) return found;
    const broken = brokenSeal(found);
    return broken === undefined ? summaryOf(found) : damagedRow(locationOf(this.#place, taskId, row[0]), found, broken);
  }

  /** The first row of the range, its body as text where it is one. `undefined` if that is damaged. */
  async #first(from: Statements, query: CheckpointQuery, range: Range): Promise<Page<StoredCheckpoint> | undefined> {
    const { taskId, order } = query;
    const known = this.#histories.knownOf(taskId);
    try {
      const statement = this.#sql.checkpoint[order];
      const rows = await from.rows(statement, taskId, range.low, range.high, known?.sha256 ?? "");
      const entries = rows.map((row) => {
        const body = row[WIDTH] === true ? row[WIDTH + 1] : bytesIn(row[WIDTH + 1]);
        const found = this.#wholeOf(taskId, row, body, ({ sequence, payload: { sha256 } }) => {
          if (known?.sha256 === sha256) return known.text.toString();
          const pieces = row[WIDTH + 2];
          if (order === "oldest") return this.#histories.textOf(sequence, pieces);
          return this.#histories.newestTextOf(taskId, sequence, sha256, pieces);
        });
        return { sequence: String(row[0]), found };
      });
      return { entries, rest: restAfter(rows, query, range) };
    } catch (error) {
      if (isNoText(error)) return undefined;
      throw error;
    }
  }

  #wholeOf(
    taskId: string,
    row: SqlRow,
    body: unknown,
    textOf = ({ sequence }: SealedSummary) => this.#histories.textOf(sequence, row[WIDTH + 2]),
  ): StoredCheckpoint | CorruptRecord {
    const found = this.#sealedOf(taskId, row);
    if (isCorrupt(found)) return found;
    if (typeof body === "string") return { ...found, payload: { ...found.payload, body } };
    if (Buffer.isBuffer(body)) {
      // Callers get a Uint8Array like any other, of memory that nobody shares.
      const copy = row[WIDTH] === true ? body.toString("utf8") : new Uint8Array(body);
      return { ...found, payload: { ...found.payload, body: copy } };
    }
    try {
      return { ...found, payload: { ...found.payload, body: textOf(found) } };
    } catch (error) {
      if (!(error instanceof BrokenHistoryError)) throw error;
      return damagedRow(locationOf(this.#place, taskId, row[0]), found, error.message, error);
    }
  }
}

/** The bytes that a statement gives as hexadecimal digits. */
function bytesIn(hex: unknown): Buffer | undefined {
  return typeof hex === "string" ? Buffer.from(hex, "hex") : undefined;
}

/** Where a checkpoint's row is, for messages. */
export function locationOf(place: string, taskId: string, sequence: unknown): string {
  return `${place}, table checkpoints, task ${JSON.stringify(taskId)}, sequence ${String(sequence)}`;
}

const NUMBERS: readonly number[] = (["sequence", "state_version", "size_bytes"] as const).map((name) =>
  COLUMNS.indexOf(name),
);

function numberAt(value: unknown, column: number): unknown {
  return NUMBERS.includes(column) ? numberIn(value) : value;
}

/** The range without what the page has gone through. */
function restAfter(rows: readonly SqlRow[], { order }: CheckpointQuery, { low, high }: Range): Range | undefined {
  const last = rows.at(-1)?.[0];
  if (last === undefined) return undefined;
  const sequence = BigInt(String(last));
  const rest = order === "newest" ? { low, high: sequence - 1n } : { low: sequence + 1n, high };
  return rest.low > rest.high ? undefined : rest;
}
