import {
  type CheckpointDraft,
  type CheckpointStatus,
  type CheckpointSummary,
  compareTaskIds,
  describeCheckpoint,
  type JsonValue,
  type Payload,
  type SealedSummary,
  type StatusChange,
  type StoredCheckpoint,
  withSortedKeys,
} from "./checkpoint.js";
import type { AppendCondition, ExpectedTask } from "./conditions.js";
import type { CorruptRecord } from "./corrupt-record.js";
import { CheckpointConflictError } from "./errors.js";
import type { StorageMaintenance } from "./findings.js";
import type { LeaseStore } from "./leases.js";
import type { RecordDraft, RecordHeader, TaskLog } from "./log.js";
import type { TaskQueue } from "./task-queue.js";

/** An adapter's promises beyond the core of the contract. The suite tests the declared ones. */
export interface AdapterCapabilities {
  /**
   * An acknowledged checkpoint survives a killed process. On a database server, this means that the checkpoint is
   * committed. Whether it survives a crash of the server depends on the server's settings (PostgreSQL's
   * `synchronous_commit`).
   */
  readonly durable: boolean;
  /** Several processes may use one store at once. */
  readonly multiProcess: boolean;
}

export interface AppendOptions {
  /**
   * The exact sequence to take, for copy, import and repair. It must be higher than every sequence that the task has
   * used. (case: append.exact-sequence)
   */
  readonly sequence?: number | undefined;
  /**
   * The id of a transient checkpoint (see {@link isTransient}) of the same task, which this append removes. If that
   * checkpoint is missing, isn't transient or can't be read, nothing is removed, and the append succeeds all the same.
   * (case: append.replaces-nothing)
   *
   * - If the storage has transactions, append and removal MUST happen in one transaction. Otherwise the removal follows
   *   the append, and a kill may leave both checkpoints. Then the next append that replaces the newer checkpoint MUST
   *   remove both. The newer checkpoint's metadata has the older one's id (see {@link replacedBy}). (cases:
   *   append.replaces, append.replaces-killed, append.replaces-at-once)
   */
  readonly replaces?: string | undefined;
  /**
   * A hint: a checkpoint, perhaps of another task, whose payload equals or resembles the draft's. An adapter may ignore
   * the hint, and MUST ignore it if that checkpoint is gone or damaged. A checkpoint MUST read the same with and
   * without the hint, even after the checkpoint that the hint names was removed. (cases: append.shares-with,
   * corrupt.shares-with)
   */
  readonly sharesWith?: { readonly taskId: string; readonly id: string } | undefined;
  /**
   * Records to store in the same atomic step. They take the sequences directly before the checkpoint's. Only for
   * adapters with `log`. (cases: log.with-checkpoint, log.checkpoint-killed)
   */
  readonly records?: readonly RecordDraft[] | undefined;
}

/** The options of `setStatus`. */
export interface StatusOptions {
  /** Records to store in the same atomic step. Only for adapters with `log`. (case: log.with-status) */
  readonly records?: readonly RecordDraft[] | undefined;
}

/** Selects the checkpoints of one task that meet all given conditions. The manager has validated the query. */
export interface CheckpointQuery {
  readonly taskId: string;
  /** `newest`: the highest sequence comes first. `oldest`: the lowest. */
  readonly order: "newest" | "oldest";
  /** Only sequences below this one. */
  readonly beforeSequence?: number | undefined;
  /** Only sequences above this one. */
  readonly afterSequence?: number | undefined;
  readonly stage?: string | undefined;
  /** Only checkpoints with one of these statuses. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /**
   * Skips the first `skip` records in range without reading them. Default 0. Never given together with `stage` or
   * `status`.
   */
  readonly skip?: number | undefined;
  /**
   * At most this many checkpoints; corrupt records don't count. Default: all. If two checkpoints have the same sequence
   * (files after a merge of two branches), yield both or neither, because the next page begins after that sequence.
   */
  readonly limit?: number | undefined;
}

export interface TaskQuery {
  /** Only ids that begin with this. */
  readonly prefix?: string | undefined;
  /** Only tasks whose newest checkpoint has one of these statuses. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /**
   * `taskId` orders as `compareTaskIds` does. `recent` orders by `createdAt`, latest first, then by task id; the time
   * is that of the newest checkpoint, or of the last record if the task has no checkpoint.
   */
  readonly order: "taskId" | "recent";
  /** Only ids after this one. Only with `order: "taskId"`. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** A task as `tasks` yields it, all fields from one moment. */
export interface StoredTask {
  readonly taskId: string;
  /** The number of the task's checkpoints. */
  readonly count: number;
  /** The task's newest readable checkpoint; `undefined` if the task has records only. */
  readonly newest?: CheckpointSummary;
  /** The task's last record, if it is newer than the newest checkpoint. */
  readonly last?: RecordHeader;
  /**
   * When a worker may continue the task, in ISO 8601 UTC: see {@link findDueTime} and `LogOptions.dueAt`. `undefined`:
   * no worker may.
   */
  readonly dueAt?: string;
  /**
   * The highest sequence that the task has used, even if that checkpoint or record was removed since. If it is lower
   * than before, the task was removed and begun again. (cases: append.never-reuses, log.remove)
   */
  readonly lastSequence: number;
  /** The highest sequence that `log.remove` has removed. Marks don't count. */
  readonly removedUpTo?: number;
}

/**
 * Stores checkpoints: the contract of every storage. The suite in `waymark/conformance` tests each obligation; the
 * cases in parentheses name the tests.
 *
 * The manager has validated all arguments. An adapter MUST copy its arguments and its results, so that later changes to
 * them don't reach the store (cases: values.independent, values.frozen-draft). Opening is lazy and happens once;
 * nothing is created before the first write (case: lifecycle.lazy).
 */
export interface StorageAdapter {
  /** A short name for messages: `sqlite`. */
  readonly name: string;
  readonly capabilities: AdapterCapabilities;

  /**
   * Stores the draft as the task's newest checkpoint and returns its sequence.
   *
   * - MUST resolve only once the record is as durable as the adapter declares, and MUST be all or nothing.
   *   (cases: append.survives-kill, append.atomic)
   * - MUST assign ascending sequences from 1. While the task exists, no sequence is assigned twice, even after the
   *   newest checkpoint was removed. Gaps are allowed. (cases: append.sequence, append.never-reuses)
   * - MUST be safe to call concurrently; appends to one task through one instance take sequences in call order.
   *   (cases: append.call-order, append.concurrent, append.many-processes)
   * - Ids are unique within a task. Appending the same draft again MUST return its sequence without checking the
   *   condition or the lease, so that a caller who lost the answer can retry. A different draft under a stored id MUST
   *   be refused. `matchRetry` compares the two. (cases: append.idempotent, append.id-taken, leases.repeats)
   * - If the stored checkpoint with the draft's id is damaged, every draft MUST be refused as corrupt, because it can't
   *   be compared. `findDamage` finds the damage. (case: corrupt.id-taken)
   *
   * @throws {CheckpointCorruptError} The id belongs to a checkpoint that can't be read; it was left untouched.
   * @throws {LeaseLostError} The condition's lease is lost; nothing was stored.
   * @throws {CheckpointConflictError} The condition's `expectedSequence` doesn't hold, or the id or the exact sequence
   *   is taken; nothing was stored.
   * @throws {StorageError} The backend failed; checkpoints that were acknowledged before are intact.
   */
  append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number>;

  /**
   * Returns the checkpoint with this id; a CorruptRecord if it can't be read; `undefined` if it doesn't exist. The
   * adapter needn't verify the checkpoint, since the manager checks seal and digest, and other callers use
   * `findDamage`.
   *
   * - Every read MUST return header and payload of the same moment. An adapter that reads them in two steps checks that
   *   they belong together, and reads again if they don't. Otherwise the manager would mistake a write in between for
   *   damage, and return an older checkpoint. (cases: read.one-moment, replace.one-moment)
   * - A missing payload is damage, so return a CorruptRecord then. Return `undefined` only if the checkpoint doesn't
   *   exist or was removed. (case: corrupt.reported)
   */
  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined>;

  /**
   * Yields whole checkpoints, in constant memory. An adapter may read ahead up to a fixed number of bytes. MUST yield a
   * CorruptRecord for each record that can't be read, regardless of the filters, and continue. As in `get`, records
   * needn't be verified. (cases: read.filters, corrupt.reported)
   */
  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord>;

  /** Yields summaries. MUST NOT read payloads. (cases: list.filters, list.pages) */
  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord>;

  /**
   * Yields the tasks that have a checkpoint or a record. MUST NOT read payloads. If a task's newest checkpoint can't be
   * read, its CorruptRecord comes first, then the task with its newest readable checkpoint. Tasks with records only
   * have no `newest`, and no status. (cases: tasks.order, tasks.filters, log.records-only)
   */
  tasks(query: TaskQuery): AsyncIterable<StoredTask | CorruptRecord>;

  /**
   * Changes status and error and renews the seal (see `withStatus`), in one atomic step.
   *
   * MUST check in this order: the lease, whether the checkpoint exists, `expectedSequence`. (cases: leases.fencing,
   * status.nothing)
   *
   * @returns False if there is no such checkpoint.
   * @throws {LeaseLostError} The condition's lease is lost.
   * @throws {CheckpointConflictError} The checkpoint is `completed`, or `expectedSequence` doesn't hold.
   *   (case: status.completed-stays)
   */
  setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    options?: StatusOptions,
  ): Promise<boolean>;

  /**
   * Removes checkpoints. MUST NOT harm other checkpoints. Unknown ids are ignored. `"all"` removes the whole task with
   * its unreadable records and its log, and ends its numbering; a list of ids doesn't change the log. (cases:
   * remove.independent, remove.all, log.removed-with-task)
   *
   * @returns The number of removed checkpoints.
   */
  remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number>;

  /**
   * Optional: removes every task whose id begins with `prefix`, all or nothing, as `remove(taskId, "all")` removes one
   * task. Without `removePrefix`, the manager removes the tasks one by one. (case: remove.prefix)
   *
   * @param expected - All tasks with this prefix that have a checkpoint, as the caller saw them. MUST be compared in
   *   the same atomic step. (case: remove.prefix-expected)
   * @returns The number of removed checkpoints.
   * @throws {CheckpointConflictError} The tasks or their newest checkpoints differ from `expected`; nothing was
   *   removed.
   */
  removePrefix?(prefix: string, expected?: readonly ExpectedTask[]): Promise<number>;

  /**
   * Optional: replaces a checkpoint's payload and renews the seal (see `withPayload`). Without `replacePayload`, the
   * manager refuses `rekey`.
   *
   * - MUST be all or nothing, so that a kill leaves the old payload or the new one, whole. Once it resolves, the new
   *   payload MUST be as durable as after `append`. (case: replace.survives-kill)
   * - MUST change the checkpoint's payload, size and seal only, and no other checkpoint. `completed` checkpoints are
   *   replaced too. (cases: replace.changes, replace.keeps-the-rest)
   * - MUST compare the digest in the same atomic step, so that only one of two calls that expect the same digest
   *   succeeds. (cases: replace.nothing, replace.concurrent, replace.many-processes)
   *
   * @param expectedSha256 - The digest of the payload to replace.
   * @returns False if there is no such checkpoint or its payload has another digest; nothing was changed.
   * @throws {CheckpointCorruptError} The checkpoint can't be read; it was left untouched. (case: replace.not-laundered)
   */
  replacePayload?(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean>;

  /** Waits for the calls in progress, then releases everything. Idempotent; later calls throw a ClosedError. */
  close(): Promise<void>;

  /**
   * Optional: finds damage and leftovers, and repairs them. Without `maintenance`, the manager's `verify` reads every
   * record.
   */
  readonly maintenance?: StorageMaintenance;

  /** Optional: lets one holder at a time run a task. Without `leases`, the manager refuses `lease`. */
  readonly leases?: LeaseStore;

  /** Optional, with `leases`: finds the tasks that are due for a worker. */
  readonly queue?: TaskQueue;

  /** Optional: stores a task's records besides its checkpoints. */
  readonly log?: TaskLog;
}

/** Whether the item is a task with a readable checkpoint, neither a CorruptRecord nor a task that has records only. */
export function hasCheckpoint(
  task: StoredTask | CorruptRecord,
): task is StoredTask & Required<Pick<StoredTask, "newest">> {
  return "newest" in task && task.newest !== undefined;
}

/**
 * Handles an append whose id is already stored: finds out whether it is a retry. For adapters.
 *
 * A retry has the same payload, stage, label, parent, metadata and state version. Time and status may differ.
 *
 * @returns If the draft is a retry, the sequence of the stored checkpoint.
 * @throws {CheckpointConflictError} The id belongs to another checkpoint.
 */
export function matchRetry(existing: Omit<SealedSummary, "seal">, draft: CheckpointDraft): number {
  // Fields are compared as text, because isDeepStrictEqual also compares prototypes, which differ between realms.
  const renderField = (value: JsonValue | undefined) => value !== undefined && JSON.stringify(withSortedKeys(value));
  const different = SAME_FIELDS.find((field) => renderField(existing[field]) !== renderField(draft[field]));
  const isSameState = existing.payload.sha256 === draft.payload.sha256;
  if (isSameState && different === undefined) return existing.sequence;
  throw new CheckpointConflictError(
    `${describeCheckpoint(draft)} exists already, with another ${isSameState ? different : "state"}. ` +
      "Nothing was stored; use another id.",
  );
}

const SAME_FIELDS = ["stage", "label", "parentId", "metadata", "stateVersion"] as const;

/** Whether the checkpoint matches the query. The caller applies `skip` and `limit`. */
export function matchesQuery(summary: CheckpointSummary, query: CheckpointQuery): boolean {
  return (
    isInRange(summary.sequence, query) &&
    (query.stage === undefined || summary.stage === query.stage) &&
    (query.status === undefined || query.status.includes(summary.status))
  );
}

/** Whether a sequence is in the query's range. Adapters use it to skip records without reading them. */
export function isInRange(sequence: number, query: Pick<CheckpointQuery, "beforeSequence" | "afterSequence">): boolean {
  return (
    (query.beforeSequence === undefined || sequence < query.beforeSequence) &&
    (query.afterSequence === undefined || sequence > query.afterSequence)
  );
}

/** Whether the id matches the query's `prefix` and `after`. The caller checks the status. */
export function matchesTaskId(taskId: string, { prefix = "", after }: TaskQuery): boolean {
  return taskId.startsWith(prefix) && (after === undefined || compareTaskIds(taskId, after) > 0);
}

/** The fields by which tasks are ordered. An unreadable task may have none of them. */
export interface OrderedTask {
  readonly taskId?: string | undefined;
  readonly newest?: Pick<CheckpointSummary, "createdAt"> | undefined;
  /** The task's last record. It counts only if the task has no checkpoint. */
  readonly last?: Pick<CheckpointSummary, "createdAt"> | undefined;
}

/**
 * Returns a function that compares tasks in the query's order. In `recent`, an unreadable task comes first, so that a
 * limit can't hide damage.
 */
export function compareTasks(order: TaskQuery["order"]): (a: OrderedTask, b: OrderedTask) => number {
  const byTaskId = (a: OrderedTask, b: OrderedTask): number => compareTaskIds(a.taskId ?? "", b.taskId ?? "");
  if (order === "taskId") return byTaskId;
  return (a, b) => {
    const [left, right] = [a, b].map(({ newest, last }) => (newest ?? last)?.createdAt);
    if (left === right) return byTaskId(a, b);
    if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
    // ISO 8601 texts of the same form and zone sort by time.
    return left > right ? -1 : 1;
  };
}
