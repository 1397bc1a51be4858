import { types } from "node:util";

/** What the codec needs of `Uint8Array` and its like. */
export interface TypedArrayConstructor {
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): ArrayBufferView;
  readonly BYTES_PER_ELEMENT: number;
  readonly prototype: object;
}

/** What the codec needs of `TypeError` and its like. */
export interface BuiltInErrorConstructor {
  new (message?: string): Error;
  readonly prototype: object;
}

/** Every typed array that this version of Node has, by name. */
export const TYPED_ARRAYS: ReadonlyMap<string, TypedArrayConstructor> = new Map<string, TypedArrayConstructor>([
  ["Int8Array", Int8Array],
  ["Uint8Array", Uint8Array],
  ["Uint8ClampedArray", Uint8ClampedArray],
  ["Int16Array", Int16Array],
  ["Uint16Array", Uint16Array],
  ["Int32Array", Int32Array],
  ["Uint32Array", Uint32Array],
  ["Float32Array", Float32Array],
  ["Float64Array", Float64Array],
  ["BigInt64Array", BigInt64Array],
  ["BigUint64Array", BigUint64Array],
  ...newerTypedArrays(),
]);

/** Every class of error that comes back as what it was, by name; AggregateError and DOMException have their own ways. */
export const ERRORS: ReadonlyMap<string, BuiltInErrorConstructor> = new Map<string, BuiltInErrorConstructor>([
  ["Error", Error],
  ["EvalError", EvalError],
  ["RangeError", RangeError],
  ["ReferenceError", ReferenceError],
  ["SyntaxError", SyntaxError],
  ["TypeError", TypeError],
  ["URIError", URIError],
]);

/**
 * The built-in class whose instances have this prototype directly, be it of this realm or another (a `node:vm` context,
 * a test runner's sandbox); `undefined` for every other class, subclasses of built-ins among them. It tells what a value
 * claims to be: whether it is one is for the brand checks of `node:util` to say.
 */
export function kindOf(prototype: object): string | undefined {
  return KINDS.get(prototype) ?? nameOfIntrinsic(prototype);
}

/** The nearest built-in class of error that this error's class is or extends. */
export function errorKindOf(error: object): string | undefined {
  for (let prototype = prototypeOf(error); prototype !== null; prototype = prototypeOf(prototype)) {
    const kind = kindOf(prototype);
    if (kind !== undefined && isErrorKind(kind)) return kind;
  }
  return undefined;
}

/** Whether the kind is that of an error. */
export function isErrorKind(kind: string): boolean {
  return ERRORS.has(kind) || kind === "AggregateError" || kind === "DOMException";
}

/** The name of the typed array's class by its internal slot, which no `Symbol.toStringTag` can fake. */
export function typedArrayName(value: object): string | undefined {
  const name: unknown = Reflect.get(TYPED_ARRAY_PROTOTYPE, Symbol.toStringTag, value);
  return typeof name === "string" ? name : undefined;
}

/** What a refused object is, in words: `an instance of class Session, a subclass of Map`. */
export function describeInstance(value: object): string {
  const prototype = prototypeOf(value);
  const name = prototype === null ? undefined : nameOfClass(prototype);
  const what = name === undefined ? "an object with a prototype of its own" : `an instance of class ${name}`;
  if (types.isProxy(value)) return `a Proxy around ${what}`;
  if (types.isBoxedPrimitive(value)) return `${what}, a boxed primitive`;
  if (prototype === null) return what;
  if (kindOf(prototype) !== undefined) return `an object that only pretends to be ${what}`;
  const parent = builtInAncestor(prototype);
  return parent === undefined ? what : `${what}, a subclass of ${parent}`;
}

/** What can be done about a refused object. */
export function adviceFor(value: object): string {
  if (types.isPromise(value)) return "Await it, and save what it gives.";
  if (types.isProxy(value)) return "Save what it wraps.";
  if (types.isBoxedPrimitive(value)) return "Save the primitive in it.";
  return "Give the manager a schema with a codec for the class (`z.codec`), or save plain data in its place.";
}

/** Whether it carries more than its properties, whatever its prototype pretends: a Map whose prototype was replaced. */
export function hasInternals(value: object): boolean {
  return INTERNALS.some((is) => is(value));
}

/** `Object.getPrototypeOf`, typed. */
export function prototypeOf(value: object): object | null {
  const prototype: unknown = Object.getPrototypeOf(value);
  return typeof prototype === "object" || typeof prototype === "function" ? prototype : null;
}

const TYPED_ARRAY_PROTOTYPE: object = prototypeOf(Uint8Array.prototype) ?? {};

const KINDS: ReadonlyMap<object, string> = new Map<object, string>([
  [Object.prototype, "Object"],
  [Array.prototype, "Array"],
  [Date.prototype, "Date"],
  [Map.prototype, "Map"],
  [Set.prototype, "Set"],
  [RegExp.prototype, "RegExp"],
  [URL.prototype, "URL"],
  [ArrayBuffer.prototype, "ArrayBuffer"],
  [DataView.prototype, "DataView"],
  [Buffer.prototype, "Buffer"],
  [AggregateError.prototype, "AggregateError"],
  [DOMException.prototype, "DOMException"],
  ...[...TYPED_ARRAYS, ...ERRORS].map(([name, { prototype }]) => [prototype, name] as const),
]);

const INTERNALS: readonly ((value: object) => boolean)[] = [
  types.isMap,
  types.isSet,
  types.isDate,
  types.isRegExp,
  types.isNativeError,
  types.isPromise,
  types.isWeakMap,
  types.isWeakSet,
  types.isAnyArrayBuffer,
  ArrayBuffer.isView,
  types.isBoxedPrimitive,
  types.isGeneratorObject,
  types.isMapIterator,
  types.isSetIterator,
  types.isExternal,
];

/** Float16Array came with Node 24. */
function newerTypedArrays(): [string, TypedArrayConstructor][] {
  const Float16Array: unknown = Reflect.get(globalThis, "Float16Array");
  return isTypedArrayConstructor(Float16Array) ? [["Float16Array", Float16Array]] : [];
}

function isTypedArrayConstructor(value: unknown): value is TypedArrayConstructor {
  return typeof value === "function" && "BYTES_PER_ELEMENT" in value;
}

/** The name of the built-in whose `prototype` this is, in whichever realm: only an engine's own function looks like it. */
function nameOfIntrinsic(prototype: object): string | undefined {
  const maker = constructorOf(prototype);
  if (maker === undefined || maker.prototype !== prototype) return undefined;
  const isNative = Function.prototype.toString.call(maker) === `function ${maker.name}() { [native code] }`;
  return isNative ? maker.name : undefined;
}

function nameOfClass(prototype: object): string | undefined {
  const maker = constructorOf(prototype);
  return maker && (maker.name || "(anonymous)");
}

function constructorOf(prototype: object): { readonly name: string; readonly prototype: unknown } | undefined {
  const maker: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  return typeof maker === "function" ? maker : undefined;
}

function builtInAncestor(prototype: object): string | undefined {
  for (let parent = prototypeOf(prototype); parent !== null; parent = prototypeOf(parent)) {
    const kind = kindOf(parent);
    if (kind !== undefined) return kind === "Object" ? undefined : kind;
  }
  return undefined;
}
