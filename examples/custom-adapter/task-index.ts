import type { CorruptRecord, TaskSummary } from "waymark";
import {
  type CheckpointQuery,
  compareTasks,
  isCorrupt,
  isInRange,
  matchesQuery,
  matchesTaskId,
  type OrderedTask,
  type SealedSummary,
  seal,
  summaryOf,
  type TaskQuery,
} from "waymark/adapter";

/**
 * Everything of a task but its payloads. The index outlives the last checkpoint, because it knows which sequences were
 * used.
 */
export interface TaskIndex {
  readonly taskId: string;
  readonly lastSequence: number;
  /** Oldest first. */
  readonly headers: readonly SealedSummary[];
}

/** The checkpoints in range, in order, each checked. Filters apply only to intact ones. */
export function* select(
  headers: readonly SealedSummary[],
  query: CheckpointQuery,
): Iterable<SealedSummary | CorruptRecord> {
  const inOrder = query.order === "newest" ? headers.toReversed() : headers;
  let left = query.limit ?? Number.POSITIVE_INFINITY;
  for (const header of inOrder.filter(({ sequence }) => isInRange(sequence, query)).slice(query.skip)) {
    if (left === 0) return;
    const corrupt = corruptionOf(header);
    if (corrupt === undefined && !matchesQuery(header, query)) continue;
    if (corrupt === undefined) left -= 1;
    yield corrupt ?? header;
  }
}

/** The tasks that match a query, each with its newest readable checkpoint. Its unreadable newer ones come first. */
export function* selectTasks(
  indexes: readonly (TaskIndex | CorruptRecord)[],
  query: TaskQuery,
): Iterable<TaskSummary | CorruptRecord> {
  const found = indexes.map((index) => findTask(index, query)).sort(compareTasks(query.order));
  let left = query.limit ?? Number.POSITIVE_INFINITY;
  for (const { corrupt, task } of found) {
    if (left === 0) return;
    yield* corrupt;
    if (task === undefined) continue;
    left -= 1;
    yield task;
  }
}

/** A header alone shows whether it is still as it was sealed. */
export function corruptionOf(header: SealedSummary): CorruptRecord | undefined {
  if (seal(header) === header.seal) return undefined;
  const { taskId, id, sequence } = header;
  return {
    corrupt: true,
    location: `the index of task ${taskId}`,
    reason: "The header fails its seal.",
    taskId,
    id,
    sequence,
  };
}

export function newestSequence(headers: readonly SealedSummary[]): number {
  return headers.at(-1)?.sequence ?? 0;
}

export function isIndex(value: unknown): value is TaskIndex {
  return (
    isObject(value) &&
    typeof value["taskId"] === "string" &&
    Number.isSafeInteger(value["lastSequence"]) &&
    Array.isArray(value["headers"]) &&
    value["headers"].every(isHeader)
  );
}

/** The fields for finding a header. The seal covers each of them; the caller checks it. */
function isHeader(value: unknown): value is SealedSummary {
  return (
    isObject(value) &&
    typeof value["taskId"] === "string" &&
    typeof value["id"] === "string" &&
    Number.isSafeInteger(value["sequence"]) &&
    isObject(value["payload"]) &&
    typeof value["seal"] === "string"
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

interface FoundTask extends OrderedTask {
  readonly corrupt: readonly CorruptRecord[];
  readonly task?: TaskSummary;
}

function findTask(index: TaskIndex | CorruptRecord, query: TaskQuery): FoundTask {
  const { taskId = "" } = index;
  const { status } = query;
  if (!matchesTaskId(taskId, query)) return { taskId, corrupt: [] };
  if (isCorrupt(index)) return { taskId, corrupt: [index] };
  const corrupt: CorruptRecord[] = [];
  for (const newest of select(index.headers, { taskId, order: "newest", limit: 1 })) {
    if (isCorrupt(newest)) corrupt.push(newest);
    else if (status === undefined || status.includes(newest.status)) {
      const task = { taskId, count: index.headers.length, newest: summaryOf(newest) };
      return { taskId, newest, corrupt, task };
    }
  }
  return { taskId, corrupt };
}
