import { types } from "node:util";

/**
 * The first difference between two values that a program could see: prototypes, presence, order and enumerability of
 * properties, holes, -0, internal slots. `undefined` if there is none. The values must share nothing, so the same
 * object on both sides is a difference.
 */
export function difference(actual: unknown, expected: unknown, path = "$"): string | undefined {
  if (!isObject(actual) || !isObject(expected)) {
    return Object.is(actual, expected) ? undefined : `${path}: ${show(actual)} instead of ${show(expected)}`;
  }
  if (actual === expected) return `${path}: the same object`;
  if (Object.getPrototypeOf(actual) !== Object.getPrototypeOf(expected)) return `${path}: another prototype`;
  const slots = slotsOf(expected);
  return (
    slotDifference(slotsOf(actual), slots, path) ??
    // The order of an error's hidden properties depends on the engine, so it doesn't count.
    propertyDifference(actual, expected, types.isNativeError(expected), path)
  );
}

function slotDifference(actual: readonly unknown[], expected: readonly unknown[], path: string): string | undefined {
  if (actual.length !== expected.length) return `${path}: ${actual.length} slots instead of ${expected.length}`;
  for (const [i, slot] of expected.entries()) {
    const found = difference(actual[i], slot, `${path}<${i}>`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function propertyDifference(actual: object, expected: object, anyOrder: boolean, path: string): string | undefined {
  const [keys, others] = [expected, actual].map((value) => {
    const own = ArrayBuffer.isView(value) ? [] : Reflect.ownKeys(value);
    return anyOrder ? own.sort((a, b) => (String(a) < String(b) ? -1 : 1)) : own;
  });
  if (keys!.length !== others!.length || keys!.some((key, i) => key !== others![i])) {
    return `${path}: properties ${others!.map(String)} instead of ${keys!.map(String)}`;
  }
  for (const key of keys!) {
    const at = `${path}[${String(key)}]`;
    const [left, right] = [
      Reflect.getOwnPropertyDescriptor(actual, key),
      Reflect.getOwnPropertyDescriptor(expected, key),
    ];
    if (left?.enumerable !== right?.enumerable) return `${at}: another enumerability`;
    const found = difference(Reflect.get(actual, key), Reflect.get(expected, key), at);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns an object's content except its properties. Throws for an object that can't be in a state. */
function slotsOf(value: object): readonly unknown[] {
  if (types.isDate(value)) return [value.getTime()];
  if (types.isMap(value)) return [...value].flat();
  if (types.isSet(value)) return [...value];
  if (types.isRegExp(value)) return [value.source, value.flags];
  if (value instanceof URL) return [value.href];
  if (value instanceof DOMException) return [value.name, value.message, value.code];
  if (types.isArrayBuffer(value)) return [Buffer.from(value).toString("hex")];
  if (ArrayBuffer.isView(value)) {
    return [value.byteLength, Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex")];
  }
  if (types.isNativeError(value)) return [value.name, value.message];
  if (Array.isArray(value)) return ["array", value.length];
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new Error(`No state holds a ${String(value)}.`);
  return [];
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function show(value: unknown): string {
  return Object.is(value, -0) ? "-0" : String(typeof value === "string" ? JSON.stringify(value) : value);
}
