import { decodeJson, encodeJson } from "../../src/codec/json.js";
import { toFailure } from "../../src/contract/checkpoint.js";
import { isRecord, UnreadableError } from "../json-object.js";

/** The size limit of a checkpoint's metadata. */
const MAX_METADATA_BYTES = 64 * 1024 * 1024;

/** A checkpoint's metadata in its file. */
export interface StoredMetadata {
  /** The result of `JSON.stringify`, for the spec's own program. */
  readonly plain: unknown;
  /** The tagged form, which restores every value. Only if JSON would lose something (a Date, a Map). */
  readonly tagged?: unknown;
}

/**
 * Reads the metadata at once, so the caller may change it afterwards.
 *
 * @throws {StateNotSerializableError} A value in the metadata has no stored form: a function, a cycle.
 * @throws {PayloadTooLargeError} The metadata takes more than 64 MiB.
 */
export function encodeMetadata(metadata: Readonly<Record<string, unknown>>): StoredMetadata {
  // The metadata is encoded under the key `metadata`, so that errors say `$.metadata.onDone`.
  const { encoding, text } = encodeJson({ metadata }, MAX_METADATA_BYTES);
  const { metadata: stored }: { readonly metadata: unknown } = JSON.parse(text);
  return encoding === "json" ? { plain: stored } : { plain: toPlain(decode(stored)), tagged: stored };
}

/**
 * A file's metadata. If the plain form doesn't match the tagged one, a person has edited the plain form: then the plain
 * form counts.
 *
 * @throws {UnreadableError} The tagged form is damaged.
 */
export function decodeMetadata(plain: Record<string, unknown>, tagged: unknown): Record<string, unknown> {
  if (tagged === undefined) return plain;
  let decoded: unknown;
  try {
    decoded = decode(tagged);
  } catch (cause) {
    throw new UnreadableError(`its waymark key can't be read: ${toFailure(cause).message}`, { cause });
  }
  const isSame = JSON.stringify(toPlain(decoded)) === JSON.stringify(plain);
  return isSame && isRecord(decoded) ? decoded : plain;
}

function decode(tagged: unknown): unknown {
  return decodeJson("json-tagged", JSON.stringify(tagged));
}

/** The result of JSON.stringify, parsed. A BigInt, which JSON.stringify refuses, becomes its digits. */
function toPlain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}` : item)));
}
