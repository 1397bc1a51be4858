import { types } from "node:util";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import {
  assignNames,
  findRecordDamage,
  joinBody,
  type LogItem,
  type LogOptions,
  type LogRecord,
  type PayloadChange,
  RECORD_KINDS,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type RecordSelection,
} from "../../src/contract/log.js";
import { PagedItems } from "../../src/contract/paged-items.js";
import { damagedRow, type SqlRow } from "./rows.js";

/** The arguments of an append to a task's log. */
export interface LogAppend {
  readonly taskId: string;
  readonly records: readonly RecordDraft[];
  readonly condition: AppendCondition;
  readonly options: LogOptions;
}

/** Counts the bytes of a log append's payloads. */
export function sizeOfRecords(records: readonly RecordDraft[]): number {
  return records.reduce((bytes, { payload }) => bytes + payload.body.length, 0);
}

/** A record's columns except `task_id` and the final `body`, in the order of {@link parseRecord}. */
export const RECORD_COLUMNS = [
  ...["sequence", "kind", "name", "record_key", "id", "created_at", "encoding", "sha256", "seal", "size_bytes"],
] as const;

/**
 * Reads a record's header from its columns. Checks their types, but not the seal.
 *
 * @param row - The values of {@link RECORD_COLUMNS}, the digests as text.
 */
export function parseRecordHeader(taskId: string, row: SqlRow, locate: () => string): RecordHeader | CorruptRecord {
  const [sequence, kindColumn, name, recordKey, id, createdAt, encoding, sha256, seal, sizeBytes] = row;
  const damaged = (reason: string) => damagedRow(locate(), { taskId, id, sequence }, reason);
  const kind = RECORD_KINDS.find((known) => known === kindColumn);
  if (kind === undefined) return damaged("its kind is unknown");
  if (typeof sequence !== "number" || typeof sizeBytes !== "number") return damaged("a column isn't a number");
  if (!isText(createdAt) || !isText(encoding) || !isText(sha256) || !isText(seal))
    return damaged("a column isn't text");
  if (!isTextOrNull(name) || !isTextOrNull(recordKey) || !isTextOrNull(id)) return damaged("a column isn't text");
  const header: RecordHeader = { taskId, sequence, kind, createdAt, payload: { encoding, sha256 }, seal, sizeBytes };
  assignNames(header, { name, recordKey, id });
  return header;
}

/** Like {@link parseRecordHeader}, but with the body, which is `null` for an event whose body was removed. */
export function parseRecord(
  taskId: string,
  row: SqlRow,
  body: unknown,
  locate: () => string,
): LogRecord | RecordHeader | CorruptRecord {
  const header = parseRecordHeader(taskId, row, locate);
  if (isCorrupt(header) || (header.kind === "event" && body === null)) return header;
  // The driver returns a Buffer, and callers get a plain Uint8Array.
  const plain = types.isUint8Array(body) ? new Uint8Array(body.buffer, body.byteOffset, body.length) : body;
  if (!isText(plain) && !types.isUint8Array(plain)) return damagedRow(locate(), header, "its payload is missing");
  return joinBody(header, plain);
}

/** @throws {CheckpointCorruptError} The record is damaged. */
export function requireIntactRecord<Found extends LogRecord | RecordHeader>(
  taskId: string,
  sequence: number,
  found: Found | CorruptRecord,
): Found {
  const damage = isCorrupt(found) ? found.reason : findRecordDamage(found);
  if (!isCorrupt(found) && damage === undefined) return found;
  throw new CheckpointCorruptError(
    `Record ${sequence} of task ${JSON.stringify(taskId)} is damaged: ${damage}. Nothing was changed.`,
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || isText(value);
}

/**
 * A part of a log. If more may follow, `next` is the sequence after which the next page begins, in the order of the
 * query.
 */
export interface LogPage {
  readonly items: readonly LogItem[];
  readonly next: number | undefined;
}

/** The object that works with a database's table of records. */
export interface LogTable {
  read(query: RecordQuery, rows: number): LogPage | Promise<LogPage>;
  /** Makes earlier commits survive a power cut. */
  sync(taskId: string): void | Promise<void>;
  remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): number | Promise<number>;
  replacePayloads(taskId: string, changes: readonly PayloadChange[]): readonly number[] | Promise<readonly number[]>;
}

/**
 * Returns a statement's parameters for a list of kinds: `null` for each of {@link RECORD_KINDS} that isn't selected.
 */
export function kindColumns(kinds: RecordSelection["kinds"] | RecordQuery["kinds"]): readonly (string | null)[] {
  return RECORD_KINDS.map((kind) => (kinds?.includes(kind) === false ? null : kind));
}

/** Whether the query selects checkpoints. */
export function selectsCheckpoints({ kinds, name }: RecordQuery): boolean {
  return kinds?.includes("checkpoint") !== false && name === undefined;
}

/**
 * Yields the items of a query, which are read page by page. Corrupt items don't count towards its limit.
 *
 * @param pageRows - How many rows are read at a time.
 */
export function logInPages(query: RecordQuery, pageRows: number, read: ReadLogPage): PagedItems<LogItem> {
  return new PagedItems(readLogPages(query, pageRows, read));
}

/** Reads at most `rows` rows of what is left of a query. Resolves to `undefined` if there is no storage. */
type ReadLogPage = (rest: RecordQuery, rows: number) => Promise<LogPage | undefined>;

async function* readLogPages(
  query: RecordQuery,
  pageRows: number,
  read: ReadLogPage,
): AsyncGenerator<readonly LogItem[], void, void> {
  const bound = query.order === "newest" ? "beforeSequence" : "afterSequence";
  let wanted = query.limit ?? Number.POSITIVE_INFINITY;
  for (let rest = query; wanted > 0; ) {
    const { items, next } = (await read(rest, Math.min(wanted, pageRows))) ?? { items: [], next: undefined };
    yield items;
    wanted -= items.filter((item) => !isCorrupt(item)).length;
    if (next === undefined) return;
    rest = { ...rest, [bound]: next };
  }
}
