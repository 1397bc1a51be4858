import { types } from "node:util";

/** A value that JSON carries as it is. */
export type PlainJson = null | boolean | number | string | PlainJson[] | { [key: string]: PlainJson };

/**
 * A state as the JSON that people and programs expect of it: a date is its ISO text, a map an object (or pairs, where a
 * key is no text), a set an array, a bigint its digits, an error its parts, bytes base64. What has no such form is its
 * usual text (`NaN`, `/a+/g`), and `undefined` is null.
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

function objectJson(value: object): PlainJson {
  // By index: holes count.
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

/** As data, whatever the keys are: `__proto__` too. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): PlainJson {
  return Object.fromEntries(entries.map(([key, item]) => [key, plainJson(item)]));
}
