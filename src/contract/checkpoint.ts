import { hash } from "node:crypto";
import { listKeys } from "./arguments.js";
import { CheckpointConflictError, CheckpointCorruptError, isError, isStackOverflow } from "./errors.js";

/** A value that JSON stores unchanged. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A plain JSON object, such as `metadata`. */
export type JsonObject = { readonly [key: string]: JsonValue };

/** Whether a value from JSON.parse is an object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `T`, if JSON can store all its fields. Texts and optional fields are allowed, a `Date` or a function isn't. */
export type PlainFields<T> = {
  [Key in keyof T]: T[Key] extends JsonValue | undefined
    ? T[Key]
    : [Extract<T[Key], ((...args: never[]) => unknown) | bigint | symbol>] extends [never]
      ? PlainFields<T[Key]>
      : never;
};

/** The task's status at a checkpoint. A completed checkpoint stays completed; a new save reopens the task. */
export type CheckpointStatus = "running" | "paused" | "completed" | "failed";

/** Every status, in the order of a task's life. */
export const CHECKPOINT_STATUSES: readonly CheckpointStatus[] = ["running", "paused", "completed", "failed"];

export function checkStatus(status: CheckpointStatus): void {
  if (CHECKPOINT_STATUSES.includes(status)) return;
  throw new TypeError(`A status must be one of ${CHECKPOINT_STATUSES.join(", ")}, not ${JSON.stringify(status)}.`);
}

/** The reason for a checkpoint's status: an error as plain data. */
export interface CheckpointFailure {
  readonly message: string;
  /** The error's class name. */
  readonly name?: string;
  /** The error's `code`, if it had one. */
  readonly code?: string;
  readonly stack?: string;
}

/** A checkpoint without its state, as lists, plans and pages show it. */
export interface CheckpointSummary {
  readonly taskId: string;
  /** Unique within its task. */
  readonly id: string;
  /**
   * 1, 2, 3 … per task, assigned by the storage; gaps are allowed. A task's checkpoints are ordered by sequence, not by
   * time.
   */
  readonly sequence: number;
  /** ISO 8601 in UTC with milliseconds, by the manager's clock. */
  readonly createdAt: string;
  /** A machine-readable point in the work: `validation-gate-2`. */
  readonly stage?: string;
  /** The stage for people: `After validation gate 2`. */
  readonly label?: string;
  /**
   * The id of the checkpoint that this one continues, in the same task, as passed by the caller. That checkpoint may
   * have been removed since. Default: the previous checkpoint.
   */
  readonly parentId?: string;
  readonly metadata?: JsonObject;
  readonly status: CheckpointStatus;
  /** The reason for the status; usually only set for `failed`. */
  readonly error?: CheckpointFailure;
  /**
   * When a worker may continue the task, in ISO 8601 UTC with milliseconds. Absent: no worker may. It counts only while
   * this is the task's newest checkpoint: see `findDueTime`.
   */
  readonly dueAt?: string;
  /** The version of the state's shape, from 1; see `migrations`. */
  readonly stateVersion: number;
  /** The payload's size as stored, in bytes. */
  readonly sizeBytes: number;
}

/** Names a checkpoint in a message. */
export function describeCheckpoint({ id, taskId }: Pick<CheckpointSummary, "id" | "taskId">): string {
  return `Checkpoint ${id} of task ${JSON.stringify(taskId)}`;
}

/** Every field of a summary, in the order of files and seals. All forms of a record are built from this list. */
export const SUMMARY_FIELDS = listKeys<CheckpointSummary>({
  taskId: true,
  id: true,
  sequence: true,
  createdAt: true,
  stage: true,
  label: true,
  parentId: true,
  metadata: true,
  status: true,
  error: true,
  dueAt: true,
  stateVersion: true,
  sizeBytes: true,
});

/** Every field of a checkpoint's error, in the order of files and seals. */
export const FAILURE_FIELDS = listKeys<CheckpointFailure>({ message: true, name: true, code: true, stack: true });

/** A checkpoint with its state, as the manager returns it. */
export interface Checkpoint<State = unknown> extends CheckpointSummary {
  /** `undefined` if a run has not saved a state yet, even if the schema doesn't allow `undefined`. */
  readonly state: State;
}

/** A state in its stored form. The manager encodes it once. */
export interface Payload {
  /**
   * The body's encoding: `json` or `json-tagged`, then the names of its transforms: `json+gzip`. Opaque to
   * adapters.
   */
  readonly encoding: string;
  /**
   * If the body is a text, it is JSON exactly as `JSON.stringify` writes it:
   * `JSON.stringify(JSON.parse(body)) === body`. So an adapter may embed it as JSON, readable with `jq`. If the body is
   * bytes, they are opaque.
   */
  readonly body: string | Uint8Array;
  /** The SHA-256 of the body in lower-case hexadecimal. For a text, it covers the UTF-8 bytes. */
  readonly sha256: string;
}

/** A checkpoint without its sequence, as the manager passes it to `append`. */
export interface CheckpointDraft extends Omit<CheckpointSummary, "sequence"> {
  readonly payload: Payload;
}

/** A checkpoint as an adapter keeps it. */
export interface StoredCheckpoint extends CheckpointSummary {
  readonly payload: Payload;
  /** See {@link seal}. */
  readonly seal: string;
}

/** A task's status, its number of checkpoints, and its newest intact checkpoint. */
export interface TaskSummary {
  readonly taskId: string;
  /**
   * The task's status now. It may differ from `newest.status`, the stored status of its newest checkpoint.
   *
   * - `queued`: a worker, or the next run, continues it. `scheduled`: a worker begins it at a later time.
   * - `running`: a live process holds its lease.
   * - `waiting`: its run waits for an event or a time.
   * - `interrupted`: its runner has died, or no runner is known because the task has no lease.
   * - `paused`: a signal has paused its run, or it was saved with this status.
   * - `completed`, `failed`, `cancelled`: it has ended. A retry continues a failed one.
   */
  readonly status:
    | "queued"
    | "scheduled"
    | "running"
    | "waiting"
    | "interrupted"
    | "paused"
    | "completed"
    | "failed"
    | "cancelled";
  readonly count: number;
  readonly newest: CheckpointSummary;
}

export type TaskStatus = TaskSummary["status"];

/** A new status and error. Without `error`, the old error is dropped. */
export interface StatusChange {
  readonly status: CheckpointStatus;
  readonly error?: CheckpointFailure;
}

/** A whole record without the payload's body: a summary, the seal, and the other fields that the seal covers. */
export interface SealedSummary extends CheckpointSummary {
  readonly payload: Pick<Payload, "encoding" | "sha256">;
  readonly seal: string;
}

/**
 * Returns the SHA-256 over a whole checkpoint: ids, sequence, status, error, due time, descriptive fields, and the
 * payload's digest. Adapters compute it on append and on setStatus; the manager checks it on each read. The order of
 * metadata's keys doesn't matter, so the seal stays valid in a store that sorts them (PostgreSQL's jsonb).
 *
 * The seal is a checksum, not a signature: anyone who can write to the store can compute it.
 *
 * @returns Lower-case hexadecimal.
 * @throws {RangeError} The metadata nests so deep that the stack overflows. Waymark saves no such metadata.
 */
export function seal(record: Omit<SealedSummary, "seal">): string {
  return hash("sha256", sealedText(record), "hex");
}

const SEAL_FORM = "waymark-seal-1";

function sealedText(record: Omit<SealedSummary, "seal">): string {
  const { metadata, error, payload } = record;
  const sealed = {
    metadata: metadata && withSortedKeys(metadata),
    error: error && FAILURE_FIELDS.map((part) => error[part]),
  };
  const fields = SUMMARY_FIELDS.map((field) =>
    field === "metadata" || field === "error" ? sealed[field] : record[field],
  );
  return JSON.stringify([SEAL_FORM, ...fields, payload.encoding, payload.sha256]);
}

/**
 * Returns the sealed text before and after the sequence. The SHA-256 of `before + sequence + after` is the seal. For a
 * store that assigns the sequence and computes the seal in one step.
 */
export function sealedParts(draft: CheckpointDraft): readonly [before: string, after: string] {
  const text = sealedText({ ...draft, sequence: 0 });
  // The length of the text before the sequence, with the comma after the id.
  const at = JSON.stringify([SEAL_FORM, draft.taskId, draft.id]).length;
  return [text.slice(0, at), text.slice(at + "0".length)];
}

/** Returns the record to store: the draft with its sequence and seal. */
export function sealDraft(draft: CheckpointDraft, sequence: number): StoredCheckpoint {
  const record = { ...draft, sequence };
  return { ...record, seal: seal(record) };
}

/**
 * Checks a record's seal and its payload's digest, without a key or a schema. If the record comes without its payload's
 * body, only the seal is checked.
 *
 * @returns The damage, as the end of a sentence; `undefined` if the record is intact.
 */
export function findDamage(record: StoredCheckpoint | SealedSummary): string | undefined {
  const broken = brokenSeal(record);
  const { payload } = record;
  if (broken !== undefined || !("body" in payload)) return broken;
  const isWhole = hash("sha256", payload.body, "hex") === payload.sha256;
  return isWhole ? undefined : "its payload fails its SHA-256 checksum";
}

/** Returns why a record's seal doesn't hold; `undefined` if it holds. */
export function brokenSeal(record: SealedSummary): string | undefined {
  try {
    return seal(record) === record.seal ? undefined : "its seal doesn't match its content";
  } catch (error) {
    if (isStackOverflow(error)) return "its metadata is nested too deeply to read";
    throw error;
  }
}

function requireSeal(record: SealedSummary, unchanged: string): void {
  if (brokenSeal(record) === undefined) return;
  throw new CheckpointCorruptError(
    `${describeCheckpoint(record)} doesn't match its seal: it was damaged or changed. ${unchanged}, and it was left untouched.`,
  );
}

/**
 * Returns the record with its new status and a new seal. A store can call it without reading the payload's body.
 *
 * @throws {CheckpointCorruptError} The old seal doesn't hold. A new seal would hide the damage.
 * @throws {CheckpointConflictError} The checkpoint is `completed`, which is final.
 */
export function withStatus<Record extends SealedSummary>(record: Record, change: StatusChange): Record {
  requireSeal(record, "Its status was not changed");
  if (record.status === "completed" && change.status !== "completed") {
    throw new CheckpointConflictError(
      `${describeCheckpoint(record)} is completed and can't become ${change.status}. Nothing was changed; save a new checkpoint to reopen the task.`,
    );
  }
  const { error: _former, ...rest } = record;
  const changed = { ...rest, ...change } as Record;
  return { ...changed, seal: seal(changed) };
}

/**
 * Returns the record with another payload and a new seal. The old body isn't needed.
 *
 * @throws {CheckpointCorruptError} The old seal doesn't hold. A new seal would hide the damage.
 */
export function withPayload<Record extends SealedSummary>(record: Record, payload: Payload): Record {
  requireSeal(record, "Its payload was not replaced");
  const { body } = payload;
  const sizeBytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  const changed = { ...record, sizeBytes, payload };
  return { ...changed, seal: seal(changed) };
}

/** Returns the summary alone: no payload, no seal, no keys that are `undefined`. */
export function toSummary(record: CheckpointSummary): CheckpointSummary {
  const summary: { -readonly [Field in keyof CheckpointSummary]?: unknown } = {};
  for (const field of SUMMARY_FIELDS) if (record[field] !== undefined) summary[field] = record[field];
  // The loop copies all fields, which TypeScript can't see.
  return summary as CheckpointSummary;
}

/**
 * Returns a copy that shares nothing mutable with the original. Adapters need one, because a caller may change its
 * draft as soon as it has the promise. (`structuredClone` would needlessly copy the payload's text.)
 */
export function copyRecord<Record extends Pick<CheckpointDraft, "metadata" | "error" | "payload">>(
  record: Record,
): Record {
  const { metadata, error, payload } = record;
  return {
    ...record,
    ...(metadata && { metadata: structuredClone(metadata) }),
    ...(error && { error: { ...error } }),
    payload: copyPayload(payload),
  };
}

/** Returns a copy of a payload that shares nothing mutable with the original. */
export function copyPayload({ encoding, body, sha256 }: Payload): Payload {
  return { encoding, sha256, body: typeof body === "string" ? body : Uint8Array.from(body) };
}

/** Returns a thrown value as plain data. Never throws, even if the value's getters do. */
export function toFailure(error: unknown): CheckpointFailure {
  if (!isError(error)) return { message: typeof error === "string" ? error.toWellFormed() : describe(error) };
  const texts = FAILURE_FIELDS.map((field) => [field, textAt(error, field)]).filter(([, text]) => text !== undefined);
  return { message: `an error whose message isn't text (${describe(error)})`, ...Object.fromEntries(texts) };
}

/** Compares texts by UTF-16 unit. */
export function compareTexts(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/**
 * Compares task ids by code point. Every adapter uses this order, and databases sort UTF-8 bytes the same way.
 * JavaScript compares UTF-16 units, which puts U+FF5E after U+1F600.
 */
export function compareTaskIds(a: string, b: string): number {
  if (a === b) return 0;
  const common = Math.min(a.length, b.length);
  for (let i = 0; i < common; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rankOfUnit(left) - rankOfUnit(right);
  }
  return a.length - b.length;
}

/**
 * Ranks a UTF-16 unit for comparison by code point. Surrogates encode code points above U+FFFF, so they rank after all
 * other units.
 */
function rankOfUnit(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** Replaces each object by a list of its keys and values, sorted by key, so that equal values have the same JSON. */
export function withSortedKeys(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => withSortedKeys(item));
  if (value === null || typeof value !== "object") return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, item]) => [key, withSortedKeys(item)]);
}

/** Returns the property as well-formed text; `undefined` if it isn't a string. */
function textAt(error: Error, key: string): string | undefined {
  try {
    const value: unknown = Reflect.get(error, key);
    return typeof value === "string" ? value.toWellFormed() : undefined;
  } catch {
    // A getter of the program's own error threw.
    return undefined;
  }
}

function describe(thrown: unknown): string {
  try {
    return (JSON.stringify(thrown) ?? String(thrown)).toWellFormed();
  } catch {
    // JSON.stringify failed (a cycle, a BigInt, a getter that throws): name the type only.
    return `something of type ${typeof thrown} was thrown`;
  }
}
