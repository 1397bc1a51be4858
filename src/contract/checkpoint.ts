import { hash } from "node:crypto";
import { CheckpointConflictError, CheckpointCorruptError, isError, isStackOverflow } from "./errors.js";
import { keysOf } from "./keys.js";
import type { RunRecord } from "./run-record.js";

/** Anything that JSON carries as it is. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A plain JSON object: what `metadata` may be. */
export type JsonObject = { readonly [key: string]: JsonValue };

/** The fields of `T`, if JSON carries them: a text or an optional field is allowed, a `Date` or a function isn't. */
export type PlainFields<T> = {
  [Key in keyof T]: T[Key] extends JsonValue | undefined
    ? T[Key]
    : [Extract<T[Key], ((...args: never[]) => unknown) | bigint | symbol>] extends [never]
      ? PlainFields<T[Key]>
      : never;
};

/** Where a task stood at a checkpoint. A completed checkpoint stays completed; a new save reopens the task. */
export type CheckpointStatus = "running" | "paused" | "completed" | "failed";

/** Every status, in the order of a task's life. */
export const CHECKPOINT_STATUSES: readonly CheckpointStatus[] = ["running", "paused", "completed", "failed"];

/** Why a checkpoint's status is what it is: an error as plain data. */
export interface CheckpointFailure {
  readonly message: string;
  /** The error's class name. */
  readonly name?: string;
  /** The error's `code`, if it had one. */
  readonly code?: string;
  readonly stack?: string;
}

/** A checkpoint without its state: what lists, plans and pages show. */
export interface CheckpointSummary {
  readonly taskId: string;
  /** Unique within its task. */
  readonly id: string;
  /** 1, 2, 3 … per task, given by the storage; gaps are allowed. Sequences order a task's checkpoints; clocks don't. */
  readonly sequence: number;
  /** ISO 8601 in UTC with milliseconds, by the manager's clock. */
  readonly createdAt: string;
  /** A machine-readable point in the work: `validation-gate-2`. */
  readonly stage?: string;
  /** The stage for people: `After validation gate 2`. */
  readonly label?: string;
  /**
   * The id of the checkpoint of its task that this one continues, as its caller said. That one may have been removed since.
   * Without it, it continues the one before it.
   */
  readonly parentId?: string;
  readonly metadata?: JsonObject;
  readonly status: CheckpointStatus;
  /** Why the status is what it is; usually only set for `failed`. */
  readonly error?: CheckpointFailure;
  /** The version of the state's own shape, from 1; see `migrations`. */
  readonly stateVersion: number;
  /** The payload's size as stored, in bytes. */
  readonly sizeBytes: number;
}

/** Names a checkpoint in a message. */
export function titleOf({ id, taskId }: Pick<CheckpointSummary, "id" | "taskId">): string {
  return `Checkpoint ${id} of task ${JSON.stringify(taskId)}`;
}

/** Every field of a summary, in the order in which files and seals have them: each form of a record is made of this list. */
export const SUMMARY_FIELDS = keysOf<CheckpointSummary>({
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
  stateVersion: true,
  sizeBytes: true,
});

/** The same of its error. */
export const FAILURE_FIELDS = keysOf<CheckpointFailure>({ message: true, name: true, code: true, stack: true });

/** A checkpoint with its state, as the manager returns it. */
export interface Checkpoint<State = unknown> extends CheckpointSummary {
  /** Until a run has saved a state, it is `undefined`, whatever the schema says. */
  readonly state: State;
  /** If a run has saved it: its steps, and where it stands. */
  readonly run?: RunRecord;
}

/** A state in the form that is stored. The manager makes it once. */
export interface Payload {
  /** How the body was made: `json`, `json-tagged`, `json-run`, or with transforms `json+gzip` and so on. Opaque to adapters. */
  readonly encoding: string;
  /**
   * Text is JSON exactly as `JSON.stringify` writes it, so an adapter may embed it as JSON that a person reads with
   * `jq`: `JSON.stringify(JSON.parse(body)) === body`. Bytes are opaque.
   */
  readonly body: string | Uint8Array;
  /** Lower-case hexadecimal SHA-256 of the body; of its UTF-8 bytes if it is text. */
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

/** One task: how many checkpoints it has, and the newest intact one. */
export interface TaskSummary {
  readonly taskId: string;
  readonly count: number;
  readonly newest: CheckpointSummary;
}

/** A new status and its error. The old error is dropped. */
export interface StatusChange {
  readonly status: CheckpointStatus;
  readonly error?: CheckpointFailure;
}

/** A summary with everything its seal covers. It needs no payload body. */
export interface SealedSummary extends CheckpointSummary {
  readonly payload: Pick<Payload, "encoding" | "sha256">;
  readonly seal: string;
}

/**
 * The SHA-256 over all of a checkpoint: its identity, sequence, status, error, descriptive fields, and the payload's
 * digest. Adapters compute it on append and on setStatus; the manager checks it on each read. The order of metadata's
 * keys doesn't matter, so a store that sorts them (PostgreSQL's jsonb) keeps the seal valid.
 *
 * It is a checksum, not a signature: anybody who can write to the store can compute one.
 *
 * @returns Lower-case hexadecimal.
 * @throws {CheckpointCorruptError} Its metadata nests so deep that the stack ends.
 */
export function seal(record: Omit<SealedSummary, "seal">): string {
  try {
    return hash("sha256", sealedText(record), "hex");
  } catch (cause) {
    if (!isStackOverflow(cause)) throw cause;
    throw new CheckpointCorruptError(
      `The metadata of checkpoint ${record.id} nests deeper than any that is saved. It was left untouched.`,
      { cause },
    );
  }
}

const SEAL_FORM = "waymark-seal-1";

function sealedText(record: Omit<SealedSummary, "seal">): string {
  const { encoding, sha256 } = record.payload;
  return JSON.stringify([SEAL_FORM, ...SUMMARY_FIELDS.map((field) => sealedField(record, field)), encoding, sha256]);
}

function sealedField(record: CheckpointSummary, field: keyof CheckpointSummary): unknown {
  const { metadata, error } = record;
  if (field === "metadata") return metadata && withSortedKeys(metadata);
  if (field === "error") return error && FAILURE_FIELDS.map((part) => error[part]);
  return record[field];
}

/**
 * The text whose SHA-256 is the seal, before and after the sequence: for a store that gives the sequence and computes the
 * seal in one step.
 */
export function sealedParts(draft: CheckpointDraft): readonly [before: string, after: string] {
  const text = sealedText({ ...draft, sequence: 0 });
  // Up to the comma after the id.
  const at = JSON.stringify([SEAL_FORM, draft.taskId, draft.id]).length;
  return [text.slice(0, at), text.slice(at + "0".length)];
}

/** The record to store: the draft under its sequence, sealed. */
export function sealDraft(draft: CheckpointDraft, sequence: number): StoredCheckpoint {
  const record = { ...draft, sequence };
  return { ...record, seal: seal(record) };
}

/**
 * Checks a record's seal and its payload's digest. It needs neither a key nor a schema.
 *
 * @returns The damage, as the end of a sentence; `undefined` if the record is intact.
 */
export function findDamage(record: StoredCheckpoint): string | undefined {
  const broken = brokenSeal(record);
  if (broken !== undefined) return broken;
  const isWhole = hash("sha256", record.payload.body, "hex") === record.payload.sha256;
  return isWhole ? undefined : "its payload fails its SHA-256 checksum";
}

/** Why a record's seal doesn't hold; `undefined` if it holds. */
export function brokenSeal(record: SealedSummary): string | undefined {
  try {
    return seal(record) === record.seal ? undefined : "its seal doesn't match its content";
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return error.message;
    throw error;
  }
}

function requireSeal(record: SealedSummary, unchanged: string): void {
  if (brokenSeal(record) === undefined) return;
  throw new CheckpointCorruptError(`${titleOf(record)} fails its seal. ${unchanged}, and it was left untouched.`);
}

/**
 * The record under its new status, sealed anew. It needs no payload body, so a store can change a status without reading
 * one.
 *
 * @throws {CheckpointCorruptError} The old seal doesn't hold: sealing it anew would make damage look whole.
 * @throws {CheckpointConflictError} The checkpoint is `completed`, which it never leaves.
 */
export function withStatus<Record extends SealedSummary>(record: Record, change: StatusChange): Record {
  requireSeal(record, "Its status was not changed");
  if (record.status === "completed" && change.status !== "completed") {
    throw new CheckpointConflictError(
      `${titleOf(record)} is completed and can't become ${change.status}. Nothing was changed; save a new checkpoint to reopen the task.`,
    );
  }
  const { error: _former, ...rest } = record;
  const changed = { ...rest, ...change } as Record;
  return { ...changed, seal: seal(changed) };
}

/**
 * The record with another payload, sealed anew. It doesn't need the old body.
 *
 * @throws {CheckpointCorruptError} The old seal doesn't hold: sealing it anew would make damage look whole.
 */
export function withPayload<Record extends SealedSummary>(record: Record, payload: Payload): Record {
  requireSeal(record, "Its payload was not replaced");
  const { body } = payload;
  const sizeBytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  const changed = { ...record, sizeBytes, payload };
  return { ...changed, seal: seal(changed) };
}

/** The summary alone: without payload and seal, and without keys that are `undefined`. */
export function summaryOf(record: CheckpointSummary): CheckpointSummary {
  const summary: Partial<Changing<CheckpointSummary>> = {};
  for (const field of SUMMARY_FIELDS) copyField(summary, record, field);
  // TypeScript doesn't see that a loop over all fields copies each one.
  return summary as CheckpointSummary;
}

/** A record while it is made. */
export type Changing<Record> = { -readonly [Field in keyof Record]: Record[Field] };

function copyField<Field extends keyof CheckpointSummary>(
  to: Partial<Changing<CheckpointSummary>>,
  from: CheckpointSummary,
  field: Field,
): void {
  const value = from[field];
  if (value !== undefined) to[field] = value;
}

/**
 * A copy that shares nothing that can change with the original: a caller may change what it has given as soon as it has
 * its promise. For adapters. (structuredClone would copy the payload's text too, which can't change.)
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

/** The same of a payload alone. */
export function copyPayload({ encoding, body, sha256 }: Payload): Payload {
  return { encoding, sha256, body: typeof body === "string" ? body : Uint8Array.from(body) };
}

/** A thrown value as plain data. Never throws, even if the value has getters that do. */
export function failureOf(error: unknown): CheckpointFailure {
  if (!isError(error)) return { message: typeof error === "string" ? error.toWellFormed() : describe(error) };
  const texts = FAILURE_FIELDS.map((field) => [field, textAt(error, field)]).filter(([, text]) => text !== undefined);
  return { message: `an error without a text as its message (${describe(error)})`, ...Object.fromEntries(texts) };
}

/**
 * The order of task ids in every adapter: by code point, which is the order of their UTF-8 bytes. JavaScript's own
 * comparison goes by UTF-16 units and puts U+FF5E after U+1F600; databases don't.
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

/** Surrogates encode code points above U+FFFF, so they come after all other units. */
function rankOfUnit(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

function withSortedKeys(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => withSortedKeys(item));
  if (value === null || typeof value !== "object") return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, item]) => [key, withSortedKeys(item)]);
}

/** The property as well-formed text, if it is a string. */
function textAt(error: Error, key: string): string | undefined {
  try {
    const value: unknown = Reflect.get(error, key);
    return typeof value === "string" ? value.toWellFormed() : undefined;
  } catch {
    return undefined;
  }
}

function describe(thrown: unknown): string {
  try {
    return (JSON.stringify(thrown) ?? String(thrown)).toWellFormed();
  } catch {
    // A cycle, a BigInt or a getter that throws: only the type can be named.
    return `something of type ${typeof thrown} was thrown`;
  }
}
