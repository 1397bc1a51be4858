import { isStackOverflow } from "../contract/errors.js";
import { Decoder } from "./decoder.js";
import { Encoder } from "./encoder.js";
import type { RedactedPaths } from "./redacted-paths.js";
import { damagedPayload, type ValueOwner } from "./transforms.js";

/** The text's form. `json` is the text of `JSON.stringify`, and `json-tagged` contains tags (see tags.ts). */
export type JsonEncoding = "json" | "json-tagged";

export function isJsonEncoding(name: string): name is JsonEncoding {
  return name === "json" || name === "json-tagged";
}

/** A state as text. */
export interface EncodedState {
  readonly encoding: JsonEncoding;
  /** Well-formed, and `JSON.stringify(JSON.parse(text)) === text`. */
  readonly text: string;
  /** Given if something in the state was redacted. */
  readonly isRedacted?: true;
}

/**
 * Encodes a value as JSON text. {@link decodeJson} decodes the text to an equal value with the same prototypes.
 *
 * One synchronous walk reads each property once, even of Proxies, and calls each getter once. Some values change:
 * - A shared object comes back as equal copies.
 * - A view gets its own memory, which is neither shared nor resizable.
 * - A getter becomes the value that it returned.
 * - An error of a class that isn't built in becomes an error of the nearest built-in class, with its own name and
 *   properties.
 * - An object of another realm (a `node:vm` context) becomes an object of this realm.
 * - Nothing is frozen or read-only.
 * - Properties of an array or an error that aren't enumerable are lost, except an error's name, message, stack, cause
 *   and errors.
 *
 * @param maxBytes - The size limit of the text, in UTF-8.
 * @param owner - For messages: the checkpoint that this is for.
 * @param redacted - Secrets. They are neither stored nor read: the censor is stored instead.
 * @param leavesOutHidden - Leaves out properties of plain objects that aren't enumerable, as `structuredClone` does. By
 *   default they are refused.
 * @returns If nothing needs a tag, the encoding is `json`, and `text` is exactly the text of `JSON.stringify`. (There
 *   is one exception: numeric keys come first, in ascending order, even if a Proxy lists them in another order.)
 * @throws {StateNotSerializableError} Something in the value would not come back equal; `path` shows where (see
 *   formatPath).
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
 * Encodes a value as the JSON of `JSON.stringify`, for formats without tags. Also refuses values that would need a tag.
 * So `JSON.parse` returns an equal value, except that properties that are `undefined` are missing. (Most programs don't
 * distinguish them from missing ones. In an array `undefined` is refused, since JSON would change it to null.)
 *
 * @param maxBytes - The size limit of the text, in UTF-8.
 * @param owner - For messages: the checkpoint that this is for.
 * @throws {StateNotSerializableError} JSON would lose or change something in the value; `path` shows where.
 * @throws {PayloadTooLargeError} The text would have more than `maxBytes` bytes.
 */
export function encodePlainJson(value: unknown, maxBytes: number, owner?: ValueOwner): string {
  return new Encoder({ maxBytes, owner, isPlain: true, leavesOutUndefined: true }).encode(value);
}

/**
 * Decodes a value that {@link encodeJson} wrote. Each call returns an independent value.
 *
 * @param owner - For messages: the text's checkpoint.
 * @throws {CheckpointCorruptError} The text is not JSON, has a malformed tag, or has tags that nest so deep that the
 *   stack overflows.
 * @throws {UnsupportedFormatError} The text has a tag or a regular expression that this version doesn't know.
 */
export function decodeJson(encoding: JsonEncoding, text: string, owner?: ValueOwner): unknown {
  try {
    const json: unknown = JSON.parse(text);
    return encoding === "json" ? json : new Decoder(owner).value(json);
  } catch (cause) {
    if (cause instanceof SyntaxError) throw damagedPayload(owner, "its text is not JSON", cause);
    throw isStackOverflow(cause) ? damagedPayload(owner, "its text is nested too deeply to read", cause) : cause;
  }
}
