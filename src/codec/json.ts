import { isStackOverflow } from "../contract/errors.js";
import { Decoder } from "./decoder.js";
import { Encoder } from "./encoder.js";
import type { RedactedPaths } from "./redacted-paths.js";
import { damagedPayload, type ValueOwner } from "./transforms.js";

/**
 * How a state became text: `json` is what `JSON.stringify` gives, `json-tagged` has tags too (see tags.ts), `json-run` is a
 * state with the record of its run (see run-body.ts).
 */
export type JsonEncoding = "json" | "json-tagged" | "json-run";

export function isJsonEncoding(name: string): name is JsonEncoding {
  return name === "json" || name === "json-tagged" || name === "json-run";
}

/** A state as text. */
export interface EncodedState {
  readonly encoding: JsonEncoding;
  /** Well-formed, and `JSON.stringify(JSON.parse(text)) === text`. */
  readonly text: string;
  /** Something in it is redacted. */
  readonly isRedacted?: true;
  /** The text's digest, if it is known already. */
  readonly sha256?: string;
}

/**
 * Writes a value as JSON text from which {@link decodeJson} makes an equal one, of the same prototypes.
 *
 * One synchronous walk: each property is read once, getters too, and a Proxy is what its traps say. Some values come
 * back different:
 * - A shared object comes back as equal copies.
 * - A view has memory of its own, which is neither shared nor resizable.
 * - A getter is the value that it gave.
 * - An error of a class that isn't built in is of the nearest class that is, with its own name and properties.
 * - An object of another realm (a `node:vm` context) is of this one.
 * - Nothing is frozen or read-only.
 * - Properties of an array or an error that aren't enumerable are lost, but for an error's name, message, stack, cause
 *   and errors.
 *
 * @param maxBytes - The most UTF-8 bytes the text may have.
 * @param owner - For messages: the checkpoint that this is for.
 * @param redacted - Secrets. They are neither stored nor looked into: the censor stands in their place.
 * @param leavesOutHidden - Leaves out the properties of plain objects that aren't enumerable, as `structuredClone` does. Without
 *   it, they are refused.
 * @returns Encoding `json` where nothing needs a tag: then `text` is exactly what `JSON.stringify` gives. (Except that
 *   numeric keys come first and ascend, as in every plain object, even if a Proxy lists them in another order.)
 * @throws {StateNotSerializableError} Something in it would not come back as it is; `path` says where (see formatPath).
 * @throws {PayloadTooLargeError} The text would have more than `maxBytes` bytes.
 */
export function encodeJson(
  value: unknown,
  maxBytes: number,
  owner?: ValueOwner,
  redacted?: RedactedPaths,
  leavesOutHidden = false,
): EncodedState {
  const encoder = new Encoder({ maxBytes, owner, redacted, leavesOutHidden });
  const text = encoder.encode(value);
  return { encoding: encoder.hasTags ? "json-tagged" : "json", text, ...(encoder.isRedacted && { isRedacted: true }) };
}

/**
 * Writes a value as the JSON that `JSON.stringify` gives, for stores whose format has no place for tags: what
 * {@link encodeJson} would need a tag for is refused as well. So `JSON.parse` gives an equal value, but without the
 * properties that are `undefined`. (To most programs they are the same as none. In an array, JSON would change undefined to
 * null, so it is refused there.)
 *
 * @param maxBytes - The most UTF-8 bytes the text may have.
 * @param owner - For messages: the checkpoint that this is for.
 * @throws {StateNotSerializableError} JSON would lose or change something in it; `path` says where.
 * @throws {PayloadTooLargeError} The text would have more than `maxBytes` bytes.
 */
export function encodePlainJson(value: unknown, maxBytes: number, owner?: ValueOwner): string {
  return new Encoder({ maxBytes, owner, isPlain: true, leavesOutUndefined: true }).encode(value);
}

/**
 * Makes the value that {@link encodeJson} wrote. Nothing of it is shared with the value of any other call.
 *
 * @param owner - For messages: the checkpoint that this is from.
 * @throws {CheckpointCorruptError} The text is not JSON, has a malformed tag, or has tags that nest beyond the stack.
 * @throws {UnsupportedFormatError} It has a tag, or a regular expression, that this version doesn't know.
 */
export function decodeJson(encoding: JsonEncoding, text: string, owner?: ValueOwner): unknown {
  try {
    const json: unknown = JSON.parse(text);
    return encoding === "json" ? json : new Decoder(owner).value(json);
  } catch (cause) {
    if (cause instanceof SyntaxError) throw damagedPayload(owner, "its text is not JSON", cause);
    throw isStackOverflow(cause) ? damagedPayload(owner, "its text nests too deep to be walked through", cause) : cause;
  }
}
