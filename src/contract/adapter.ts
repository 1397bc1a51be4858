import type {
  CheckpointDraft,
  CheckpointStatus,
  CheckpointSummary,
  Payload,
  StatusChange,
  StoredCheckpoint,
  TaskSummary,
} from "./checkpoint.js";
import { CheckpointConflictError, StorageError } from "./errors.js";
import type { CheckedRecord, RepairStep, StorageFinding, StorageRepair, StorageVerification } from "./findings.js";

export type {
  CheckedRecord,
  DatabaseFinding,
  LeftoverFinding,
  NumberingFinding,
  RecordFinding,
  RefusedFinding,
  RepairStep,
  StorageFinding,
  StorageRepair,
  StorageVerification,
  StrayFinding,
} from "./findings.js";

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

/** What a person should know of the place where a store is. */
export interface StorageWarning {
  /** What it is about. */
  readonly path: string;
  /** A whole sentence: what is wrong, and what to do about it. */
  readonly message: string;
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
   * - Ids are unique within a task: the same id and digest again MUST return the sequence it has, before the condition
   *   is looked at; the same id with another digest is refused. (cases: append.idempotent, append.id-taken)
   *
   * @throws {CheckpointConflictError} The condition doesn't hold, or the id is taken; nothing was stored.
   * @throws {StorageError} The backend failed; what was acknowledged before is intact.
   */
  append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number>;

  /** The checkpoint of that id, a CorruptRecord where it can't be read, `undefined` where there is none. */
  get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined>;

  /**
   * Whole checkpoints, in constant memory: at most a few are held at a time. A CorruptRecord stands where one can't be
   * read, whatever the filters say, and reading goes on. (cases: read.filters, corrupt.reported)
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

  /**
   * What a person should know of the place itself, as that others can write to it. Optional: a manager asks once, at
   * its first call, and logs the answer. MUST create nothing. (case: lifecycle.lazy)
   */
  warnings?(): Promise<readonly StorageWarning[]>;

  /** Waits for the calls under way, then lets go of everything. Idempotent; later calls are a ClosedError. */
  close(): Promise<void>;

  /**
   * Looks at all that is stored, task by task, in constant memory. Without this member the manager reads every record
   * itself; with it, the adapter also finds what only it can see: leftovers of killed writes, a numbering that can't be
   * read, what its backend's own check says.
   *
   * - MUST give a `checked` for each checkpoint, and a `record` finding for each that can't be read or in which
   *   `damageIn` finds something; `quick` may leave out what takes reading its payload. (case: verify.finds)
   * - MUST change nothing, and report nothing where nothing is wrong, other processes' writes under way included.
   *   (case: verify.quiet)
   */
  verify?(options: StorageVerification): AsyncIterable<StorageFinding | CheckedRecord>;

  /**
   * Moves what `verify` reports as a damaged `record` to a place of its own, byte for byte and with the reason, and
   * removes old leftovers. Only where `verify` is offered too.
   *
   * - MUST NOT delete a damaged record, nor touch an intact one; a kill at any point loses nothing, and a second repair
   *   ends what the first began. After it nothing of the storage gives a CorruptRecord. (case: repair.moves)
   * - MUST NOT give a sequence again that a damaged record had. (case: repair.keeps-numbering)
   * - A dry run MUST change nothing and tell the same steps. (case: repair.dry-run)
   */
  repair?(options: StorageRepair): AsyncIterable<RepairStep>;
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
 * @returns The sequence it has, where the digest is the same.
 * @throws {CheckpointConflictError} The id belongs to another state.
 */
export function sequenceOfSame(
  existing: { readonly sequence: number; readonly sha256: string },
  draft: CheckpointDraft,
): number {
  if (existing.sha256 === draft.payload.sha256) return existing.sequence;
  throw new CheckpointConflictError(
    `Checkpoint ${draft.id} of task ${JSON.stringify(draft.taskId)} exists with another state. Nothing was stored; use another id.`,
  );
}

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
