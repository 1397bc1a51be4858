import { hash } from "node:crypto";
import { checkText } from "./arguments.js";
import { type CheckpointSummary, copyPayload, type Payload, type SealedSummary } from "./checkpoint.js";
import type { AppendCondition } from "./conditions.js";
import type { CorruptRecord } from "./corrupt-record.js";
import { CheckpointConflictError } from "./errors.js";

/**
 * The kind of a record that isn't a checkpoint.
 *
 * - `step`: the result of a step.
 * - `event`: a value that was sent to the task.
 * - `chunk`: a part of a step's output.
 * - `run`: an input, a result, an error or a change of status.
 * - `mark`: the start of an attempt or a step. It may be removed once the attempt or step has ended.
 */
export type RecordKind = "step" | "event" | "chunk" | "run" | "mark";

/** The kind of an item in a task's log. */
export type ItemKind = RecordKind | "checkpoint";

/** Every kind of record but `checkpoint`. */
export const RECORD_KINDS: readonly RecordKind[] = ["step", "event", "chunk", "run", "mark"];

/** A record without its task and sequence, as the manager passes it to an adapter. */
export interface RecordDraft {
  readonly kind: RecordKind;
  /** The name of a step, event or wait. For LangGraph's writes: the id of their checkpoint. */
  readonly name?: string;
  /** Identifies what the record belongs to: a generation, turn, name, occurrence and attempt. Not unique. */
  readonly recordKey?: string;
  /** An event's id, unique among the task's events. Other records have none. */
  readonly id?: string;
  /** ISO 8601 in UTC with milliseconds, by the manager's clock. */
  readonly createdAt: string;
  readonly payload: Payload;
}

/** A record as an adapter keeps it. */
export interface LogRecord extends RecordDraft {
  readonly taskId: string;
  readonly sequence: number;
  /** See {@link sealRecord}. */
  readonly seal: string;
}

/** A record without its payload's body. */
export interface RecordHeader extends Omit<LogRecord, "payload"> {
  readonly payload: Pick<Payload, "encoding" | "sha256">;
  /** The size of the stored body in bytes; 0 if an event's body was removed. */
  readonly sizeBytes: number;
}

/** An item of a task's log: a record, or the summary of a checkpoint. */
export type LogItem = LogRecord | RecordHeader | CheckpointSummary | CorruptRecord;

/** Selects the records and checkpoints of one task that meet all given conditions. */
export interface RecordQuery {
  readonly taskId: string;
  /** `newest`: the highest sequence comes first. `oldest`: the lowest. */
  readonly order: "newest" | "oldest";
  /** Only sequences above this one. */
  readonly afterSequence?: number | undefined;
  /** Only sequences below this one. */
  readonly beforeSequence?: number | undefined;
  /** Default: all. */
  readonly kinds?: readonly ItemKind[] | undefined;
  /** Only records with this name. Checkpoints have no name. */
  readonly name?: string | undefined;
  /** At most this many items; corrupt ones don't count. Default: all. */
  readonly limit?: number | undefined;
  /** Yields headers instead of whole records, and MUST NOT read payloads. */
  readonly headersOnly?: boolean | undefined;
  /** Yields only items that survive a power cut, as acknowledged writes do. Syncs the store first if necessary. */
  readonly durableOnly?: boolean | undefined;
}

/** Selects records to remove: readable ones that meet all given conditions. */
export type RecordSelection = Pick<RecordQuery, "afterSequence" | "beforeSequence" | "name"> & {
  readonly kinds?: readonly RecordKind[] | undefined;
};

/** The options of {@link TaskLog.append}. */
export interface LogOptions {
  /**
   * The records needn't be synced. They survive a killed process once the call has resolved, and a power cut once the
   * task's next durable write has resolved.
   */
  readonly lazy?: boolean | undefined;
  /** The sequence of the first record, for copy and import. It must be above every sequence that the task has used. */
  readonly firstSequence?: number | undefined;
  /**
   * Makes the task due at this time, in ISO 8601 UTC, if its newest checkpoint would make it due later. Holds until
   * another checkpoint is the newest, or the newest one's status changes. (case: log.due)
   */
  readonly dueAt?: string | undefined;
}

/**
 * Stores the records of a task's log. They share one numbering with the task's checkpoints. An optional part of a
 * `StorageAdapter`; runs, events and streams need it.
 *
 * - Sequences MUST be taken under the task's lock, which is held until the commit. Then no record can appear below one
 *   that a reader has seen. (cases: log.numbering, log.one-moment, log.many-processes)
 * - Records never change, except by `replacePayloads`. (case: log.independent)
 */
export interface TaskLog {
  /**
   * Appends records with consecutive sequences, and returns the last sequence. The task needn't have a checkpoint.
   *
   * - MUST store all or none, and resolve once they are as durable as a checkpoint, unless `lazy` is set. (cases:
   *   log.batch, log.survives-kill, log.killed-midway, log.lazy)
   * - MUST check the condition in the same atomic step. `expectedSequence` is the sequence of the newest checkpoint.
   *   (cases: log.conditions, log.fencing)
   * - Calls of `StorageAdapter.append` and of this method for one task through one instance take sequences in call
   *   order. (case: log.call-order)
   * - The cost of one small record MUST NOT depend on the length of the log.
   * - An event whose id is stored MUST NOT be stored again: see {@link matchEventRetry}. The retry is acknowledged once
   *   the stored event is durable. (case: log.event-ids)
   * - If a connection broke, and it isn't known whether records without ids were stored, the adapter MUST NOT append
   *   them again itself. It throws a retryable StorageError, and the caller checks whether they are stored.
   *
   * @param records - At least one.
   * @throws {LeaseLostError} The condition's lease is lost; nothing was stored.
   * @throws {CheckpointConflictError} The condition doesn't hold, an event's id belongs to another value or is in
   *   `records` twice, or `firstSequence` is taken; nothing was stored.
   */
  append(
    taskId: string,
    records: readonly RecordDraft[],
    condition?: AppendCondition,
    options?: LogOptions,
  ): Promise<number>;

  /**
   * Yields records and the summaries of checkpoints in the order of their sequences, in constant memory.
   *
   * - MUST read all kinds as of one moment, or at least never skip a record that was stored before one that it yields.
   *   (Merging two separate reads can skip one.) (cases: log.read, log.one-moment)
   * - MUST yield a CorruptRecord for each item that can't be read, regardless of `kinds`, `name` and `limit`, and
   *   continue. (case: log.damage)
   * - An event whose body was removed is yielded as a header.
   */
  read(query: RecordQuery): AsyncIterable<LogItem>;

  /**
   * Removes the selected records; checkpoints stay. It never lowers the numbering. Events stay with their ids and
   * digests, so that a repeated send is recognised; only their bodies are removed. (cases: log.remove,
   * log.remove-events)
   *
   * @returns The number of records that were removed, or whose body was removed.
   */
  remove(taskId: string, selection: RecordSelection, condition?: AppendCondition): Promise<number>;

  /**
   * Optional: replaces payloads of records and renews their seals, all in one atomic step, for `rekey`. The obligations
   * of `StorageAdapter.replacePayload` apply. A record that is gone, or whose payload has another digest, is skipped.
   * (case: log.replace)
   *
   * @returns The sequences of the records whose payloads were replaced.
   * @throws {CheckpointCorruptError} One of the records can't be read; nothing was changed.
   */
  replacePayloads?(
    taskId: string,
    changes: readonly { readonly sequence: number; readonly payload: Payload; readonly expectedSha256: string }[],
  ): Promise<readonly number[]>;

  /**
   * Optional: calls `changed` at most 20 ms after a task's log may have changed, by this process or another one. The
   * call is only a hint: it may come without a change, and a change by another process may be missed. Callers also
   * poll, but less often once they were called for anything but their own changes. So an adapter that can't watch, or
   * can't watch yet, doesn't call `changed`. If the adapter isn't `multiProcess`, idle workers, waits and `result`
   * don't poll, so it MUST report each change, including a new checkpoint and a released lease. (cases: log.watch,
   * log.watch-anywhere)
   *
   * @param changed - `isOwn`: true if this instance made the changes. MUST be called once without `isOwn` as soon as
   *   changes by other processes can be seen, since earlier ones may have been missed: inside the call of `watch` if
   *   they can be seen at once, otherwise later.
   * @param taskId - Only changes of this task. Default: changes that may have made any task due.
   * @returns A function that ends the watch. The watch doesn't keep the process alive.
   */
  watch?(changed: (isOwn?: boolean) => void, taskId?: string): () => void;
}

const SEAL_FORM = "waymark-record-1";

/** A new payload for a record whose payload has the expected digest. */
export type PayloadChange = Parameters<NonNullable<TaskLog["replacePayloads"]>>[1][number];

/**
 * Returns the SHA-256 over a record: its identity, order and payload's digest, but not its size. Adapters compute it on
 * append and on replacePayloads; the manager checks it on each read. It is a checksum, not a signature.
 *
 * @returns Lower-case hexadecimal.
 */
export function sealRecord(record: Omit<RecordHeader, "seal" | "sizeBytes">): string {
  return sealAs(record.taskId, record.sequence, record);
}

/** Like {@link sealRecord}, for the record that the draft becomes in this task with this sequence. */
export function sealAs(taskId: string, sequence: number, draft: SealedFields): string {
  return hash("sha256", sealedText(taskId, sequence, draft), "hex");
}

/**
 * Returns the text that a record's seal covers, before and after its sequence. For a storage that assigns the sequence
 * and computes the seal in one step.
 */
export function splitSealedRecord(taskId: string, draft: RecordDraft): readonly [before: string, after: string] {
  const text = sealedText(taskId, 0, draft);
  // The length of the text before the sequence, with the comma after the task's id.
  const at = JSON.stringify([SEAL_FORM, taskId]).length;
  return [text.slice(0, at), text.slice(at + "0".length)];
}

function sealedText(
  taskId: string,
  sequence: number,
  { kind, name, recordKey, id, createdAt, payload: { encoding, sha256 } }: SealedFields,
): string {
  return JSON.stringify([SEAL_FORM, taskId, sequence, kind, name, recordKey, id, createdAt, encoding, sha256]);
}

type SealedFields = Omit<RecordHeader, "taskId" | "sequence" | "seal" | "sizeBytes">;

/** Names a record in a message. */
export function describeRecord({
  kind,
  name,
  taskId,
}: Pick<LogRecord, "kind" | "taskId"> & { readonly name?: string | undefined }): string {
  return `The ${kind} record ${name === undefined ? "" : `${JSON.stringify(name)} `}of task ${JSON.stringify(taskId)}`;
}

/**
 * Returns a copy that shares nothing mutable with the original. Adapters need one, because a caller may change its
 * draft at once.
 *
 * @throws {TypeError | RangeError} The draft is invalid: its kind is unknown, or a field has the wrong type.
 */
export function copyRecordDraft(draft: RecordDraft): RecordDraft {
  const { kind, name, recordKey, id, createdAt } = draft;
  if (!RECORD_KINDS.includes(kind)) {
    throw new TypeError(
      `A record's kind must be one of ${RECORD_KINDS.join(", ")}; it is ${JSON.stringify(kind)}. Nothing was stored.`,
    );
  }
  checkText("A record's createdAt", createdAt);
  for (const text of [name, recordKey, id]) if (text !== undefined) checkText("A record's name, key or id", text);
  const copy: RecordDraft = { kind, createdAt, payload: copyPayload(draft.payload) };
  assignNames(copy, draft);
  return copy;
}

/** Returns a copy that shares nothing mutable with the original. For adapters. */
export function copyPayloadChange(change: PayloadChange): PayloadChange {
  return { ...change, payload: copyPayload(change.payload) };
}

/** Returns the record to store: a copy of the draft, with its task, sequence and seal. */
export function sealRecordDraft(taskId: string, draft: RecordDraft, sequence: number): LogRecord {
  const { kind, createdAt } = draft;
  const payload = copyPayload(draft.payload);
  const seal = sealAs(taskId, sequence, draft);
  const record: LogRecord = { taskId, sequence, kind, createdAt, payload, seal };
  assignNames(record, draft);
  return record;
}

/** Returns the record without its payload's body. */
export function toRecordHeader(record: LogRecord | RecordHeader): RecordHeader {
  if ("sizeBytes" in record) return record;
  const { body, ...payload } = record.payload;
  return { ...record, payload, sizeBytes: typeof body === "string" ? Buffer.byteLength(body) : body.byteLength };
}

/**
 * Checks a record's seal and its payload's digest.
 *
 * @returns The damage, as the end of a sentence; `undefined` if the record is intact.
 */
export function findRecordDamage(record: LogRecord | RecordHeader): string | undefined {
  if (sealRecord(record) !== record.seal) return "its seal doesn't match its content";
  const { payload } = record;
  if (!("body" in payload) || hash("sha256", payload.body, "hex") === payload.sha256) return undefined;
  return "its payload fails its SHA-256 checksum";
}

/** Returns the whole record: the header with its payload's body. */
export function joinBody(header: RecordHeader, body: Payload["body"]): LogRecord {
  const { taskId, sequence, kind, createdAt, payload, seal } = header;
  const { encoding, sha256 } = payload;
  const record: LogRecord = { taskId, sequence, kind, createdAt, payload: { encoding, sha256, body }, seal };
  assignNames(record, header);
  return record;
}

/** The optional texts of a record. A missing text is `null` or `undefined`. */
export type RecordNames = { readonly [Field in "name" | "recordKey" | "id"]?: string | null | undefined };

/** Copies the texts that aren't missing. Conditional spreads would take longer than the rest of reading a record. */
export function assignNames(
  record: { name?: string; recordKey?: string; id?: string },
  { name, recordKey, id }: RecordNames,
): void {
  if (typeof name === "string") record.name = name;
  if (typeof recordKey === "string") record.recordKey = recordKey;
  if (typeof id === "string") record.id = id;
}

/** Whether a record or checkpoint matches the query's range, kinds and name. The caller applies `limit`. */
export function matchesRecords(
  { sequence, kind, name }: { readonly sequence: number; readonly kind?: RecordKind; readonly name?: string },
  query: Omit<RecordQuery, "taskId" | "order">,
): boolean {
  const { afterSequence = 0, beforeSequence = Number.POSITIVE_INFINITY, kinds, name: wanted } = query;
  return (
    sequence > afterSequence &&
    sequence < beforeSequence &&
    kinds?.includes(kind ?? "checkpoint") !== false &&
    (wanted === undefined || name === wanted)
  );
}

/** Whether an item of a log is a record, and not a checkpoint's summary. */
export function isRecord(
  item: LogRecord | RecordHeader | CheckpointSummary | SealedSummary,
): item is LogRecord | RecordHeader {
  return "kind" in item;
}

/** A stored event, as {@link matchEventRetry} compares it. */
export type StoredEvent = Pick<RecordHeader, "sequence" | "name"> & {
  readonly payload: Pick<Payload, "sha256">;
};

/**
 * Finds out whether an append of events is a retry. For adapters; call it before the condition is checked, even if none
 * of the ids is stored, because it refuses an append that has an id twice.
 *
 * The append is a retry if all its records are events that are stored with the same names and digests, one after
 * another. So a caller who lost the answer can append them again.
 *
 * @param findEvent - Returns the task's event with this id.
 * @param isWithCheckpoint - True for the `records` of a checkpoint or a status change. There, a stored event is a
 *   conflict, since a retry is recognised by the checkpoint's id. Default false.
 * @returns The last record's sequence if the append is a retry; `undefined` if no id is stored.
 * @throws {CheckpointConflictError} An id belongs to another event or is in the append twice, or only a part of the
 *   append is stored.
 */
export function matchEventRetry(
  taskId: string,
  records: readonly RecordDraft[],
  findEvent: (id: string) => StoredEvent | undefined,
  isWithCheckpoint = false,
): number | undefined {
  requireDifferentIds(taskId, records);
  const stored = records.map(({ id }) => (id === undefined ? undefined : findEvent(id)));
  const first = stored.findIndex((event) => event !== undefined);
  if (first === -1) return undefined;
  const start = stored[0]?.sequence ?? 0;
  const different = records.findIndex(({ name, payload }, index) => {
    const event = stored[index];
    const isSame = event?.name === name && event?.payload.sha256 === payload.sha256;
    return !isSame || event?.sequence !== start + index;
  });
  if (different === -1 && !isWithCheckpoint) return start + records.length - 1;
  throw new CheckpointConflictError(
    `Event ${JSON.stringify(records[stored[different] ? different : first]?.id)} of task ${JSON.stringify(taskId)} exists already, ` +
      "with another value or in another batch of records. Nothing was stored; use another id.",
  );
}

function requireDifferentIds(taskId: string, records: readonly RecordDraft[]): void {
  const ids = new Set<string>();
  for (const { id } of records) {
    if (id === undefined) continue;
    if (ids.has(id)) {
      throw new CheckpointConflictError(
        `Event ${JSON.stringify(id)} occurs twice in one append to task ${JSON.stringify(taskId)}. Nothing was stored; ` +
          "append it once, or use another id.",
      );
    }
    ids.add(id);
  }
}
