import { isDeepStrictEqual } from "node:util";
import {
  type CheckpointDraft,
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  type Payload,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  type TaskSummary,
  titleOf,
} from "./checkpoint.js";
import { CheckpointConflictError, StorageError } from "./errors.js";
import type { StorageMaintenance } from "./findings.js";
import type { LeaseStore } from "./leases.js";

/** Promises of an adapter beyond the core of the contract. The suite tests those that it declares. */
export interface AdapterCapabilities {
  /**
   * An acknowledged checkpoint survives a killed process. For a storage on a server it says that the server has committed it: it
   * survives the server's own end as far as the server is set to (`synchronous_commit` of PostgreSQL).
   */
  readonly durable: boolean;
  /** Several processes may use one store at once. */
  readonly multiProcess: boolean;
}

/** The condition of a write. It is checked in the same atomic step as the write; if it fails, nothing is stored. */
export interface AppendCondition {
  /** The sequence of the task's newest checkpoint now; 0 for none. */
  readonly expectedSequence?: number | undefined;
  /** The token of the task's lease, which the writer must hold now. Only for adapters with `leases`. */
  readonly fencingToken?: number | undefined;
}

/** A task as the caller of a removal saw it. */
export interface ExpectedTask {
  readonly taskId: string;
  /** The sequence of its newest checkpoint. */
  readonly newestSequence: number;
}

/** How an append is made. */
export interface AppendOptions {
  /** The exact sequence to take, above the last one given: for copy, import and repair. (case: append.exact-sequence) */
  readonly sequence?: number | undefined;
  /**
   * The id of a passing checkpoint of the task (see {@link isPassing}) that goes with this append. If there is no such
   * checkpoint, or it is no passing one, or it can't be read, nothing is removed, and the append succeeds all the same.
   * (case: append.replaces-nothing)
   *
   * - Where the storage has transactions, both MUST happen in one. Elsewhere the removal follows the append, and a kill may
   *   leave both. Then the next append that replaces the newer one MUST remove both: the newer one says in its metadata which
   *   one it took the place of (see {@link replacedBy}). (cases: append.replaces, append.replaces-killed,
   *   append.replaces-at-once)
   */
  readonly replaces?: string | undefined;
  /**
   * A hint: a checkpoint, perhaps of another task, whose payload the draft's may share or resemble. An adapter may ignore
   * it, and MUST ignore it where that checkpoint is gone or damaged. A checkpoint reads the same with and without the hint,
   * also after the other one was removed. (cases: append.shares-with, corrupt.shares-with)
   */
  readonly sharesWith?: { readonly taskId: string; readonly id: string } | undefined;
}

/** Which checkpoints of one task. The manager has validated it; every part that is present must hold. */
export interface CheckpointQuery {
  readonly taskId: string;
  /** By sequence. */
  readonly order: "newest" | "oldest";
  /** Only sequences below this one. */
  readonly beforeSequence?: number | undefined;
  /** Only sequences above this one. */
  readonly afterSequence?: number | undefined;
  readonly stage?: string | undefined;
  /** Only checkpoints with one of these statuses. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /** Skips the first `skip` records in range without reading them. Default 0. Never given together with `stage` or `status`. */
  readonly skip?: number | undefined;
  /**
   * At most this many checkpoints; corrupt records don't count. Default: all. A store in which two have one sequence (files,
   * after a merge of two branches) gives both or none, since the next page begins behind both.
   */
  readonly limit?: number | undefined;
}

/** Which tasks. */
export interface TaskQuery {
  /** Only ids that begin with this. */
  readonly prefix?: string | undefined;
  /** Only tasks whose newest checkpoint has one of these statuses. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /** `taskId`: see compareTaskIds. `recent`: the newest checkpoint's `createdAt`, latest first, then by taskId. */
  readonly order: "taskId" | "recent";
  /** Only ids after this one. Only with `order: "taskId"`. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** Stands in for a stored record that can't be read. The record itself is left untouched. */
export interface CorruptRecord {
  readonly corrupt: true;
  /** Where it is: a path, or a table and row. */
  readonly location: string;
  /** The damage, in words. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
  readonly cause?: unknown;
}

/**
 * Where checkpoints are kept: the contract of every storage. The suite in `waymark/conformance` tests each obligation;
 * the cases in parentheses name its tests.
 *
 * The manager has validated all arguments. An adapter MUST copy what it is given and what it returns: changing either
 * later changes nothing in the store (cases: values.independent, values.frozen-draft). Opening is lazy and happens once;
 * nothing is created before the first write (case: lifecycle.lazy).
 */
export interface StorageAdapter {
  /** A short name for messages: `sqlite`. */
  readonly name: string;
  readonly capabilities: AdapterCapabilities;

  /**
   * Stores the draft as the task's newest checkpoint and returns its sequence.
   *
   * - MUST resolve only when the record is as durable as the adapter declares, and MUST be all or nothing.
   *   (cases: append.survives-kill, append.atomic)
   * - MUST give ascending sequences, from 1, that are never given twice while the task exists, even after its newest
   *   checkpoint was removed; gaps are allowed. (cases: append.sequence, append.never-reuses)
   * - MUST be safe to call concurrently; appends of one task through one instance take sequences in call order.
   *   (cases: append.call-order, append.concurrent, append.many-processes)
   * - Ids are unique within a task. Appending the same draft again MUST return the sequence it has, before the condition
   *   is checked (a lost lease neither), so that a caller who lost the answer can retry. Another draft under that id MUST
   *   be refused: `matchRetry` compares the two. (cases: append.idempotent, append.id-taken, leases.repeats)
   * - An id whose checkpoint is damaged MUST be refused as corrupt, whichever draft it is: nobody knows whether it is the
   *   same. `findDamage` tells. (case: corrupt.id-taken)
   *
   * @throws {CheckpointCorruptError} The id belongs to a checkpoint that can't be read; it was left untouched.
   * @throws {LeaseLostError} The condition's lease is lost; nothing was stored.
   * @throws {CheckpointConflictError} The rest of the condition doesn't hold, or the id or the exact
   *   sequence is taken; nothing was stored.
   * @throws {StorageError} The backend failed; checkpoints that were acknowledged before are intact.
   */
  append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number>;

  /**
   * The checkpoint of that id, a CorruptRecord if it can't be read, `undefined` if there is none. The adapter doesn't
   * verify it: the manager checks seal and digest, and other callers check them with `findDamage`.
   *
   * - Header and payload MUST be of one moment, in every read. An adapter that reads them in two steps checks that they
   *   belong together, and reads again: otherwise the manager takes a write that came between them for damage, and gives
   *   an older checkpoint. (cases: read.one-moment, replace.one-moment)
   * - A payload that is missing is damage, not absence: `undefined` only where the checkpoint isn't there, or no longer.
   *   (case: corrupt.reported)
   */
  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined>;

  /**
   * Whole checkpoints, in constant memory: an adapter may read ahead within a budget of bytes. A CorruptRecord stands in
   * for each one that can't be read, whatever the filters say, and reading goes on. Records are not verified: see `get`.
   * (cases: read.filters, corrupt.reported)
   */
  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord>;

  /** Summaries. MUST NOT read payloads. (cases: list.filters, list.pages) */
  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord>;

  /**
   * Tasks that have a checkpoint. MUST NOT read payloads. If a task's newest checkpoint can't be read, its CorruptRecord
   * comes first, then the task with its newest readable one. (cases: tasks.order, tasks.filters)
   */
  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord>;

  /**
   * Changes status and error in one atomic step, and seals the record anew (see `withStatus`).
   *
   * A lost lease is the first answer, then that there is no such checkpoint, then the rest of the condition.
   * (cases: leases.fencing, status.nothing)
   *
   * @returns False if there is no such checkpoint.
   * @throws {LeaseLostError} The condition's lease is lost.
   * @throws {CheckpointConflictError} It is `completed`, or the rest of the condition doesn't hold.
   *   (case: status.completed-stays)
   */
  setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean>;

  /**
   * Removes checkpoints and never harms another one. Ids that don't exist are ignored. `"all"` removes the whole task,
   * its unreadable records included, and ends its numbering. (cases: remove.independent, remove.all)
   *
   * @returns How many checkpoints it removed.
   */
  remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number>;

  /**
   * Optional: removes every task whose id begins with `prefix`, all or nothing, as `remove(taskId, "all")` does for one.
   * Without it the manager removes them one by one. (case: remove.prefix)
   *
   * @param expected - All tasks with that prefix which have a checkpoint, as the caller saw them. MUST be compared in the same
   *   atomic step (see {@link requireUnchangedTasks}). (case: remove.prefix-expected)
   * @returns How many checkpoints it removed.
   * @throws {CheckpointConflictError} Other tasks are there, or one has another newest checkpoint; nothing was removed.
   */
  removePrefix?(prefix: string, expected?: readonly ExpectedTask[]): Promise<number>;

  /**
   * Optional; without it the manager refuses `rekey`. Replaces a checkpoint's payload and seals the record anew (see
   * `withPayload`).
   *
   * - MUST be all or nothing, and as durable as `append` once it has resolved: a kill leaves the old payload or the new
   *   one, whole. (case: replace.survives-kill)
   * - MUST keep everything but payload, size and seal, also of a `completed` checkpoint, and harm no other one.
   *   (cases: replace.changes, replace.keeps-the-rest)
   * - MUST compare the digest in the same atomic step: of two calls that expect the same digest, one wins.
   *   (cases: replace.nothing, replace.concurrent, replace.many-processes)
   *
   * @param expectedSha256 - The digest of the payload to replace.
   * @returns False if there is no such checkpoint, or it has another payload now; nothing was changed.
   * @throws {CheckpointCorruptError} It can't be read; it was left untouched. (case: replace.not-laundered)
   */
  replacePayload?(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean>;

  /** Waits for the calls in progress, then releases everything. Idempotent; later calls throw a ClosedError. */
  close(): Promise<void>;

  /** Optional: finds damage and leftovers, and moves them away. Without it the manager's `verify` reads every record. */
  readonly maintenance?: StorageMaintenance;

  /** Optional: gives the right to run a task to one holder at a time. Without it the manager refuses `lease`. */
  readonly leases?: LeaseStore;
}

/** Whether an adapter returned a CorruptRecord instead of what was asked for. */
export function isCorrupt(record: object): record is CorruptRecord {
  return "corrupt" in record && record.corrupt === true;
}

/** Where a task's numbering stands. */
export interface TaskPosition {
  /** The sequence of its newest checkpoint; 0 for none. */
  readonly newestSequence: number;
  /** The last sequence ever given; 0 for none. */
  readonly lastSequence: number;
}

/**
 * The sequence that an append takes. For adapters; call it in the same atomic step as the write.
 *
 * @throws {CheckpointConflictError} The condition doesn't hold, or the exact sequence isn't free.
 * @throws {StorageError} The last sequence is the highest safe integer, so there is no next one.
 */
export function nextSequence(
  taskId: string,
  position: TaskPosition,
  condition: AppendCondition = {},
  { sequence }: AppendOptions = {},
): number {
  requireNewest(taskId, position.newestSequence, condition);
  if (sequence === undefined && position.lastSequence >= Number.MAX_SAFE_INTEGER) {
    throw new StorageError(
      `Task ${JSON.stringify(taskId)} has no sequence left: its last one is ${position.lastSequence}, the highest there is. ` +
        "Nothing was stored, and what is there is intact. Check the storage with verify(), and save under another task.",
    );
  }
  if (sequence === undefined) return position.lastSequence + 1;
  if (sequence > position.lastSequence) return sequence;
  throw new CheckpointConflictError(
    `Sequence ${sequence} of task ${JSON.stringify(taskId)} is not free: the task has given sequences up to ${position.lastSequence}. ` +
      "Nothing was stored.",
  );
}

/**
 * Refuses a write whose caller expected another newest checkpoint. For adapters; call it in the same atomic step.
 *
 * @throws {CheckpointConflictError} The condition doesn't hold.
 */
export function requireNewest(taskId: string, newestSequence: number, condition: AppendCondition = {}): void {
  const { expectedSequence } = condition;
  if (expectedSequence === undefined || expectedSequence === newestSequence) return;
  throw new CheckpointConflictError(
    `The newest checkpoint of task ${JSON.stringify(taskId)} is ${newestSequence || "none"}, not ${expectedSequence || "none"} as expected. ` +
      "Nothing was changed; read the newest checkpoint and decide again.",
  );
}

/**
 * Refuses a removal of tasks that have changed since its caller saw them. For adapters; call it in the same atomic step.
 *
 * @param found - The tasks with that prefix which have a checkpoint now.
 * @throws {CheckpointConflictError} They aren't the expected ones.
 */
export function requireUnchangedTasks(
  prefix: string,
  found: Iterable<ExpectedTask>,
  expected: readonly ExpectedTask[] | undefined,
): void {
  if (expected === undefined) return;
  const left = new Map(expected.map(({ taskId, newestSequence }) => [taskId, newestSequence]));
  let changed: string | undefined;
  for (const { taskId, newestSequence } of found) {
    if (left.get(taskId) !== newestSequence) changed ??= taskId;
    left.delete(taskId);
  }
  const [gone] = left.keys();
  const different = changed ?? gone;
  if (different === undefined) return;
  throw new CheckpointConflictError(
    `Task ${JSON.stringify(different)}, of those that begin with ${JSON.stringify(prefix)}, has changed since it was looked at. ` +
      "Nothing was removed; look at the tasks again.",
  );
}

/**
 * Answers an append whose id exists. For adapters.
 *
 * A retry has the same payload, stage, label, parent, metadata and state version. Its time may differ, and the stored
 * status may have changed since.
 *
 * @returns The sequence it has, if the draft is a retry.
 * @throws {CheckpointConflictError} The id belongs to another checkpoint.
 */
export function matchRetry(existing: Omit<SealedSummary, "seal">, draft: CheckpointDraft): number {
  const different = SAME_FIELDS.find((field) => !isDeepStrictEqual(existing[field], draft[field]));
  const isSameState = existing.payload.sha256 === draft.payload.sha256;
  if (isSameState && different === undefined) return existing.sequence;
  throw new CheckpointConflictError(
    `${titleOf(draft)} exists with another ${isSameState ? different : "state"}. ` +
      "Nothing was stored; use another id.",
  );
}

const SAME_FIELDS = ["stage", "label", "parentId", "metadata", "stateVersion"] as const;

/** Whether the query asks for this checkpoint. The caller applies `skip` and `limit`. */
export function matchesQuery(summary: CheckpointSummary, query: CheckpointQuery): boolean {
  return (
    isInRange(summary.sequence, query) &&
    (query.stage === undefined || summary.stage === query.stage) &&
    (query.status === undefined || query.status.includes(summary.status))
  );
}

/** Whether a sequence is in the query's range. It needs no record, so adapters can skip records unread. */
export function isInRange(sequence: number, query: CheckpointQuery): boolean {
  return (
    (query.beforeSequence === undefined || sequence < query.beforeSequence) &&
    (query.afterSequence === undefined || sequence > query.afterSequence)
  );
}

/** Whether the query asks for a task of that id. Whether it asks for its status is the caller's to check. */
export function matchesTaskId(taskId: string, { prefix = "", after }: TaskQuery): boolean {
  return taskId.startsWith(prefix) && (after === undefined || compareTaskIds(taskId, after) > 0);
}

/** A task as a query orders it. Where none of its checkpoints can be read, it has no `newest`. */
export interface OrderedTask {
  readonly taskId?: string | undefined;
  readonly newest?: Pick<CheckpointSummary, "createdAt"> | undefined;
}

/** The order that a query asks for. By `recent`, a task without `newest` comes first: a limit must not hide damage. */
export function compareTasks(order: TaskQuery["order"]): (a: OrderedTask, b: OrderedTask) => number {
  const byTaskId = (a: OrderedTask, b: OrderedTask): number => compareTaskIds(a.taskId ?? "", b.taskId ?? "");
  if (order === "taskId") return byTaskId;
  return (a, b) => {
    const [left, right] = [a.newest?.createdAt, b.newest?.createdAt];
    if (left === right) return byTaskId(a, b);
    if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
    // ISO 8601 texts of one form and one zone are in the order of their times.
    return left > right ? -1 : 1;
  };
}
