import { isJsonObject } from "../../adapters/files/sealed-record.js";
import { UnreadableError } from "../../adapters/files/stored-file.js";
import { decodeJson, encodeJson } from "../../src/codec/json.js";
import { failureOf, type JsonObject, type JsonValue } from "../../src/contract/checkpoint.js";

/** A checkpoint's metadata as its file has it. */
export interface StoredMetadata {
  /** What `JSON.stringify` makes of it, for whoever knows the spec alone. */
  readonly plain: JsonValue;
  /** Where that loses something (a Date, a Map, `undefined`): the tagged form, from which it comes back as it was. */
  readonly tagged?: JsonValue;
}

/**
 * Reads the metadata at once, so that it may be changed afterwards.
 *
 * @throws {StateNotSerializableError} Something in it would be lost in any form (a function, a cycle).
 * @throws {PayloadTooLargeError} It is larger than `maxBytes`.
 */
export function encodeMetadata(metadata: Readonly<Record<string, unknown>>, maxBytes: number): StoredMetadata {
  // Under its key, so that errors say `$.metadata.onDone`.
  const { encoding, text } = encodeJson({ metadata }, maxBytes);
  const { metadata: stored } = JSON.parse(text) as { readonly metadata: JsonValue };
  return encoding === "json" ? { plain: stored } : { plain: plainOf(decode(stored)), tagged: stored };
}

/**
 * The metadata of a file. Where both forms are there and no longer agree, somebody has edited the plain one, and that
 * one counts.
 *
 * @throws {UnreadableError} It has a tagged form that can't be read.
 */
export function decodeMetadata(plain: JsonObject, tagged: JsonValue | undefined): Record<string, unknown> {
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

/** The tagged form in a file's `waymark` key, if there is any. */
export function taggedMetadataIn(waymark: JsonValue | undefined): JsonValue | undefined {
  return isJsonObject(waymark) ? waymark["metadata"] : undefined;
}

function decode(tagged: JsonValue): unknown {
  return decodeJson("json-tagged", JSON.stringify(tagged));
}

/** What JSON.stringify makes of it, which for a BigInt is an error: it becomes its digits. */
function plainOf(value: unknown): JsonValue {
  return JSON.parse(JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}` : item)));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
