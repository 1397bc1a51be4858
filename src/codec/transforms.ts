import { describeCheckpoint } from "../contract/checkpoint.js";
import { CheckpointCorruptError } from "../contract/errors.js";
import { describeRecord, type LogRecord } from "../contract/log.js";

/** The checkpoint that a payload belongs to. */
export interface CheckpointOwner {
  readonly kind?: undefined;
  readonly taskId: string;
  /** The checkpoint's id. */
  readonly id: string;
  readonly stage?: string | undefined;
  readonly parentId?: string | undefined;
  readonly stateVersion: number;
}

/** The record of a task's log that a payload belongs to. */
export interface RecordOwner extends Pick<LogRecord, "taskId" | "kind" | "createdAt"> {
  readonly name?: string | undefined;
  readonly recordKey?: string | undefined;
  readonly id?: string | undefined;
  readonly stage?: undefined;
  readonly parentId?: undefined;
  readonly stateVersion?: undefined;
}

/** The checkpoint or record that a payload belongs to. A record has a `kind`. */
export type PayloadOwner = CheckpointOwner | RecordOwner;

/**
 * Data to which a transform may bind the bytes, for example as the authenticated data of an encryption. A body that was
 * moved to another checkpoint or record, or whose encoding was changed, then can't be decoded. `decode` gets the same
 * context as `encode`.
 */
export type TransformContext = PayloadOwner & {
  /** The payload's whole encoding, in the order of application: `json-tagged+gzip+encrypt`. */
  readonly encoding: string;
};

/**
 * A step between the encoded state and the storage, such as compression or encryption. On save, transforms run in the
 * order of the manager's `transforms`. On load, the transforms that the record names run in reverse. So older records
 * stay readable as long as the transforms that they name are configured, in any order.
 */
export interface Transform {
  /** Stored with every payload, so it must never change: a letter, then letters, digits, `-` or `_`. */
  readonly name: string;
  /** Returns the bytes to store. MUST NOT change or keep `body`. */
  encode(body: Uint8Array, context: TransformContext): Uint8Array | Promise<Uint8Array>;
  /**
   * Returns the bytes that `encode` was given. MUST NOT change or keep `body`, which may be the storage's own memory.
   * MUST limit its memory. `body` is intact, since its digest has been checked.
   */
  decode(body: Uint8Array, context: TransformContext): Uint8Array | Promise<Uint8Array>;
  /**
   * True if `encode` and `decode` use the context in messages only. Then `fork` and `rewind` copy the bytes. If false,
   * `fork` and `rewind` undo the transform and apply it again for the new checkpoint.
   */
  readonly ignoresOwner?: boolean;
  /**
   * Whether `encode` would make an equivalent body now, for example with the same key. Used by `rekey`. Default: always
   * true.
   */
  isCurrent?(body: Uint8Array): boolean;
  /**
   * Called before loading an intact payload that doesn't name this transform. It may throw to refuse the payload. By
   * default, checkpoints saved before the transform was configured are loaded.
   */
  onAbsent?(context: TransformContext): void;
}

/**
 * Checks the names of the transforms.
 *
 * @throws {TypeError} A name is malformed, taken by the codec itself, or used twice.
 */
export function checkTransforms(transforms: readonly Transform[]): void {
  const names = new Set<string>();
  for (const { name, encode, decode } of transforms) {
    if (typeof encode !== "function" || typeof decode !== "function") {
      throw new TypeError(`The transform ${JSON.stringify(name)} must have the methods encode and decode.`);
    }
    if (typeof name !== "string" || !/^[A-Za-z][\w-]*$/.test(name) || /^json(-tagged)?$/.test(name)) {
      throw new TypeError(
        `${JSON.stringify(name)} can't be a transform's name: it must be a letter, then letters, digits, "-" or "_", and not "json" or "json-tagged".`,
      );
    }
    if (names.has(name))
      throw new TypeError(`Two transforms are named ${JSON.stringify(name)}; each needs its own name.`);
    names.add(name);
  }
}

/** @param reason - The reason, put after "can't be loaded: ". */
export function damagedPayload(owner: ValueOwner | undefined, reason: string, cause?: unknown): CheckpointCorruptError {
  const message = `${nameOwner(owner)} can't be loaded: ${reason}. It was left untouched.`;
  return new CheckpointCorruptError(message, { cause, reason });
}

/** For messages: a value's checkpoint or record, or a subject in words, made when it is needed. */
export type ValueOwner = PayloadOwner | string | (() => string);

export function nameOwner(owner: ValueOwner | undefined): string {
  if (typeof owner === "string") return owner;
  if (typeof owner === "function") return owner();
  if (owner === undefined) return "The state";
  return owner.kind === undefined ? describeCheckpoint(owner) : describeRecord(owner);
}
