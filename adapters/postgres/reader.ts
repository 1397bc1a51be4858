import type { CheckpointQuery, TaskQuery } from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointSummary,
  type SealedSummary,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import type { LogRecord, RecordHeader } from "../../src/contract/log.js";
import { checkSummary } from "../sql/damage.js";
import { BrokenHistoryError } from "../sql/history.js";
import { findTask, idRange, type Page, type PageRow, pageOfSummaries, type TaskFound } from "../sql/pages.js";
import { parseRecord, parseRecordHeader, RECORD_COLUMNS } from "../sql/records.js";
import { COLUMNS, damagedRow, parseSealedSummary, type SqlRow } from "../sql/rows.js";
import { digestId, parseNumber } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import type { PostgresHistories } from "./histories.js";
import type { PostgresStatements } from "./statements.js";
import type { TransientCheckpoints } from "./transient.js";

const WIDTH = COLUMNS.length;
/** The limit for the payloads of a page together. A larger payload is read alone. */
export const PAGE_BYTES = 256 * 1024;

interface ReaderParts {
  readonly connection: PostgresConnection;
  readonly sql: PostgresStatements;
  readonly histories: PostgresHistories;
  readonly transient: TransientCheckpoints;
  /** The location of the tables, for messages. */
  readonly location: string;
}

/** Reads the tables. A row that can't be read becomes a CorruptRecord, and the other rows are still returned. */
export class PostgresReader {
  readonly #parts: ReaderParts;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  async get(
    taskId: string,
    id: string,
    run: Statements = this.#parts.connection,
  ): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const [row] = await run.rows(this.#parts.sql.reads.wholeById, taskId, digestId(id));
    return row && this.#parseCheckpoint(taskId, row);
  }

  async at(run: Statements, taskId: string, sequence: unknown): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const [row] = await run.rows(this.#parts.sql.reads.wholeAt, taskId, sequence);
    return row && this.#parseCheckpoint(taskId, row);
  }

  /** Reads the summary of the checkpoint with this id. The seal isn't checked. */
  async sealed(run: Statements, taskId: string, id: string): Promise<SealedSummary | CorruptRecord | undefined> {
    const [row] = await run.rows(this.#parts.sql.reads.byId, taskId, digestId(id));
    return row && this.#parseSealed(taskId, row);
  }

  /** Reads at most `rows` rows, and returns the summaries among them that match the query. */
  async summaries(query: CheckpointQuery, rows: number): Promise<Page<CheckpointSummary>> {
    const found = await this.#parts.connection.rows(
      this.#parts.sql.reads.summaries[query.order],
      ...toRange(query),
      rows,
      query.skip ?? 0,
    );
    const next = found.length < rows ? undefined : findLastSequence(found);
    return pageOfSummaries(query, found, (row) => this.parseSummary(query.taskId, row), next);
  }

  /**
   * Like {@link summaries}, but returns whole checkpoints: the first one, and more as long as they fit into `bytes`.
   */
  async checkpoints(query: CheckpointQuery, rows: number, bytes: number): Promise<Page<StoredCheckpoint>> {
    const { taskId, order, stage, status, skip = 0 } = query;
    if (rows === 1 && skip === 0 && stage === undefined && status === undefined) return this.#readFirst(query);
    const filtered = [rows, skip, stage ?? null, status ?? CHECKPOINT_STATUSES, bytes];
    const found = await this.#parts.connection.rows(
      this.#parts.sql.reads.checkpoints[order],
      ...toRange(query),
      ...filtered,
    );
    const entries: PageRow<StoredCheckpoint>[] = [];
    let weight = 0;
    for (const row of found) {
      const rowBytes = Number(row[WIDTH + 3]);
      weight += rowBytes;
      if (rowBytes === 0 && !isCorrupt(this.#parseSealed(taskId, row))) continue;
      entries.push({ key: row[0], found: this.#parseCheckpoint(taskId, row) });
    }
    return { entries, next: found.length < rows && weight < bytes ? undefined : findLastSequence(found) };
  }

  async taskIds(query: TaskQuery, limit: number, skip: number): Promise<readonly string[]> {
    // A task that has records only has the status ''.
    const { order, status = [...CHECKPOINT_STATUSES, ""], prefix = "" } = query;
    const { idsByTaskId, idsByRecency, idsByRecencyInRange } = this.#parts.sql.acrossTasks;
    const part = [status, Number.isFinite(limit) ? limit : null, skip];
    const rows =
      order === "taskId"
        ? await this.#parts.connection.rows(idsByTaskId, ...part, ...idRange(query))
        : prefix === ""
          ? await this.#parts.connection.rows(idsByRecency, ...part)
          : await this.#parts.connection.rows(idsByRecencyInRange, ...part, ...idRange(query));
    return rows.map(([taskId]) => String(taskId));
  }

  /** Reads the tasks with these ids that have checkpoints or records, in the order of the ids. */
  async tasks(taskIds: readonly string[]): Promise<readonly TaskFound[]> {
    const found = await this.#parts.connection.rows(this.#parts.sql.acrossTasks.tasks, taskIds);
    const rows = new Map<unknown, SqlRow>(found.map(([taskId, ...row]) => [taskId, row]));
    return taskIds.flatMap((taskId) => {
      const [count, newest, last, dueAt, removedUpTo, lastRecord, ...columns] = rows.get(taskId) ?? [];
      const row = [count, newest, last, dueAt, parseNumber(removedUpTo), parseNumber(lastRecord), ...columns];
      return findTask(taskId, row, {
        locate: (sequence) => describeRow(this.#parts.location, taskId, sequence),
        readSummary: (columns) => this.parseSummary(taskId, columns),
        readRecord: (columns) => this.parseRecordHeader(taskId, columns),
      });
    });
  }

  parseSummary(taskId: string, row: SqlRow): CheckpointSummary | CorruptRecord {
    return checkSummary(this.#parseSealed(taskId, row), () => describeRow(this.#parts.location, taskId, row[0]));
  }

  /** Parses the header of the record in a row of RECORD_COLUMNS. The seal isn't checked. */
  parseRecordHeader(taskId: string, row: SqlRow): RecordHeader | CorruptRecord {
    return parseRecordHeader(taskId, parseRecordValues(row), () =>
      describeRecord(this.#parts.location, taskId, row[0]),
    );
  }

  /**
   * Like {@link parseRecordHeader}, but for a whole record: the columns `is_text` and `body` follow those of the
   * header.
   */
  parseRecord(taskId: string, row: SqlRow): LogRecord | RecordHeader | CorruptRecord {
    const [isText, bytes] = row.slice(RECORD_COLUMNS.length);
    const body = Buffer.isBuffer(bytes) ? toBody(bytes, isText === true) : bytes;
    const locate = () => describeRecord(this.#parts.location, taskId, row[0]);
    return parseRecord(taskId, parseRecordValues(row), body, locate);
  }

  #parseSealed(taskId: string, row: SqlRow): SealedSummary | CorruptRecord {
    return parseSealedSummary(taskId, row.slice(0, WIDTH).map(parseColumn), () =>
      describeRow(this.#parts.location, taskId, row[0]),
    );
  }

  /** Reads the first row of the range. If the row's text is cached, doesn't read the text again. */
  async #readFirst(query: CheckpointQuery): Promise<Page<StoredCheckpoint>> {
    const { taskId, order } = query;
    const known = this.#parts.histories.getCached(taskId);
    const rows = await this.#parts.connection.rows(
      this.#parts.sql.reads.checkpoint[order],
      ...toRange(query),
      known?.sha256 ?? "",
    );
    const entries = rows.map((row) => {
      const found = this.#parseCheckpoint(taskId, row, (summary, pieces) => {
        if (known?.sha256 === summary.payload.sha256) return known.text.toString();
        if (order === "oldest") return this.#parts.histories.joinText(summary, pieces);
        return this.#parts.histories.joinNewestText(summary, pieces);
      });
      if (order === "newest" && query.beforeSequence === undefined && !isCorrupt(found))
        this.#parts.transient.note(found);
      return { key: row[0], found };
    });
    return { entries, next: findLastSequence(rows) };
  }

  #parseCheckpoint(
    taskId: string,
    row: SqlRow,
    readText = (summary: SealedSummary, pieces: unknown) => this.#parts.histories.joinText(summary, pieces),
  ): StoredCheckpoint | CorruptRecord {
    const found = this.#parseSealed(taskId, row);
    if (isCorrupt(found)) return found;
    const [isText, bytes, pieces] = row.slice(WIDTH);
    try {
      const body = Buffer.isBuffer(bytes) ? toBody(bytes, isText === true) : readText(found, pieces);
      return { ...found, payload: { ...found.payload, body } };
    } catch (error) {
      if (!(error instanceof BrokenHistoryError)) throw error;
      return damagedRow(describeRow(this.#parts.location, taskId, row[0]), found, error.message, error);
    }
  }
}

function toRange({ taskId, beforeSequence, afterSequence = 0 }: CheckpointQuery): readonly unknown[] {
  const last = beforeSequence === undefined ? Number.MAX_SAFE_INTEGER : beforeSequence - 1;
  return [taskId, afterSequence + 1, last];
}

/** Returns the sequence of the last row, after which the next page begins. */
function findLastSequence(rows: readonly SqlRow[]): number | undefined {
  const last = rows.at(-1);
  return last && Number(last[0]);
}

/** Returns the body of a payload. Bytes become a plain Uint8Array, whose memory isn't shared. */
function toBody(bytes: Buffer, isText: boolean): string | Uint8Array {
  return isText ? bytes.toString() : new Uint8Array(bytes);
}

export function describeRow(location: string, taskId: string, sequence: unknown): string {
  return `${location}, table checkpoints, task ${JSON.stringify(taskId)}, sequence ${String(sequence)}`;
}

export function describeRecord(location: string, taskId: string, sequence: unknown): string {
  return `${location}, table records, task ${JSON.stringify(taskId)}, sequence ${String(sequence)}`;
}

const NUMBERS_OF_RECORD: readonly number[] = (["sequence", "size_bytes"] as const).map((name) =>
  RECORD_COLUMNS.indexOf(name),
);

/** Parses the values of RECORD_COLUMNS, which come first in a row. */
function parseRecordValues(row: SqlRow): SqlRow {
  const values = row.slice(0, RECORD_COLUMNS.length);
  return values.map((value, column) => (NUMBERS_OF_RECORD.includes(column) ? parseNumber(value) : value));
}

const NUMBERS: readonly number[] = (["sequence", "state_version", "size_bytes"] as const).map((name) =>
  COLUMNS.indexOf(name),
);

function parseColumn(value: unknown, column: number): unknown {
  return NUMBERS.includes(column) ? parseNumber(value) : value;
}
