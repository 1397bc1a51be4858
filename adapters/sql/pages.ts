import { setImmediate as nextTurn } from "node:timers/promises";
import { type CheckpointQuery, matchesQuery, type StoredTask, type TaskQuery } from "../../src/contract/adapter.js";
import { CHECKPOINT_STATUSES, type CheckpointSummary, compareTaskIds } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import type { RecordHeader } from "../../src/contract/log.js";
import { RECORD_COLUMNS } from "./records.js";
import { damagedRow, HIGHEST, numberOr0, type SqlRow } from "./rows.js";

/** How many rows are read at a time. Other work can run between two reads. */
export const PAGE_ROWS = 256;

/** A row's key for maintenance, and its content: a CorruptRecord if the row can't be read. */
export interface PageRow<Found> {
  readonly key: unknown;
  readonly found: Found | CorruptRecord;
}

/**
 * A part of a longer result. If more may follow, `next` is the sequence after which the next page begins, in the
 * query's order.
 */
export interface Page<Found> {
  readonly entries: readonly PageRow<Found>[];
  readonly next: number | undefined;
}

/** Reads at most `rows` rows of what is left of a query. Resolves to `undefined` if there is no storage. */
type ReadPage<Found> = (rest: CheckpointQuery, rows: number) => Promise<Page<Found> | undefined>;

/** Yields the query's entries page by page, and ignores its limit. Pages after the first have more rows. */
export async function* entriesInPages<Found>(
  query: CheckpointQuery,
  firstRows: number,
  read: ReadPage<Found>,
): AsyncGenerator<PageRow<Found>, void, void> {
  const bound = query.order === "newest" ? "beforeSequence" : "afterSequence";
  let rest = query;
  for (let rows = firstRows; ; rows = Math.min(rows * 4, PAGE_ROWS)) {
    const page = await read(rest, rows);
    yield* page?.entries ?? [];
    if (page?.next === undefined) return;
    rest = { ...query, skip: 0, [bound]: page.next };
    await nextTurn();
  }
}

/** Yields the checkpoints that match a query, and damaged ones, which don't count towards its limit. */
export async function* inPages<Found extends CheckpointSummary>(
  query: CheckpointQuery,
  firstRows: number,
  read: ReadPage<Found>,
): AsyncGenerator<Found | CorruptRecord, void, void> {
  let wanted = query.limit ?? Number.POSITIVE_INFINITY;
  const readWanted: ReadPage<Found> = (rest, rows) => read(rest, Math.min(wanted, rows));
  for await (const { found } of entriesInPages(query, firstRows, readWanted)) {
    yield found;
    if (!isCorrupt(found)) wanted -= 1;
    if (wanted === 0) return;
  }
}

/** Returns the range of task ids that may match a query. The range includes `from`, but not `below`. */
export function idRange({ prefix = "", after }: TaskQuery): readonly [from: string, below: string] {
  // The first text after an id is the id followed by the lowest character.
  const from = after === undefined || compareTaskIds(after, prefix) < 0 ? prefix : `${after}\0`;
  return [from, prefix + HIGHEST];
}

/** A task that has checkpoints or records according to its row. */
export interface TaskFound extends Omit<StoredTask, "newest"> {
  /** The newest checkpoint's sequence; 0 if the task has no checkpoints. */
  readonly newestSequence: number;
  /** The checkpoint with the sequence `newestSequence`, or damage. */
  readonly newest?: CheckpointSummary | CorruptRecord | undefined;
}

/** Reads the parts of a task's row. */
interface TaskRowReader {
  locate(newestSequence: number): string;
  readSummary(columns: SqlRow): CheckpointSummary | CorruptRecord;
  /** Reads the header of a record. */
  readRecord(columns: SqlRow): RecordHeader | CorruptRecord;
}

/**
 * Returns the task of a row, or nothing if the task no longer has checkpoints or records.
 *
 * @param row - The count, the newest and the last sequence, `due_at`, `removed_up_to`, the last record's columns, and
 *   the newest checkpoint's columns.
 */
export function findTask(
  taskId: string,
  [count, sequence, lastSequence, dueAt, removedUpTo, ...columns]: SqlRow,
  reader: TaskRowReader,
): readonly TaskFound[] {
  const newestSequence = Number(sequence ?? 0);
  const record = columns.slice(0, RECORD_COLUMNS.length);
  const last = typeof record[0] === "number" ? reader.readRecord(record) : undefined;
  if (newestSequence === 0 && last === undefined) return [];
  const checkpoint = columns.slice(RECORD_COLUMNS.length);
  const missing = "its task's row names it as the newest, but it is missing";
  const newest =
    checkpoint[0] === null
      ? damagedRow(reader.locate(newestSequence), { taskId, sequence: newestSequence }, missing)
      : reader.readSummary(checkpoint);
  return [
    {
      taskId,
      count: Number(count),
      // In SQLite, an append of records doesn't update the row.
      lastSequence: Math.max(Number(lastSequence), newestSequence, numberOr0(record[0])),
      newestSequence,
      newest: newestSequence > 0 ? newest : last && isCorrupt(last) ? last : undefined,
      ...(last && !isCorrupt(last) && last.sequence > newestSequence && { last }),
      ...(typeof dueAt === "string" && { dueAt }),
      ...(typeof removedUpTo === "number" && { removedUpTo }),
    },
  ];
}

/** Returns a page of the summaries in these rows that match the query, and of damaged ones. */
export function pageOfSummaries(
  query: CheckpointQuery,
  rows: readonly SqlRow[],
  readSummary: (row: SqlRow) => CheckpointSummary | CorruptRecord,
  next: number | undefined,
): Page<CheckpointSummary> {
  const entries = rows.map((row) => ({ key: row[0], found: readSummary(row) }));
  return { entries: entries.filter(({ found }) => isCorrupt(found) || matchesQuery(found, query)), next };
}

/**
 * Yields the tasks whose newest intact checkpoint matches the query. If newer checkpoints are damaged, these come
 * before their task.
 *
 * @param read - `ids` returns at most `limit` ids after the first `skip`, according to the tasks' rows. `tasks` returns
 *   the tasks with these ids that still have checkpoints or records, in the order of the ids.
 */
export async function* tasksInPages(
  query: TaskQuery,
  read: {
    ids(rest: TaskQuery, limit: number, skip: number): Promise<readonly string[]>;
    tasks(ids: readonly string[]): Promise<readonly TaskFound[]>;
    readonly summaries: ReadPage<CheckpointSummary>;
  },
): AsyncGenerator<StoredTask | CorruptRecord, void, void> {
  const { status = CHECKPOINT_STATUSES } = query;
  const isById = query.order === "taskId";
  let rest = query;
  let passed = 0;
  let wanted = query.limit ?? Number.POSITIVE_INFINITY;
  do {
    // In the order `recent`, all wanted ids are read at once, because a save between two pages would move its task in
    // the order.
    const asked = isById ? Math.min(wanted, PAGE_ROWS) : wanted;
    const ids = await read.ids(rest, asked, isById ? 0 : passed);
    for (let at = 0; at < ids.length; at += PAGE_ROWS) {
      if (at > 0) await nextTurn();
      for (const task of await read.tasks(ids.slice(at, at + PAGE_ROWS))) {
        const { newest, newestSequence: _sequence, ...rest } = task;
        const intact = newest && isCorrupt(newest) ? yield* intactBefore(newest, task, read.summaries) : newest;
        const isSelected = intact ? status.includes(intact.status) : rest.last && query.status === undefined;
        if (!isSelected) continue;
        yield { ...rest, ...(intact && { newest: intact }) };
        wanted -= 1;
      }
    }
    if (ids.length < asked) return;
    passed += ids.length;
    if (isById) rest = { ...query, after: ids.at(-1) };
  } while (wanted > 0);
}

/** Yields a task's damaged newest checkpoints, then returns its newest intact one. */
async function* intactBefore(
  newest: CorruptRecord,
  { taskId, newestSequence }: TaskFound,
  read: ReadPage<CheckpointSummary>,
): AsyncGenerator<CorruptRecord, CheckpointSummary | undefined, void> {
  yield newest;
  for await (const found of inPages({ taskId, order: "newest", beforeSequence: newestSequence }, 16, read)) {
    if (!isCorrupt(found)) return found;
    yield found;
  }
  return undefined;
}
