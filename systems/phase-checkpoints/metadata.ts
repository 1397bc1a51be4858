import { decodeJson, encodeJson } from "../../src/codec/json.js";
import { failureOf } from "../../src/contract/checkpoint.js";
import { isRecord, UnreadableError } from "../json-object.js";

/** The most bytes that a checkpoint's metadata may take. */
const MAX_METADATA_BYTES = 64 * 1024 * 1024;

/** A checkpoint's metadata as its file has it. */
export interface StoredMetadata {
  /** The result of `JSON.stringify`. The spec's own program reads this. */
  readonly plain: unknown;
  /** The tagged form, from which everything comes back as it was; only if JSON loses something (a Date, a Map). */
  readonly tagged?: unknown;
}

/**
 * Reads the metadata at once, so the caller may change it afterwards.
 *
 * @throws {StateNotSerializableError} Something in it has no stored form: a function, a cycle.
 * @throws {PayloadTooLargeError} It takes more than 64 MiB.
 */
export function encodeMetadata(metadata: Readonly<Record<string, unknown>>): StoredMetadata {
  // Under its key, so that errors say `$.metadata.onDone`.
  const { encoding, text } = encodeJson({ metadata }, MAX_METADATA_BYTES);
  const { metadata: stored }: { readonly metadata: unknown } = JSON.parse(text);
  return encoding === "json" ? { plain: stored } : { plain: plainOf(decode(stored)), tagged: stored };
}

/**
 * The metadata of a file. If the plain form no longer matches the tagged one, somebody has edited it: then it counts.
 *
 * @throws {UnreadableError} The tagged form is damaged.
 */
export function decodeMetadata(plain: Record<string, unknown>, tagged: unknown): Record<string, unknown> {
  if (tagged === undefined) return plain;
  let decoded: unknown;
  try {
    decoded = decode(tagged);
  } catch (cause) {
    throw new UnreadableError(`its waymark key can't be read: ${failureOf(cause).message}`, { cause });
  }
  const isSame = JSON.stringify(plainOf(decoded)) === JSON.stringify(plain);
  return isSame && isRecord(decoded) ? decoded : plain;
}

function decode(tagged: unknown): unknown {
  return decodeJson("json-tagged", JSON.stringify(tagged));
}

/** The result of JSON.stringify, parsed. A BigInt, for which that is an error, becomes its digits. */
function plainOf(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}` : item)));
}
