import {
  type CheckpointQuery,
  compareTasks,
  isInRange,
  matchesQuery,
  matchesTaskId,
  type StoredTask,
  type TaskQuery,
} from "./adapter.js";
import {
  brokenSeal,
  type CheckpointSummary,
  findDamage,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type SealedSummary,
  type StoredCheckpoint,
  toSummary,
} from "./checkpoint.js";
import { type CorruptRecord, isCorrupt } from "./corrupt-record.js";
import { CheckpointCorruptError } from "./errors.js";
import type { DamagedFinding } from "./findings.js";
import { findRecordDamage, type LogRecord, type RecordHeader } from "./log.js";
import { parseSummary } from "./parse-summary.js";

/** Where a header is stored. The header must have the task, the id and the sequence given here. */
export interface HeaderLocation {
  /** A key, or a table and row, for messages. */
  readonly location: string;
  readonly taskId: string;
  readonly id?: string;
  readonly sequence?: number;
}

/** A task for {@link selectTasks}. */
export interface IndexedTask {
  readonly taskId: string;
  /** The number of the task's checkpoints. */
  readonly count: number;
  /** See `StoredTask`. */
  readonly lastSequence: number;
  /** The task's headers in any order. Only the newest readable one and the damaged ones newer than it are needed. */
  readonly headers: Iterable<SealedSummary | CorruptRecord>;
  /** The task's log, if the task has records. */
  readonly log?: Pick<StoredTask, "last" | "dueAt" | "removedUpTo"> | undefined;
}

/**
 * Returns the header of a record: everything but the payload's body. For adapters whose lists read no payloads; store
 * it as JSON.
 */
export function toHeader(record: SealedSummary): SealedSummary {
  const { encoding, sha256 } = record.payload;
  return { ...toSummary(record), payload: { encoding, sha256 }, seal: record.seal };
}

/**
 * Reads a header that {@link toHeader} made, and checks each field, the location and the seal.
 *
 * @param stored - The JSON text, or its parsed value.
 * @returns The header; a CorruptRecord if it is damaged, or doesn't belong at `location`.
 */
export function readHeader(stored: JsonValue, location: HeaderLocation): SealedSummary | CorruptRecord {
  let value = stored;
  try {
    if (typeof stored === "string") value = JSON.parse(stored);
  } catch (cause) {
    return { corrupt: true, reason: "its header is cut short or isn't JSON", cause, ...location };
  }
  const fields = isJsonObject(value) ? value : {};
  const damaged = (reason: string): CorruptRecord => ({ corrupt: true, reason, ...pickKnown(fields), ...location });
  const payload = isJsonObject(fields["payload"]) ? fields["payload"] : {};
  const header = parseSummary({ ...fields, encoding: payload["encoding"], sha256: payload["sha256"] });
  if (typeof header === "string") return damaged(header);
  const misplaced = (["taskId", "id", "sequence"] as const).find(
    (key) => (location[key] ?? header[key]) !== header[key],
  );
  if (misplaced !== undefined) return damaged(`its ${misplaced} is ${JSON.stringify(header[misplaced])}`);
  const broken = brokenSeal(header);
  return broken === undefined ? header : damaged(broken);
}

/**
 * Selects and orders the headers of a query, for `list` and `read`. CorruptRecords pass regardless of stage, status and
 * limit. If a CorruptRecord has no sequence, it comes first, so that a limit can't hide it.
 *
 * @param headers - All headers of the task, in any order.
 *
 * @example
 * ```ts
 * import { type CheckpointQuery, isCorrupt, readHeader, selectHeaders, toSummary } from "waymark/adapter";
 *
 * async function* list(query: CheckpointQuery) {
 *   const { taskId } = query;
 *   const stored = await fetchHeaders(taskId);
 *   const headers = stored.map((json, row) => readHeader(json, { location: `row ${row}`, taskId }));
 *   for (const header of selectHeaders(headers, query)) yield isCorrupt(header) ? header : toSummary(header);
 * }
 *
 * declare function fetchHeaders(taskId: string): Promise<string[]>;
 * ```
 */
export function* selectHeaders<Header extends CheckpointSummary>(
  headers: Iterable<Header | CorruptRecord>,
  query: CheckpointQuery,
): Generator<Header | CorruptRecord, void, void> {
  const direction = query.order === "newest" ? -1 : 1;
  const rank = ({ sequence }: { readonly sequence?: number }): number =>
    sequence === undefined ? -Number.MAX_VALUE : direction * sequence;
  const inOrder = [...headers]
    .filter((header) =>
      isCorrupt(header)
        ? header.sequence === undefined || isInRange(header.sequence, query)
        : matchesQuery(header, query),
    )
    .sort((a, b) => rank(a) - rank(b));
  let left = query.limit ?? Number.POSITIVE_INFINITY;
  for (const header of inOrder.slice(query.skip)) {
    if (left === 0) return;
    if (!isCorrupt(header)) left -= 1;
    yield header;
  }
}

/**
 * Selects and orders the tasks of a query, for `tasks`. If a task's newest headers are damaged, their CorruptRecords
 * come before the task with its newest readable header.
 *
 * @param tasks - All tasks, in any order. Tasks without checkpoints and records are left out.
 */
export function* selectTasks(
  tasks: Iterable<IndexedTask>,
  query: TaskQuery,
): Generator<StoredTask | CorruptRecord, void, void> {
  const found = Array.from(tasks)
    .filter(({ taskId }) => matchesTaskId(taskId, query))
    .map(splitHeaders)
    .sort(compareTasks(query.order));
  let left = query.limit ?? Number.POSITIVE_INFINITY;
  for (const { taskId, count, lastSequence, damaged, newest, last, log } of found) {
    if (left === 0) return;
    yield* damaged;
    const isAsked = newest ? query.status?.includes(newest.status) !== false : last && query.status === undefined;
    if (!isAsked) continue;
    left -= 1;
    yield { taskId, count, lastSequence, ...(newest && { newest: toSummary(newest) }), ...log };
  }
}

/**
 * Refuses a damaged record, because it must not be overwritten and can't be compared with a draft. Call this before
 * `matchRetry`, and before changing a header.
 *
 * @param found - A whole checkpoint, or a header. A checkpoint's payload is checked too.
 * @throws {CheckpointCorruptError} The record is damaged; the message names the damage.
 */
export function requireIntact<Record extends SealedSummary | StoredCheckpoint>(found: Record | CorruptRecord): Record {
  const reason = isCorrupt(found) ? `${found.reason} (${found.location})` : findDamage(found);
  if (reason === undefined) return found as Record;
  const { id, taskId } = found;
  throw new CheckpointCorruptError(
    `${id === undefined ? "A record" : `Checkpoint ${id}`} of task ${JSON.stringify(taskId)} is damaged: ${reason}. ` +
      "Nothing was changed, and it was left untouched.",
    isCorrupt(found) ? { cause: found.cause } : {},
  );
}

/**
 * Returns the finding about a checkpoint; `undefined` if it is intact. A summary's seal must have been checked before.
 */
export function makeFinding(
  found: CheckpointSummary | StoredCheckpoint | CorruptRecord,
  locate: () => string,
): DamagedFinding | undefined {
  if (isCorrupt(found)) return describeDamage(found);
  const reason = "payload" in found ? findDamage(found) : undefined;
  if (reason === undefined) return undefined;
  const { taskId, id, sequence, createdAt } = found;
  return { kind: "damaged", location: locate(), reason, taskId, id, sequence, createdAt };
}

/** Returns the finding about a record; `undefined` if it is intact. */
export function makeRecordFinding(
  found: LogRecord | RecordHeader | CorruptRecord,
  locate: () => string,
): DamagedFinding | undefined {
  if (isCorrupt(found)) return describeDamage(found);
  const reason = findRecordDamage(found);
  if (reason === undefined) return undefined;
  const { taskId, id, sequence, createdAt } = found;
  return { kind: "damaged", location: locate(), reason, taskId, ...(id !== undefined && { id }), sequence, createdAt };
}

function describeDamage({ corrupt: _corrupt, cause: _cause, ...known }: CorruptRecord): DamagedFinding {
  return { kind: "damaged", ...known };
}

/** Finds a task's newest readable header, and the damaged headers newer than it. */
function splitHeaders({ headers, ...task }: IndexedTask) {
  const { taskId, log } = task;
  const last = log?.last;
  const damaged: CorruptRecord[] = [];
  for (const header of selectHeaders(headers, { taskId, order: "newest" })) {
    if (!isCorrupt(header)) return { ...task, damaged, newest: header, last };
    damaged.push(header);
  }
  return { ...task, damaged, newest: undefined, last };
}

function pickKnown({ id, sequence }: JsonObject): { readonly id?: string; readonly sequence?: number } {
  return {
    ...(typeof id === "string" ? { id } : undefined),
    ...(typeof sequence === "number" && Number.isSafeInteger(sequence) ? { sequence } : undefined),
  };
}
