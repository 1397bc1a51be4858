import { types } from "node:util";
import { load } from "@langchain/core/load";
import { JsonPlusSerializer, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { Decoder } from "../../src/codec/decoder.js";
import { Encoder } from "../../src/codec/encoder.js";
import { TAG } from "../../src/codec/tags.js";
import { StateNotSerializableError } from "../../src/contract/errors.js";
import { LangchainObjects } from "./langchain-objects.js";
import type { StoredValue } from "./records.js";

/**
 * A value in its stored form. A text is exactly as `JSON.stringify` writes it; a tagged text has Waymark's tags for
 * values that JSON would lose.
 */
export type SerializedValue =
  | { readonly text: string; readonly isTagged?: boolean }
  | { readonly type: string; readonly bytes: Uint8Array };

/**
 * Used if the user passes no `serde`: values are written as JSON with tags. LangChain's objects are read by this
 * serializer.
 */
export class DefaultSerializer extends JsonPlusSerializer {}

/**
 * @param channel - For error messages; `undefined` for LangGraph's metadata.
 * @throws {TypeError} A part of the value would not survive; the message says where.
 */
export async function serializedValue(
  serde: SerializerProtocol,
  value: unknown,
  channel?: string,
): Promise<SerializedValue> {
  const subject = channel === undefined ? "A checkpoint's metadata" : `The value of channel ${JSON.stringify(channel)}`;
  // Copied, because the caller may change its bytes later.
  const plain = types.isUint8Array(value) ? copyBytes(value) : value;
  if (serde instanceof DefaultSerializer && !types.isUint8Array(plain)) return encoded(plain, subject);
  const [type, bytes] = await serde.dumpsTyped(plain);
  if (type !== "json") return { type, bytes };
  const text = DECODER.decode(bytes);
  const loss = lossIn(text, value);
  if (loss !== undefined) throw new TypeError(`${subject} can't be saved: it is ${loss}. Nothing was stored.`);
  // Parsed and encoded again, because a serializer may write JSON with spaces.
  return { text: JSON.stringify(JSON.parse(text)) };
}

export async function loadedValue(serde: SerializerProtocol, value: SerializedValue): Promise<unknown> {
  if ("bytes" in value) return serde.loadsTyped(value.type, copyBytes(value.bytes));
  const { text, isTagged = false } = value;
  if (isTagged) return decoded(text);
  if (!(serde instanceof DefaultSerializer)) return serde.loadsTyped("json", text);
  // No string inside the JSON can contain the text `"lc":`, because a string's own quotes have backslashes.
  if (!text.includes('"lc":')) return JSON.parse(text);
  // If the value was saved with LangGraph's serializer as `serde`, it has Maps and the like in that serializer's form.
  if (text.includes('"lc":2') || text.includes(`"${TAG}":`)) return serde.loadsTyped("json", text);
  return decoded(text);
}

export function storedValue(value: SerializedValue): StoredValue {
  if ("bytes" in value) return value;
  const json: unknown = JSON.parse(value.text);
  return value.isTagged ? { tagged: json } : { json };
}

export function serializedFrom(stored: StoredValue): SerializedValue {
  if ("bytes" in stored) return stored;
  if ("tagged" in stored) return { text: JSON.stringify(stored.tagged), isTagged: true };
  return { text: JSON.stringify(stored.json) };
}

/** Calls `call` for all entries at once, and returns the results under the same keys. */
export async function mapEntries<Value, Result>(
  entries: Iterable<readonly [string, Value]>,
  call: (value: Value, key: string) => Promise<Result>,
): Promise<Map<string, Result>> {
  return new Map(
    await Promise.all(Array.from(entries, async ([key, value]) => [key, await call(value, key)] as const)),
  );
}

function encoded(value: unknown, subject: string): SerializedValue {
  const foreign = new LangchainObjects();
  // The record's limit counts; a value has no limit of its own.
  const maxBytes = Number.POSITIVE_INFINITY;
  const encoder = new Encoder({ maxBytes, subject, foreign, leavesOutHidden: true });
  try {
    const text = encoder.encode(value);
    return encoder.hasTags ? { text, isTagged: true } : { text };
  } catch (error) {
    throw error instanceof StateNotSerializableError ? new TypeError(error.message, { cause: error }) : error;
  }
}

/**
 * LangChain loads all objects at once: the first reading finds them, the second puts the loaded ones in their places.
 */
async function decoded(text: string): Promise<unknown> {
  const first = new LangchainObjects();
  const value = new Decoder(undefined, first).value(JSON.parse(text));
  if (first.found.length === 0) return value;
  const loaded: unknown = await load(JSON.stringify(first.found), { maxDepth: Number.POSITIVE_INFINITY });
  const second = new LangchainObjects(Array.isArray(loaded) ? loaded : []);
  return new Decoder(undefined, second).value(JSON.parse(text));
}

/** Why a serializer's JSON would lose the value; `undefined` if it doesn't. */
function lossIn(text: string, value: unknown): string | undefined {
  // JSON.stringify returned undefined.
  if (text === "") return `a ${typeof value}`;
  if (text === UNABLE && typeof value !== "string") return "a value that the `serde` is unable to serialize";
  return text.includes('"[Circular]"') && hasCycle(value) ? "a value with a cycle" : undefined;
}

/** LangGraph's serializer writes this text in place of a whole value that contains a BigInt. */
const UNABLE = JSON.stringify("[unable to serialize, circular reference is too complex to analyze]");

function hasCycle(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return false;
  } catch (error) {
    return error instanceof TypeError && error.message.includes("circular");
  }
}

/** A copy, made with Uint8Array's slice(), because a Buffer's own slice() shares memory. */
function copyBytes(bytes: Uint8Array): Uint8Array {
  return Uint8Array.prototype.slice.call(bytes);
}

const DECODER = new TextDecoder();
