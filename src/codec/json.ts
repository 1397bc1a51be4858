import { CheckpointCorruptError } from "../contract/errors.js";
import { nestsTooDeep } from "../contract/json-depth.js";
import { type EncodedState, Encoder, type JsonEncoding } from "./encoder.js";
import { excessOf } from "./json-excess.js";
import { TagReader } from "./read-tags.js";
import type { RedactedPaths } from "./redaction.js";
import { MAX_NESTING } from "./tag-format.js";
import { type PayloadOwner, subjectOf } from "./transforms.js";

/**
 * Writes a value as JSON text from which {@link decodeJson} makes an equal one, of the same prototypes.
 *
 * One synchronous walk: each property is read once, getters too, and a Proxy is what its traps say. What is shared comes
 * back as equal copies; so does the memory behind typed arrays and DataViews, of which each keeps its own part. A getter
 * comes back as the value that it gave. Frozen and read-only don't come back. An error of a class that is not built in
 * comes back as the nearest class that is, with its own name and properties. What another realm made (a `node:vm`
 * context) comes back as of this one.
 *
 * @param maxBytes - The most UTF-8 bytes the text may have.
 * @param context - For messages: the checkpoint that this is for.
 * @param redacted - What is not written, nor looked into: a censor's text stands in its place.
 * @returns Encoding `json` where nothing needs a tag: `text` is exactly what `JSON.stringify` gives. (One exception: a
 *   Proxy may list its numeric keys in any order; here they come first and ascend, as in every plain object.)
 * @throws {StateNotSerializableError} Something in it would not come back as it is; `path` says where (see formatPath).
 * @throws {PayloadTooLargeError} The text would have more than `maxBytes` bytes; the walk ends as soon as that is clear.
 */
export function encodeJson(
  value: unknown,
  maxBytes: number,
  context?: PayloadOwner,
  redacted?: RedactedPaths,
): EncodedState {
  return new Encoder(maxBytes, context, { redacted }).encode(value);
}

/**
 * Writes a value as the JSON that `JSON.stringify` gives, for stores whose format has no place for tags: what
 * {@link encodeJson} would need a tag for is refused as well. So `JSON.parse` gives an equal value, without the properties
 * that are undefined. (To most programs they are the same as none; in an array, JSON would make null of undefined.)
 *
 * @param maxBytes - The most UTF-8 bytes the text may have.
 * @param context - For messages: the checkpoint that this is for.
 * @throws {StateNotSerializableError} JSON would lose or change something in it; `path` says where.
 * @throws {PayloadTooLargeError} The text would have more than `maxBytes` bytes.
 */
export function encodePlainJson(value: unknown, maxBytes: number, context?: PayloadOwner): string {
  return new Encoder(maxBytes, context, { policy: "plain" }).encode(value).text;
}

/**
 * Makes the value that {@link encodeJson} wrote. Nothing of it is shared with the value of any other call.
 *
 * @param context - For messages: the checkpoint that this is from.
 * @throws {CheckpointCorruptError} The text is not JSON, nests deeper than any that is written, or has a malformed tag.
 * @throws {UnsupportedFormatError} It has a tag, or a regular expression, that this version doesn't know.
 */
export function decodeJson(encoding: JsonEncoding, text: string, context?: PayloadOwner): unknown {
  // As many values as the text has room for: whoever saved them had them all in memory, too.
  if (excessOf(text)) throw tooDeep(context);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new CheckpointCorruptError(
      `${subjectOf(context)} can't be loaded: its text is not JSON. It was left untouched.`,
      { cause },
    );
  }
  if (encoding === "json-tagged") return new TagReader(context).read(parsed);
  if (!nestsTooDeep(parsed)) return parsed;
  throw tooDeep(context);
}

function tooDeep(context: PayloadOwner | undefined): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `${subjectOf(context)} can't be loaded: its text nests more than ${MAX_NESTING} levels deep. It was left untouched.`,
  );
}
