import { titleOf } from "../contract/checkpoint.js";
import { CheckpointCorruptError } from "../contract/errors.js";

/** The checkpoint that a payload belongs to. */
export interface PayloadOwner {
  readonly taskId: string;
  /** The checkpoint's id. */
  readonly id: string;
  readonly stage?: string | undefined;
  readonly parentId?: string | undefined;
  readonly stateVersion: number;
}

/**
 * Data that a transform may bind to the bytes (as an encryption's authenticated data), so that a body that is moved to
 * another checkpoint, or gets another encoding, doesn't open. It is the same for decoding as it was for encoding.
 */
export interface TransformContext extends PayloadOwner {
  /** The payload's whole encoding, in the order of its making: `json-tagged+gzip+encrypt`. */
  readonly encoding: string;
}

/**
 * A step between the encoded state and the storage: compression, encryption. On save, transforms run in the order of the
 * manager's `transforms`; on load, those that the record names run in reverse. So records from before a change of
 * transforms stay readable as long as their transforms are still configured.
 */
export interface Transform {
  /** Stored with every payload, so it must never change: a letter, then letters, digits, `-` or `_`. */
  readonly name: string;
  /** Gives the bytes to store. MUST NOT change or keep `body`. */
  encode(body: Uint8Array, context: TransformContext): Uint8Array | Promise<Uint8Array>;
  /**
   * Gives what `encode` was given. MUST NOT change or keep `body`, which may be the storage's own memory. The body is
   * intact: its digest has been checked. MUST bound what it allocates.
   */
  decode(body: Uint8Array, context: TransformContext): Uint8Array | Promise<Uint8Array>;
  /**
   * True if neither `encode` nor `decode` uses the context, except in messages: then another checkpoint can have the same
   * bytes, and `fork` and `rewind` take them as they are. Without it, they undo the transform and apply it again.
   */
  readonly ignoresOwner?: boolean;
  /** Whether `encode` would still make such a body, for example with the same key. For `rekey`; without it, always. */
  isCurrent?(body: Uint8Array): boolean;
  /**
   * Called before an intact payload is loaded that doesn't name this transform. It may throw to refuse the payload.
   * Without it, checkpoints are loaded that were saved before the transform was configured.
   */
  onAbsent?(context: TransformContext): void;
}

/**
 * Checks that every transform can be found again by its name.
 *
 * @throws {TypeError} A name is malformed, taken by the codec itself, or used twice.
 */
export function checkTransforms(transforms: readonly Transform[]): void {
  const names = new Set<string>();
  for (const { name, encode, decode } of transforms) {
    if (typeof encode !== "function" || typeof decode !== "function") {
      throw new TypeError(`The transform ${JSON.stringify(name)} must have the methods encode and decode.`);
    }
    if (typeof name !== "string" || !/^[A-Za-z][\w-]*$/.test(name) || /^json(-tagged|-run)?$/.test(name)) {
      throw new TypeError(
        `${JSON.stringify(name)} can't be a transform's name: it must be a letter, then letters, digits, "-" or "_", and not "json", "json-tagged" or "json-run".`,
      );
    }
    if (names.has(name))
      throw new TypeError(`Two transforms are named ${JSON.stringify(name)}; each needs its own name.`);
    names.add(name);
  }
}

/** @param reason - After "can't be loaded: ". */
export function damagedPayload(owner: ValueOwner | undefined, reason: string, cause?: unknown): CheckpointCorruptError {
  const message = `${subjectOf(owner)} can't be loaded: ${reason}. It was left untouched.`;
  return new CheckpointCorruptError(message, { cause, reason });
}

/** For messages: the checkpoint that a value is of, or a subject in words. */
export type ValueOwner = PayloadOwner | string;

/** The subject of a message about a value: its owner, or the state alone if that is unknown. */
export function subjectOf(owner: ValueOwner | undefined): string {
  if (typeof owner === "string") return owner;
  return owner === undefined ? "The state" : titleOf(owner);
}
