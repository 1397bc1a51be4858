import { isDeepStrictEqual, types } from "node:util";
import { fromBase64, toBase64 } from "./bytes.js";
import { BUILT_IN_ERRORS, findErrorKind, isEnumerable, TYPED_ARRAYS } from "./kinds.js";
import type { PathStep } from "./path.js";
import { withoutMessage } from "./redacted-paths.js";

/**
 * Marks a JSON object as a tag in the encoding `json-tagged`: `{"$waymark":"Date","value":"2026-…"}` stands for a value
 * that JSON can't store. {@link TAGS} lists every tag.
 */
export const TAG = "$waymark";

/**
 * A tag adds at most this many levels of JSON around a value inside it. A Map adds three:
 * `{"$waymark":"Map","value":[[key,value]]}`.
 */
export const LEVELS_OF_A_TAG = 3;

/** A JSON object. All its keys are own properties, even `__proto__`. */
export type JsonRecord = Record<string, unknown>;

/** The methods that a row of {@link TAGS} may call while it encodes a value. */
export interface Writing {
  /** Returns the JSON for the part of the value to which `step` leads. */
  child(value: unknown, step: PathStep): unknown;
  /** Returns the JSON object for these properties of the value. */
  members(value: object, keys: readonly string[]): JsonRecord;
  /** Returns the JSON object for all properties of a plain object. */
  plainObject(value: object): JsonRecord;
  /** Calls `write`. While it runs, properties that are `undefined` are left out, as `JSON.stringify` does. */
  withoutUndefined<Result>(write: () => Result): Result;
  /** Throws if this many more characters would exceed the limit. Call this before writing them. */
  reserve(characters: number): void;
  /** Refuses the value. With `step`, refuses the part of the value to which the step leads. */
  refuse(what: string, advice: string, step?: PathStep): never;
  /** Refuses a value that isn't what its prototype claims, or whose class has no row. */
  refuseInstance(value: unknown): never;
}

/**
 * The methods that a row of {@link TAGS} may call while it decodes a value. If the row throws, the tag counts as
 * malformed.
 */
export interface Reading {
  /** Returns the value that this JSON stands for. */
  value(json: unknown): unknown;
  /** Decodes the object's members in place, and returns the object. Doesn't decode the object itself as a tag. */
  members(json: JsonRecord): JsonRecord;
  /** Refuses a value that a newer version wrote. */
  unsupported(what: string, cause?: unknown): never;
}

/** Classes of another library whose instances may occur in a value. */
export interface ForeignClasses {
  /** The key that marks the JSON of an instance. A plain object that has this key is written as a tag. */
  readonly key: string;
  /** Advice for the caller about an instance of an unknown class. */
  readonly advice: string;
  /** Returns the JSON for an instance; `undefined` if its class is unknown. */
  write(instance: object, writing: Writing): JsonRecord | undefined;
  /** Returns the value for JSON that has the key `key`. */
  read(json: JsonRecord, reading: Reading): unknown;
}

/** Encodes and decodes one type. `read` turns the result of `write` into an equal value. */
export interface TagRow {
  readonly tag: string;
  /** Returns the tag's `value`. If the result is `undefined`, the tag is written without a value. */
  write(value: unknown, writing: Writing): unknown;
  read(stored: unknown, reading: Reading): unknown;
}

const NUMBERS = new Map([Number.NaN, Infinity, -Infinity].map((value) => [String(value), value])).set("-0", -0);

const ROWS: readonly TagRow[] = [
  // Primitives.
  row(
    "undefined",
    (value) => value === undefined,
    () => undefined,
    (stored) => check(stored === undefined),
  ),
  // A hole of an array. Only the walk over an array writes this tag.
  row(
    "hole",
    (value) => value === undefined,
    () => undefined,
    () => malformed(),
  ),
  row(
    "number",
    (value) => typeof value === "number",
    (value) => (Object.is(value, -0) ? "-0" : String(value)),
    (stored) => NUMBERS.get(text(stored)) ?? malformed(),
  ),
  row(
    "BigInt",
    (value) => typeof value === "bigint",
    String,
    (stored) => BigInt(text(stored)),
  ),

  // Objects with internal state.
  row(
    "Date",
    types.isDate,
    (date) => (Number.isNaN(date.getTime()) ? null : date.toISOString()),
    (stored) => (stored === null ? new Date(Number.NaN) : parseDate(text(stored))),
    [],
  ),
  row(
    "URL",
    (value) => value instanceof URL,
    (url) => url.href,
    (stored) => new URL(text(stored)),
    [],
  ),
  row(
    "RegExp",
    types.isRegExp,
    // A program may have assigned anything to lastIndex.
    ({ source, flags, lastIndex }, writing) => ({
      source,
      flags,
      ...(!Object.is(lastIndex, 0) && { lastIndex: writing.child(lastIndex, "lastIndex") }),
    }),
    readRegExp,
    ["lastIndex"],
  ),
  row(
    "Map",
    types.isMap,
    (map, writing) =>
      Array.from(map, ([key, value], at) => [
        writing.child(key, { into: "keys", at }),
        writing.child(value, typeof key === "string" ? { into: "get", at: key } : { into: "values", at }),
      ]),
    readMap,
    [],
  ),
  row(
    "Set",
    types.isSet,
    (set, writing) => Array.from(set, (item, at) => writing.child(item, { into: "values", at })),
    readSet,
    [],
  ),
  row("Error", isError, writeError, readError),

  // Bytes as base64, in the byte order of the machine. Only s390x and AIX aren't little-endian.
  row("ArrayBuffer", types.isArrayBuffer, encodeBytes, (stored) => decodeBytes(stored, 1).buffer, []),
  view("DataView", 1, (buffer, offset, length) => new DataView(buffer, offset, length)),
  view("Buffer", 1, (buffer, offset, length) => Buffer.from(buffer, offset, length)),
  ...Array.from(TYPED_ARRAYS, ([tag, type]) =>
    view(tag, type.BYTES_PER_ELEMENT, (buffer, offset, length) => new type(buffer, offset, length)),
  ),

  // Plain objects that need a tag, because they have a key `$waymark` or no prototype.
  row(
    "Object",
    isObject,
    (value, writing) => writing.plainObject(value),
    (stored, reading) => reading.members(record(stored)),
  ),
  row(
    "NullObject",
    isObject,
    (value, writing) => writing.plainObject(value),
    (stored, reading) => Object.setPrototypeOf(reading.members(record(stored)), null),
  ),
];

/** The row of each type that needs a tag, by tag. */
export const TAGS: ReadonlyMap<string, TagRow> = new Map(ROWS.map((each) => [each.tag, each]));

/**
 * @param ownKeys - The own properties that a value may have. Other properties would be lost, so they are refused.
 *   Default: any.
 */
function row<Value>(
  tag: string,
  test: (value: unknown) => value is Value,
  write: (value: Value, writing: Writing) => unknown,
  read: (stored: unknown, reading: Reading) => unknown,
  ownKeys?: readonly PropertyKey[],
): TagRow {
  return {
    tag,
    write(value, writing) {
      if (!test(value)) return writing.refuseInstance(value);
      const extra = ownKeys && Reflect.ownKeys(Object(value)).find((key) => !ownKeys.includes(key));
      if (extra !== undefined) refuseExtra(tag, writing, extra);
      return write(value, writing);
    },
    read,
  };
}

/** A row for one kind of view. A decoded view has its own memory, of exactly its size. */
function view(
  tag: string,
  elementSize: number,
  make: (buffer: ArrayBufferLike, offset: number, length: number) => ArrayBufferView,
): TagRow {
  const write = (value: ArrayBufferView, writing: Writing) => {
    const { buffer, byteOffset, byteLength } = value;
    // A view's keys include its elements, so listing them takes hundreds of times as long as saving the view. Instead,
    // the view is compared with a new view of the same memory, which has no extra properties.
    const plain = make(buffer, byteOffset, byteLength / elementSize);
    if (Object.getPrototypeOf(value) === Object.getPrototypeOf(plain) && !isDeepStrictEqual(value, plain)) {
      const extra = Reflect.ownKeys(value).find((key) => Number.isNaN(Number(String(key))));
      refuseExtra(tag, writing, extra);
    }
    return encodeBytes(value, writing);
  };
  return row(tag, ArrayBuffer.isView, write, (stored) => {
    const bytes = decodeBytes(stored, elementSize);
    return make(bytes.buffer, 0, bytes.byteLength / elementSize);
  });
}

function readRegExp(stored: unknown, reading: Reading): RegExp {
  const { source, flags, lastIndex = 0 } = record(stored, ["source", "flags", "lastIndex"]);
  const [pattern, letters] = [text(source), text(flags)];
  let expression: RegExp;
  try {
    expression = new RegExp(pattern, letters);
  } catch (cause) {
    // The digest holds, so the text is intact. Hence a newer version of Node saved it.
    return reading.unsupported("a regular expression that this version of Node can't compile", cause);
  }
  Reflect.set(expression, "lastIndex", reading.value(lastIndex));
  return expression;
}

function readMap(stored: unknown, reading: Reading): unknown {
  const entries = list(stored).map(list);
  const map = new Map(entries.map(([key, value]) => [reading.value(key), reading.value(value)]));
  check(map.size === entries.length && entries.every(({ length }) => length === 2));
  return map;
}

function readSet(stored: unknown, reading: Reading): unknown {
  const items = list(stored);
  const set = new Set(items.map((item) => reading.value(item)));
  check(set.size === items.length);
  return set;
}

/**
 * Properties of errors that are saved although they aren't enumerable. Other properties that aren't enumerable are left
 * out.
 */
const ERROR_PROPERTIES = ["name", "message", "stack", "cause", "errors"];

/** `class` is the nearest built-in class; `props` are the enumerable properties. */
function writeError(error: object, writing: Writing): unknown {
  const kind = findErrorKind(error) ?? writing.refuseInstance(error);
  const enumerable = Object.keys(error);
  const symbol = Object.getOwnPropertySymbols(error).find((key) => isEnumerable(error, key));
  if (symbol !== undefined)
    writing.refuse("a property with a symbol as its key", "Save it as an ordinary property.", symbol);
  // A caller's class may define its name on the prototype. Since the prototype isn't restored, the name is saved. A
  // DOMException always has its name and message on the prototype.
  const inherited: JsonRecord = kind === "DOMException" ? {} : { name: kind, message: "" };
  const props = writing.members(error, enumerable);
  const body: JsonRecord = { class: kind };
  for (const key of ERROR_PROPERTIES) {
    if (isEnumerable(error, key)) continue;
    const value: unknown = Reflect.get(error, key);
    if (Object.hasOwn(error, key) || value !== inherited[key]) body[key] = writing.child(value, key);
  }
  // A stack begins with the error's message. If the message was redacted, it must not stay in the stack.
  const [message, { stack }, written] = [Reflect.get(error, "message"), body, body["message"] ?? props["message"]];
  if (typeof stack === "string" && typeof message === "string" && typeof written === "string" && written !== message) {
    body["stack"] = withoutMessage(stack, message, written);
  }
  return enumerable.length === 0 ? body : { ...body, props };
}

function readError(stored: unknown, reading: Reading): unknown {
  const { class: kind, props = {}, ...named } = record(stored, ["class", "props", ...ERROR_PROPERTIES]);
  const make = BUILT_IN_ERRORS.get(text(kind));
  if (make === undefined) return reading.unsupported(`an error of the unknown class ${JSON.stringify(kind)}`);
  const { name, message, ...others } = reading.members(named);
  const isDomException = kind === "DOMException";
  const error = isDomException ? new DOMException(text(message), text(name)) : make();
  for (const key of Reflect.ownKeys(error)) Reflect.deleteProperty(error, key);
  define(error, isDomException ? others : named, false);
  define(error, reading.members(record(props)), true);
  return error;
}

function define(error: Error, properties: JsonRecord, enumerable: boolean): void {
  for (const [key, value] of Object.entries(properties)) {
    Object.defineProperty(error, key, { value, enumerable, writable: true, configurable: true });
  }
}

function encodeBytes(bytes: ArrayBuffer | ArrayBufferView, writing: Writing): string {
  writing.reserve(Math.ceil(bytes.byteLength / 3) * 4);
  return toBase64(bytes);
}

function decodeBytes(stored: unknown, elementSize: number): Buffer<ArrayBuffer> {
  return fromBase64(text(stored), elementSize) ?? malformed();
}

function refuseExtra(tag: string, writing: Writing, extra: PathStep): never {
  return writing.refuse(`an extra property of a value of class ${tag}`, "Save it outside that value.", extra);
}

function parseDate(iso: string): Date {
  const date = new Date(iso);
  check(date.toISOString() === iso);
  return date;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** In Node 20, a DOMException isn't a native error. */
function isError(value: unknown): value is object {
  return types.isNativeError(value) || value instanceof DOMException;
}

// Checks of a tag's content. Each throws if the content is malformed.

/** @param keys - The allowed keys. Default: any. */
function record(stored: unknown, keys?: readonly string[]): JsonRecord {
  if (!isRecord(stored) || (keys && Object.keys(stored).some((key) => !keys.includes(key)))) return malformed();
  return stored;
}

export function isRecord(json: unknown): json is JsonRecord {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

function list(stored: unknown): readonly unknown[] {
  return Array.isArray(stored) ? stored : malformed();
}

function text(stored: unknown): string {
  return typeof stored === "string" ? stored : malformed();
}

function check(holds: boolean): void {
  if (!holds) malformed();
}

function malformed(): never {
  throw new TypeError("Malformed value for this tag.");
}
