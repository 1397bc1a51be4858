import { JsonPlusSerializer, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { StoredValue } from "./records.js";

/** A value as LangGraph's serializer gives and takes it. JSON is text, as `JSON.stringify` writes it. */
export type SerializedValue = { readonly text: string } | { readonly type: string; readonly bytes: Uint8Array };

/** @throws {TypeError} It is a function or a symbol. */
export async function serializedValue(
  serde: SerializerProtocol,
  value: unknown,
  channel: string,
): Promise<SerializedValue> {
  // The serializer gives bytes as they are, and they may change later.
  const [type, bytes] = await serde.dumpsTyped(value instanceof Uint8Array ? copyOf(value) : value);
  if (type !== "json") return { type, bytes };
  const text = DECODER.decode(bytes);
  // What JSON has no text for.
  if (text === "") {
    throw new TypeError(
      `The value of channel ${JSON.stringify(channel)} is a ${typeof value}. Nothing was stored; keep its name.`,
    );
  }
  // A serializer of the user's may write it with spaces.
  return { text: serde.constructor === JsonPlusSerializer ? text : JSON.stringify(JSON.parse(text)) };
}

export async function loadedValue(serde: SerializerProtocol, value: SerializedValue): Promise<unknown> {
  return "text" in value ? serde.loadsTyped("json", value.text) : serde.loadsTyped(value.type, copyOf(value.bytes));
}

export function storedValue(value: SerializedValue): StoredValue {
  return "text" in value ? { json: JSON.parse(value.text) } : value;
}

export function serializedFrom(stored: StoredValue): SerializedValue {
  return "json" in stored ? { text: JSON.stringify(stored.json) } : stored;
}

/** Calls for each entry at once, and gives the results under the same keys. */
export async function mapEntries<Value, Result>(
  entries: Iterable<readonly [string, Value]>,
  call: (value: Value, key: string) => Promise<Result>,
): Promise<Map<string, Result>> {
  return new Map(
    await Promise.all(Array.from(entries, async ([key, value]) => [key, await call(value, key)] as const)),
  );
}

/** A Buffer's own slice() doesn't copy. */
function copyOf(bytes: Uint8Array): Uint8Array {
  return Uint8Array.prototype.slice.call(bytes);
}

const DECODER = new TextDecoder();
