import { setImmediate as nextTurn } from "node:timers/promises";
import { type CheckpointQuery, type CorruptRecord, isCorrupt, type TaskQuery } from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointSummary,
  compareTaskIds,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { damagedRow, HIGHEST } from "./rows.js";

/** The most rows that are read at a time; other work gets its turn in between. */
export const PAGE_ROWS = 256;

/** A row's key for maintenance, and what the row holds, or why that can't be read. */
export interface PageRow<Found> {
  readonly key: unknown;
  readonly found: Found | CorruptRecord;
}

/** Part of a longer answer. `next`: the sequence that the rest comes after, in the query's order, if there may be one. */
export interface Page<Found> {
  readonly entries: readonly PageRow<Found>[];
  readonly next: number | undefined;
}

/** Reads at most so many rows of what is left of a query. `undefined`: there is no storage. */
type ReadPage<Found> = (rest: CheckpointQuery, rows: number) => Promise<Page<Found> | undefined>;

/** Yields the query's entries page by page, without regard to its limit. After the first, pages have more rows. */
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

/** Yields the checkpoints that a query asks for, and damaged ones. Only intact ones count towards its limit. */
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

/** The lowest task id that a query may give, and the lowest above all of them. */
export function idRange({ prefix = "", after }: TaskQuery): readonly [from: string, below: string] {
  // The first text after an id is that id and the lowest character.
  const from = after === undefined || compareTaskIds(after, prefix) < 0 ? prefix : `${after}\0`;
  return [from, prefix + HIGHEST];
}

/** A task that has checkpoints, as its row says. */
export interface TaskFound {
  readonly taskId: string;
  readonly count: number;
  readonly newestSequence: number;
  /** The checkpoint of that sequence. A newest one that isn't there is damage. */
  readonly newest: CheckpointSummary | CorruptRecord;
}

/** Says that the newest checkpoint isn't there. */
export function missingNewest(location: string, taskId: string, sequence: number): CorruptRecord {
  return damagedRow(location, { taskId, sequence }, "its task has it as the newest, and it isn't there");
}

/**
 * The tasks that a query asks for, by their newest intact checkpoint, with what is damaged after that.
 *
 * @param read - `ids`: at most so many, after the first `skip`, by what the tasks' rows say. `tasks`: those of the ids that
 *   have checkpoints, in the same order.
 */
export async function* tasksInPages(
  query: TaskQuery,
  read: {
    ids(rest: TaskQuery, limit: number, skip: number): Promise<readonly string[]>;
    tasks(ids: readonly string[]): Promise<readonly TaskFound[]>;
    readonly summaries: ReadPage<CheckpointSummary>;
  },
): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
  const { status = CHECKPOINT_STATUSES } = query;
  const isById = query.order === "taskId";
  let rest = query;
  let passed = 0;
  for (let wanted = query.limit ?? Number.POSITIVE_INFINITY; wanted > 0; ) {
    // By recency, all ids at once, or as many as are wanted: a task that is saved meanwhile would change its place.
    const asked = isById ? Math.min(wanted, PAGE_ROWS) : wanted;
    const ids = await read.ids(rest, asked, isById ? 0 : passed);
    for (let at = 0; at < ids.length; at += PAGE_ROWS) {
      if (at > 0) await nextTurn();
      for (const task of await read.tasks(ids.slice(at, at + PAGE_ROWS))) {
        const { taskId, count, newest } = task;
        const intact = isCorrupt(newest) ? yield* intactBefore(newest, task, read.summaries) : newest;
        if (intact === undefined || !status.includes(intact.status)) continue;
        yield { taskId, count, newest: intact };
        wanted -= 1;
      }
    }
    if (ids.length < asked) return;
    passed += ids.length;
    if (isById) rest = { ...query, after: ids.at(-1) };
  }
}

/** A task's newest intact checkpoint, where the newest is damaged: as the last value, after all that are damaged. */
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
