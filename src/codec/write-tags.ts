import { isDeepStrictEqual, types } from "node:util";
import { base64Length, toBase64 } from "./bytes.js";
import { errorKindOf, TYPED_ARRAYS, typedArrayName } from "./kinds.js";
import type { PathStep } from "./path.js";
import { withoutMessage } from "./redaction.js";
import { DOM_EXCEPTION_PROPERTIES, ERROR_PROPERTIES } from "./tag-format.js";

/** Where a tagged value is written: the walk under way, standing at that value. */
export interface TagSink {
  /** Appends JSON as it is. */
  write(json: string): void;
  /** Appends a whole tag. */
  tag(tag: string, json?: string): void;
  /** Appends a tag up to its value. What follows is the value, then `}`. */
  open(tag: string): void;
  /** Appends a value that this one leads to by `step`. */
  child(value: unknown, step: PathStep, level: number): void;
  /** Appends an object of these own properties. */
  record(value: object, keys: readonly string[], level: number): void;
  /** What stands in the place of what this one leads to by `step`, where that is redacted. */
  censorOf(step: PathStep): string | undefined;
  /** Makes sure that so many characters still fit, before they are made. */
  reserve(units: number): void;
  /** Throws: this value, or what it leads to by `step`, can't be saved. */
  refuse(what: string, advice: string, step?: PathStep): never;
}

/** Above so many items, a view's keys are no longer listed one by one. */
const LARGE_VIEW = 1024;

/**
 * Writes a built-in object as a tag.
 *
 * @param kind - The built-in class that its prototype is of, if any. Whether it is one is checked here.
 * @returns False where no tag fits: nothing was written.
 */
export function writeTagged(value: object, kind: string | undefined, sink: TagSink, level: number): boolean {
  switch (kind) {
    case "Date":
      return types.isDate(value) && writeDate(value, sink);
    case "RegExp":
      return types.isRegExp(value) && writeRegExp(value, sink, level);
    case "URL":
      return value instanceof URL && writeUrl(value, sink);
    case "Map":
      return types.isMap(value) && writeMap(value, sink, level);
    case "Set":
      return types.isSet(value) && writeSet(value, sink, level);
    case "ArrayBuffer":
      return types.isArrayBuffer(value) && writeArrayBuffer(value, sink);
    case "DataView":
      return types.isDataView(value) && writeView(value, "DataView", 1, sink);
    case "Buffer":
      return types.isUint8Array(value) && writeView(value, "Buffer", 1, sink);
    default: {
      const type = kind === undefined ? undefined : TYPED_ARRAYS.get(kind);
      if (kind !== undefined && type !== undefined) {
        return (
          ArrayBuffer.isView(value) &&
          typedArrayName(value) === kind &&
          writeView(value, kind, type.BYTES_PER_ELEMENT, sink)
        );
      }
      // A DOMException is no native error in Node 20.
      return (types.isNativeError(value) || kind === "DOMException") && writeError(value, sink, level);
    }
  }
}

function writeDate(date: Date, sink: TagSink): true {
  refuseExtras(date, "Date", [], sink);
  sink.tag("Date", Number.isNaN(date.getTime()) ? "null" : `"${date.toISOString()}"`);
  return true;
}

function writeRegExp(expression: RegExp, sink: TagSink, level: number): true {
  refuseExtras(expression, "RegExp", ["lastIndex"], sink);
  sink.open("RegExp");
  sink.write(`{"source":${JSON.stringify(expression.source)},"flags":"${expression.flags}"`);
  // Anything may have been assigned to it.
  const lastIndex: unknown = expression.lastIndex;
  if (!Object.is(lastIndex, 0)) {
    sink.write(',"lastIndex":');
    sink.child(lastIndex, "lastIndex", level + 2);
  }
  sink.write("}}");
  return true;
}

function writeUrl(url: URL, sink: TagSink): true {
  refuseExtras(url, "URL", [], sink);
  sink.tag("URL", JSON.stringify(url.href));
  return true;
}

function writeMap(map: ReadonlyMap<unknown, unknown>, sink: TagSink, level: number): true {
  refuseExtras(map, "Map", [], sink);
  sink.open("Map");
  let position = 0;
  for (const [key, value] of map) {
    sink.write(position === 0 ? "[[" : ",[");
    sink.child(key, { into: "keys", at: position }, level + 3);
    sink.write(",");
    sink.child(value, typeof key === "string" ? { into: "get", at: key } : { into: "values", at: position }, level + 3);
    sink.write("]");
    position++;
  }
  sink.write(position === 0 ? "[]}" : "]}");
  return true;
}

function writeSet(set: ReadonlySet<unknown>, sink: TagSink, level: number): true {
  refuseExtras(set, "Set", [], sink);
  sink.open("Set");
  let position = 0;
  for (const item of set) {
    sink.write(position === 0 ? "[" : ",");
    sink.child(item, { into: "values", at: position }, level + 2);
    position++;
  }
  sink.write(position === 0 ? "[]}" : "]}");
  return true;
}

function writeArrayBuffer(buffer: ArrayBuffer, sink: TagSink): true {
  refuseExtras(buffer, "ArrayBuffer", [], sink);
  refuseResizable(buffer, sink);
  writeBytes("ArrayBuffer", buffer, 1, sink);
  return true;
}

function writeView(view: ArrayBufferView, kind: string, elementSize: number, sink: TagSink): true {
  refuseExtrasOfView(view, kind, view.byteLength / elementSize, sink);
  if (types.isSharedArrayBuffer(view.buffer)) {
    sink.refuse(`a ${kind} in shared memory`, "Save a copy of it, made while no other thread writes.");
  }
  refuseResizable(view.buffer, sink);
  writeBytes(kind, view, elementSize, sink);
  return true;
}

function writeBytes(tag: string, source: ArrayBuffer | ArrayBufferView, elementSize: number, sink: TagSink): void {
  sink.reserve(base64Length(source.byteLength));
  sink.tag(tag, `"${toBase64(source, elementSize)}"`);
}

function writeError(error: object, sink: TagSink, level: number): boolean {
  const kind = errorKindOf(error);
  if (kind === undefined) return false;
  const named = kind === "DOMException" ? DOM_EXCEPTION_PROPERTIES : ERROR_PROPERTIES;
  const own = new Set<string>();
  const hidden: string[] = [];
  const enumerable: string[] = [];
  for (const key of Reflect.ownKeys(error)) {
    if (typeof key === "symbol") sink.refuse("a property under a symbol", "Save it under a plain key.", key);
    else if (Object.prototype.propertyIsEnumerable.call(error, key)) enumerable.push(key);
    else if (!named.includes(key)) hidden.push(key);
    else own.add(key);
  }

  const member = (key: string, value: unknown) => {
    sink.write(`,"${key}":`);
    sink.child(value, key, level + 2);
  };
  sink.open("Error");
  sink.write(`{"class":"${kind}"`);
  for (const [key, inherited] of [
    ["name", kind],
    ["message", ""],
  ] as const) {
    if (kind === "DOMException") member(key, Reflect.get(DOMException.prototype, key, error));
    else if (own.has(key)) member(key, Reflect.get(error, key));
    else if (!enumerable.includes(key)) {
      // A class of its own may have put it on its prototype, which doesn't come back.
      const value: unknown = Reflect.get(error, key);
      if (value !== inherited) member(key, value);
    }
  }
  for (const key of ["stack", "cause", "errors"]) {
    if (own.has(key)) member(key, key === "stack" ? stackOf(error, sink) : Reflect.get(error, key));
  }
  for (const [key, keys] of [
    ["hidden", hidden],
    ["props", enumerable],
  ] as const) {
    if (keys.length === 0) continue;
    sink.write(`,"${key}":`);
    sink.record(error, keys, level + 2);
  }
  sink.write("}}");
  return true;
}

/** The stack, without the message where that is redacted. */
function stackOf(error: object, sink: TagSink): unknown {
  const stack: unknown = Reflect.get(error, "stack");
  const censor = sink.censorOf("message");
  if (censor === undefined || typeof stack !== "string") return stack;
  return withoutMessage(stack, String(Reflect.get(error, "message")), censor);
}

/** Its own properties other than those of its class would be lost. */
function refuseExtras(value: object, kind: string, expected: readonly string[], sink: TagSink): void {
  const extra = Reflect.ownKeys(value).find((key) => typeof key === "symbol" || !expected.includes(key));
  if (extra !== undefined) refuseExtra(kind, extra, sink);
}

/**
 * The same for a view, whose indices are own properties too, listed before all others. Listing those of a large view
 * takes hundreds of times as long as saving it, so Node compares it with a bare view of the same memory instead, which
 * doesn't see a non-enumerable extra.
 */
function refuseExtrasOfView(view: ArrayBufferView, kind: string, length: number, sink: TagSink): void {
  if (length > LARGE_VIEW && isDeepStrictEqual(view, bareView(view, kind, length))) return;
  const extra = Reflect.ownKeys(view)[kind === "DataView" ? 0 : length];
  if (extra !== undefined) refuseExtra(kind, extra, sink);
}

function bareView({ buffer, byteOffset }: ArrayBufferView, kind: string, length: number): ArrayBufferView | undefined {
  if (kind === "Buffer") return Buffer.from(buffer, byteOffset, length);
  const type = TYPED_ARRAYS.get(kind);
  return type && new type(buffer, byteOffset, length);
}

function refuseExtra(kind: string, extra: string | symbol, sink: TagSink): never {
  return sink.refuse(`an extra property of a value of class ${kind}`, "Save it beside that value.", extra);
}

function refuseResizable(buffer: ArrayBufferLike, sink: TagSink): void {
  if (!("resizable" in buffer) || buffer.resizable !== true) return;
  sink.refuse("in a resizable ArrayBuffer", "Save a copy of fixed length: `buffer.slice(0)`.");
}
