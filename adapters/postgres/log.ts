import { type AppendCondition, requireNewest, requireNoEvent } from "../../src/contract/conditions.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import {
  type LogItem,
  type LogRecord,
  matchEventRetry,
  type PayloadChange,
  RECORD_KINDS,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type RecordSelection,
  sealRecord,
} from "../../src/contract/log.js";
import {
  type LogPage,
  type LogTable,
  RECORD_COLUMNS,
  requireIntactRecord,
  selectsCheckpoints,
} from "../sql/records.js";
import type { SqlRow } from "../sql/rows.js";
import { digestId, toBytes } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import type { PostgresLeases } from "./leases.js";
import type { PostgresReader } from "./reader.js";
import type { PostgresStatements } from "./statements.js";

/**
 * The rows of a page. Records are small and many, and each page waits for the server, so a page of records has more
 * rows than a page of checkpoints.
 */
export const LOG_PAGE_ROWS = 1024;
const LOG_PAGE_BYTES = 1024 * 1024;
const WIDTH = RECORD_COLUMNS.length;
/** The index of a checkpoint's column in a row of the log, after the record and its body. */
const CHECKPOINT = WIDTH + 2;

interface LogParts {
  readonly connection: PostgresConnection;
  readonly sql: PostgresStatements;
  readonly reader: PostgresReader;
  readonly leases: PostgresLeases;
}

/** Works with the table of records. {@link PostgresAppender} appends to it. */
export class PostgresLog implements LogTable {
  readonly #parts: LogParts;

  constructor(parts: LogParts) {
    this.#parts = parts;
  }

  async read(query: RecordQuery, rows: number): Promise<LogPage> {
    const { taskId, order, kinds, headersOnly = false } = query;
    const statement = this.#parts.sql.records.read[order][headersOnly ? "headers" : "whole"];
    const part = [rows, headersOnly ? Number.MAX_SAFE_INTEGER : LOG_PAGE_BYTES];
    const selected = kinds ?? (selectsCheckpoints(query) ? [...RECORD_KINDS, "checkpoint"] : RECORD_KINDS);
    const values = toParameters(query, selected);
    const found = await this.#parts.connection.rows(statement, ...values, ...part);
    const items = found.map((row) => this.#parseItem(taskId, row, headersOnly));
    // Large bodies end a page early, so a short page may not be the last one.
    const bytes = headersOnly ? 0 : found.reduce((sum, row) => sum + Number(row[WIDTH - 1] ?? 0), 0);
    const [last] = found.at(-1) ?? [];
    return { items, next: found.length < rows && bytes < LOG_PAGE_BYTES ? undefined : Number(last) };
  }

  async sync(taskId: string): Promise<void> {
    await this.#parts.connection.change(this.#parts.sql.records.sync, taskId);
  }

  async remove(taskId: string, selection: RecordSelection, condition: AppendCondition = {}): Promise<number> {
    const { changes, records } = this.#parts.sql;
    return this.#parts.connection.atomically(async (run) => {
      await this.#parts.leases.check(run, taskId, condition);
      const [[, newest, event] = [0, 0, 0]] = await run.rows(changes.lock, taskId);
      requireNewest(taskId, Number(newest), condition);
      requireNoEvent(taskId, Number(event), condition);
      const values = toParameters({ taskId, ...selection }, selection.kinds ?? RECORD_KINDS);
      const [[removed, upTo] = [0, null]] = await run.rows(records.remove, ...values);
      if (upTo !== null) await run.change(records.noteRemoval, taskId, upTo);
      if (Number(removed) > 0 && Number(newest) === 0) await run.rows(changes.shortenTask, taskId, 0);
      return Number(removed);
    });
  }

  async replacePayloads(taskId: string, changes: readonly PayloadChange[]): Promise<readonly number[]> {
    return this.#parts.connection.atomically(async (run) => {
      await run.rows(this.#parts.sql.changes.lock, taskId);
      const replaced: number[] = [];
      for (const change of changes) {
        if (await this.#replacePayload(run, taskId, change)) replaced.push(change.sequence);
      }
      return replaced;
    });
  }

  async #replacePayload(
    run: Statements,
    taskId: string,
    { sequence, payload, expectedSha256 }: PayloadChange,
  ): Promise<boolean> {
    const found = await this.at(run, taskId, sequence);
    if (found === undefined) return false;
    const record = requireIntactRecord(taskId, sequence, found);
    if (record.payload.sha256 !== expectedSha256 || !("body" in record.payload)) return false;
    const { encoding, sha256, body } = payload;
    const seal = sealRecord({ ...record, payload });
    const bytes = toBytes(payload);
    const values = [encoding, sha256, seal, bytes.length, typeof body === "string", bytes];
    await run.change(this.#parts.sql.records.replacePayload, taskId, sequence, ...values);
    return true;
  }

  /** Returns the record with this sequence. */
  async at(
    run: Statements,
    taskId: string,
    sequence: number,
  ): Promise<LogRecord | RecordHeader | CorruptRecord | undefined> {
    const [row] = await run.rows(this.#parts.sql.records.at, taskId, sequence);
    return row && this.#parts.reader.parseRecord(taskId, row);
  }

  /** If the records are events that are already stored, returns their last sequence: see `matchEventRetry`. */
  async matchEvents(
    run: Statements,
    taskId: string,
    drafts: readonly RecordDraft[],
    isWithCheckpoint = false,
  ): Promise<number | undefined> {
    const digests = drafts.flatMap(({ id }) => (id === undefined ? [] : [digestId(id)]));
    if (digests.length === 0) return undefined;
    const rows = await run.rows(this.#parts.sql.records.events, taskId, digests);
    const events = rows.map(([id, sequence, name, sha256]) => {
      const event = { sequence: Number(sequence), payload: { sha256: String(sha256) } };
      return [id, typeof name === "string" ? { ...event, name } : event] as const;
    });
    const byId = new Map<unknown, (typeof events)[number][1]>(events);
    return matchEventRetry(taskId, drafts, (id) => byId.get(id), isWithCheckpoint);
  }

  #parseItem(taskId: string, row: SqlRow, headersOnly: boolean): LogItem {
    const { reader } = this.#parts;
    const checkpoint = row[CHECKPOINT];
    if (typeof checkpoint === "string") return reader.parseSummary(taskId, JSON.parse(checkpoint));
    return headersOnly ? reader.parseRecordHeader(taskId, row) : reader.parseRecord(taskId, row);
  }
}

function toParameters(
  { taskId, afterSequence = 0, beforeSequence, name }: Omit<RecordQuery, "order" | "kinds">,
  kinds: RecordQuery["kinds"],
): readonly unknown[] {
  const last = beforeSequence === undefined ? Number.MAX_SAFE_INTEGER : beforeSequence - 1;
  return [taskId, afterSequence + 1, last, kinds, name ?? null];
}
