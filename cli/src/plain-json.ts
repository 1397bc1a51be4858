import { types } from "node:util";

/** A value that JSON can represent unchanged. */
export type PlainJson = null | boolean | number | string | PlainJson[] | { [key: string]: PlainJson };

/**
 * Returns a state as plain JSON:
 *
 * - A date becomes its ISO text, a bigint its digits, an error its parts, and bytes become base64.
 * - A map becomes an object (or pairs, if a key is not a string), and a set becomes an array.
 * - `undefined` becomes null. Other values become their text (`NaN`, `/a+/g`).
 */
export function plainJson(value: unknown): PlainJson {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return String(value);
    case "object":
      return value === null ? null : objectJson(value);
    default:
      return null;
  }
}

/** Returns the kind of a value in a word: `Map`, `null`, `string`. */
export function findKind(value: unknown): string {
  if (value === null || typeof value !== "object") return value === null ? "null" : typeof value;
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

function objectJson(value: object): PlainJson {
  // Array.from also visits holes.
  if (Array.isArray(value)) return Array.from(value, plainJson);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? String(value) : value.toISOString();
  if (value instanceof RegExp) return String(value);
  if (value instanceof URL) return value.href;
  if (value instanceof Set) return Array.from(value, plainJson);
  if (value instanceof Map) return mapJson(value);
  if (value instanceof Error || types.isNativeError(value)) return errorJson(value);
  if (value instanceof ArrayBuffer) return Buffer.from(value).toString("base64");
  if (ArrayBuffer.isView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
  }
  return fromEntries(Object.entries(value));
}

function mapJson(map: ReadonlyMap<unknown, unknown>): PlainJson {
  const entries = [...map];
  const isNamed = (entry: [unknown, unknown]): entry is [string, unknown] => typeof entry[0] === "string";
  return entries.every(isNamed)
    ? fromEntries(entries)
    : entries.map(([key, item]) => [plainJson(key), plainJson(item)]);
}

function errorJson(error: Error): PlainJson {
  const { name, message, cause } = error;
  const own = Object.entries(error);
  return fromEntries([
    ["name", name],
    ["message", message],
    ...(cause === undefined ? [] : [["cause", cause] as const]),
    ...own,
  ]);
}

/** Keeps every key as data, including `__proto__`. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): PlainJson {
  return Object.fromEntries(entries.map(([key, item]) => [key, plainJson(item)]));
}
