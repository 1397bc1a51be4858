import { isDeepStrictEqual } from "node:util";
import type {
  CheckpointDraft,
  CheckpointStatus,
  CheckpointSummary,
  Payload,
  SealedSummary,
  StatusChange,
  StoredCheckpoint,
  TaskSummary,
} from "./checkpoint.js";
import { CheckpointConflictError, StorageError } from "./errors.js";
import type { StorageMaintenance } from "./findings.js";

/** What an adapter promises beyond the core of the contract. Declared here, and tested as declared by the suite. */
export interface AdapterCapabilities {
  /** What was acknowledged survives a killed process. */
  readonly durable: boolean;
  /** Several processes may use one store at once. */
  readonly multiProcess: boolean;
}

/** What must hold for a write to happen. Checked in the same atomic step as the write; a failed one stores nothing. */
export interface AppendCondition {
  /** The sequence of the task's newest checkpoint now; 0 for none. */
  readonly expectedSequence?: number | undefined;
  /** The exact sequence to take, above the last one given: for copy, import and repair. Append only. */
  readonly sequence?: number | undefined;
}

/** Which checkpoints of one task. The manager has validated it; all parts that are present must hold. */
export interface CheckpointQuery {
  readonly taskId: string;
  /** By sequence. */
  readonly order: "newest" | "oldest";
  /** Only sequences below this one. */
  readonly beforeSequence?: number | undefined;
  /** Only sequences above this one. */
  readonly afterSequence?: number | undefined;
  readonly stage?: string | undefined;
  /** Any of these. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /** Passes over the first `skip` records in range, unread. Default 0. Never together with `stage` or `status`. */
  readonly skip?: number | undefined;
  /** At most so many checkpoints; corrupt records come on top of it. Default: all. */
  readonly limit?: number | undefined;
}

/** Which tasks. */
export interface TaskQuery {
  /** Only ids that begin with this. */
  readonly prefix?: string | undefined;
  /** Only tasks whose newest checkpoint has any of these. */
  readonly status?: readonly CheckpointStatus[] | undefined;
  /** `taskId`: see compareTaskIds. `recent`: the newest checkpoint's `createdAt`, latest first, then by taskId. */
  readonly order: "taskId" | "recent";
  /** Only ids after this one. Only with `order: "taskId"`. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** Stands where something is stored that can't be read. It has been left untouched. */
export interface CorruptRecord {
  readonly corrupt: true;
  /** Where it is: a path, or a table and row. */
  readonly location: string;
  /** What is wrong with it. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
  readonly cause?: unknown;
}

/**
 * Where checkpoints are kept: the contract of every storage. The suite in `waymark/conformance` tests each obligation;
 * the cases that do are named.
 *
 * Arguments are valid: the manager has checked them. What an adapter is given and what it gives MUST stay independent
 * of each other: changing either later changes nothing in the store (cases: values.independent, values.frozen-draft).
 * Opening is lazy and happens once; nothing is created before the first write (case: lifecycle.lazy).
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
   * - Ids are unique within a task. The same draft again MUST return the sequence it has, before the condition is
   *   checked, so that a lost answer can be asked for again; another one under that id is refused: `sequenceOfSame`
   *   compares. (cases: append.idempotent, append.id-taken)
   *
   * @throws {CheckpointConflictError} The condition doesn't hold, or the id is taken; nothing was stored.
   * @throws {StorageError} The backend failed; what was acknowledged before is intact.
   */
  append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number>;

  /**
   * The checkpoint of that id, a CorruptRecord if it can't be read, `undefined` if there is none. What it gives is not
   * verified yet: the manager checks seal and digest, and `damageIn` does it for everybody else.
   */
  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined>;

  /**
   * Whole checkpoints, in constant memory: an adapter may read ahead within a budget of bytes. A CorruptRecord stands
   * where one can't be read, whatever the filters say, and reading goes on. Records are not verified yet: see `get`.
   * (cases: read.filters, corrupt.reported)
   */
  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord>;

  /** Summaries. MUST NOT read payloads. (cases: list.filters, list.pages) */
  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord>;

  /**
   * Tasks that have a checkpoint. MUST NOT read payloads. Where a task's newest can't be read, its CorruptRecord comes
   * first, then the task with its newest readable one. (cases: tasks.order, tasks.filters)
   */
  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord>;

  /**
   * Changes the status, and the error with it, atomically; seals the record anew (see `withStatus`).
   *
   * @returns False where there is no such checkpoint.
   * @throws {CheckpointConflictError} It is `completed`, or the condition doesn't hold. (case: status.completed-stays)
   */
  setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean>;

  /**
   * Removes checkpoints; removing any never harms another. Ids that don't exist are passed over. `"all"` removes the
   * task, with what can't be read of it, and ends its numbering. (cases: remove.independent, remove.all)
   *
   * @returns How many checkpoints it removed.
   */
  remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number>;

  /**
   * Optional: removes every task whose id begins with `prefix`, all or nothing, as `remove(taskId, "all")` does for one.
   * Without it the manager removes them one by one. (case: remove.prefix)
   *
   * @returns How many checkpoints it removed.
   */
  removeTasks?(prefix: string): Promise<number>;

  /**
   * Optional; without it, `rekey` is refused. Puts another payload in the place of a checkpoint's, and seals the record
   * anew (see `withPayload`).
   *
   * - MUST be all or nothing, and as durable as `append` once it has resolved: a kill leaves the former payload or the
   *   new one, whole. (case: replace.survives-kill)
   * - MUST keep everything but payload, size and seal, `completed` or not, and harm no other checkpoint.
   *   (cases: replace.changes, replace.keeps-the-rest)
   * - MUST compare the digest in the same atomic step, so that of two which expect the same one, one wins.
   *   (cases: replace.nothing, replace.concurrent, replace.many-processes)
   *
   * @param expectedSha256 - The digest of the payload that is to go.
   * @returns False where there is no such checkpoint, or it has another payload by now; nothing was changed then.
   * @throws {CheckpointCorruptError} It can't be read; it was left untouched. (case: replace.not-laundered)
   */
  replacePayload?(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean>;

  /** Waits for the calls under way, then lets go of everything. Idempotent; later calls are a ClosedError. */
  close(): Promise<void>;

  /** Optional: finds damage and leftovers, and moves them away. Without it the manager's `verify` reads every record. */
  readonly maintenance?: StorageMaintenance;
}

/** Tells a CorruptRecord from what was asked for. */
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
 * @throws {CheckpointConflictError} The condition doesn't hold.
 * @throws {StorageError} The last one that was given is as high as numbers count: damage, or somebody, says so.
 */
export function nextSequence(taskId: string, position: TaskPosition, condition: AppendCondition = {}): number {
  checkExpected(taskId, position.newestSequence, condition);
  const { sequence } = condition;
  if (sequence === undefined && position.lastSequence >= Number.MAX_SAFE_INTEGER) {
    throw new StorageError(
      `Task ${JSON.stringify(taskId)} has no sequence left: its last one is ${position.lastSequence}, which no program came to ` +
        "by counting. Nothing was stored, and what is there is intact. Look at it by verify, and save under another task.",
    );
  }
  if (sequence === undefined) return position.lastSequence + 1;
  if (sequence > position.lastSequence) return sequence;
  throw new CheckpointConflictError(
    `Sequence ${sequence} of task ${JSON.stringify(taskId)} can't be taken: ${position.lastSequence} was given already. Nothing was stored.`,
  );
}

/**
 * Refuses a write whose caller saw another newest checkpoint. For adapters; call it in the same atomic step.
 *
 * @throws {CheckpointConflictError} The condition doesn't hold.
 */
export function checkExpected(taskId: string, newestSequence: number, condition: AppendCondition = {}): void {
  const { expectedSequence } = condition;
  if (expectedSequence === undefined || expectedSequence === newestSequence) return;
  throw new CheckpointConflictError(
    `The newest checkpoint of task ${JSON.stringify(taskId)} is ${newestSequence || "none"}, not ${expectedSequence || "none"} as expected. ` +
      "Nothing was changed; read the newest one and decide again.",
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
export function sequenceOfSame(existing: Omit<SealedSummary, "seal">, draft: CheckpointDraft): number {
  const different = SAME_FIELDS.find((field) => !isDeepStrictEqual(existing[field], draft[field]));
  const isSameState = existing.payload.sha256 === draft.payload.sha256;
  if (isSameState && different === undefined) return existing.sequence;
  throw new CheckpointConflictError(
    `Checkpoint ${draft.id} of task ${JSON.stringify(draft.taskId)} exists with another ${isSameState ? different : "state"}. ` +
      "Nothing was stored; use another id.",
  );
}

const SAME_FIELDS = ["stage", "label", "parentId", "metadata", "stateVersion"] as const;

/** Whether a summary is one that the query asks for. `skip` and `limit` are the caller's. */
export function matchesQuery(summary: CheckpointSummary, query: CheckpointQuery): boolean {
  return (
    inRange(summary.sequence, query) &&
    (query.stage === undefined || summary.stage === query.stage) &&
    (query.status === undefined || query.status.includes(summary.status))
  );
}

/** Whether a sequence is one that the query asks for, which can be told without reading the record. */
export function inRange(sequence: number, query: CheckpointQuery): boolean {
  return (
    (query.beforeSequence === undefined || sequence < query.beforeSequence) &&
    (query.afterSequence === undefined || sequence > query.afterSequence)
  );
}

/**
 * Refuses what is no object of options, or has one that doesn't exist: a misspelled option must not be an option that is
 * silently not there.
 *
 * @param what - What has the options, for the message: `SqliteAdapterOptions`.
 * @throws {TypeError} It names the option.
 */
export function checkKeys(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`${what} must be an object.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new TypeError(`${what} has no "${unknown}". There are: ${known.join(", ")}.`);
}
