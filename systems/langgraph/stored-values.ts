import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { StoredValue } from "./records.js";

/** @throws {TypeError} It is a function or a symbol. */
export async function storedValue(serde: SerializerProtocol, value: unknown, channel: string): Promise<StoredValue> {
  // The serializer gives bytes as they are, and they may change later. A Buffer's own slice() doesn't copy.
  const given = value instanceof Uint8Array ? Uint8Array.prototype.slice.call(value) : value;
  const [type, bytes] = await serde.dumpsTyped(given);
  if (type !== "json") return { type, bytes };
  const text = DECODER.decode(bytes);
  // What JSON has no text for.
  if (text === "") {
    throw new TypeError(
      `The value of channel ${JSON.stringify(channel)} is a ${typeof value}. Nothing was stored; keep its name.`,
    );
  }
  return { json: JSON.parse(text) };
}

export async function loadedValue(serde: SerializerProtocol, stored: StoredValue): Promise<unknown> {
  return "json" in stored
    ? serde.loadsTyped("json", JSON.stringify(stored.json))
    : serde.loadsTyped(stored.type, stored.bytes);
}

/** Calls for each entry at once, and gives the results under the same keys. */
export async function mapEntries<Value, Result>(
  entries: Iterable<readonly [string, Value]>,
  call: (value: Value, key: string) => Promise<Result>,
): Promise<Record<string, Result>> {
  const results = await Promise.all(
    Array.from(entries, async ([key, value]) => [key, await call(value, key)] as const),
  );
  // Own properties, whatever their names are.
  return Object.fromEntries(results);
}

const DECODER = new TextDecoder();
