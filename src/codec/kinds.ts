import { types } from "node:util";

/** The part of a typed array's constructor that the codec needs. */
export interface TypedArrayConstructor {
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): ArrayBufferView;
  readonly BYTES_PER_ELEMENT: number;
}

/** Every kind of typed array that this version of Node has, by name. */
export const TYPED_ARRAYS: ReadonlyMap<string, TypedArrayConstructor> = new Map(
  // Float16Array came with Node 24.
  "Int8 Uint8 Uint8Clamped Int16 Uint16 Int32 Uint32 Float16 Float32 Float64 BigInt64 BigUint64"
    .split(" ")
    .map((kind): unknown => Reflect.get(globalThis, `${kind}Array`))
    .filter((type): type is TypedArrayConstructor & { readonly name: string } => typeof type === "function")
    .map((type) => [type.name, type]),
);

/** Constructors of the error classes that are restored, by name. */
export const BUILT_IN_ERRORS: ReadonlyMap<string, () => Error> = new Map([
  ...[Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map(
    (type): [string, () => Error] => [type.name, unplaced(() => new type())],
  ),
  ["AggregateError", unplaced(() => new AggregateError([]))],
  ["DOMException", unplaced(() => new DOMException())],
]);

/** Makes errors without a stack. With a stack, Node would print the line of our source above an uncaught error. */
function unplaced(make: () => Error): () => Error {
  return () => {
    const { stackTraceLimit } = Error;
    // Has no effect if the built-in objects are frozen.
    Reflect.set(Error, "stackTraceLimit", 0);
    try {
      return make();
    } finally {
      Reflect.set(Error, "stackTraceLimit", stackTraceLimit);
    }
  };
}

/**
 * Returns the name of the built-in class with this prototype; `undefined` for every other class, including subclasses
 * of built-in classes. The class may belong to another realm: Jest, for example, runs tests in a `node:vm` context. A
 * prototype can be faked. Use the brand checks of `node:util` to tell whether an object really is an instance.
 */
export function findKind(prototype: object): string | undefined {
  return WRITTEN_IN_JAVASCRIPT.get(prototype) ?? nameOfIntrinsic(prototype);
}

/** Returns the name of the nearest built-in error class that this error is an instance of. */
export function findErrorKind(error: object): string | undefined {
  let prototype: object | null = Object.getPrototypeOf(error);
  for (; prototype !== null; prototype = Object.getPrototypeOf(prototype)) {
    const kind = findKind(prototype);
    if (kind !== undefined && BUILT_IN_ERRORS.has(kind)) return kind;
  }
  return undefined;
}

/**
 * Describes a refused object: `an instance of class Session`.
 *
 * @param isStorable - True if instances of the object's class can be stored. Then it was refused because it isn't a
 *   real instance.
 */
export function describeInstance(value: object, isStorable: boolean): string {
  const prototype: object | null = Object.getPrototypeOf(value);
  const maker = prototype === null ? undefined : findConstructor(prototype);
  const what = maker ? `an instance of class ${maker.name || "(anonymous)"}` : "an object with a custom prototype";
  if (types.isPromise(value)) return "a Promise";
  if (types.isProxy(value)) return `a Proxy around ${what}`;
  if (types.isBoxedPrimitive(value)) return `${what}, a boxed primitive`;
  if (prototype === null) return what;
  return isStorable && findKind(prototype) !== undefined ? `an object that only pretends to be ${what}` : what;
}

const ADVICE =
  "Save plain data in its place, or use a schema with a codec for the class (`z.codec`). Give a state's schema to the manager, and a step's schema to the step.";

/**
 * Returns advice for the caller about a refused object.
 *
 * @param advice - The advice unless the object is a Promise or a Proxy.
 */
export function adviceFor(value: object, advice: string = ADVICE): string {
  if (types.isPromise(value)) return "Await it first.";
  return types.isProxy(value) ? "Save the object that it wraps." : advice;
}

export function isEnumerable(value: object, key: PropertyKey): boolean {
  return Object.prototype.propertyIsEnumerable.call(value, key);
}

/**
 * Node's own classes that are written in JavaScript. {@link nameOfIntrinsic} doesn't recognise them, since `toString`
 * shows their source. All realms share them.
 */
const WRITTEN_IN_JAVASCRIPT: ReadonlyMap<object, string> = new Map<object, string>([
  [URL.prototype, "URL"],
  [Buffer.prototype, "Buffer"],
  [DOMException.prototype, "DOMException"],
]);

/**
 * Returns the name of the engine's class with this `prototype`, in any realm. Such a class is recognised by `toString`,
 * since only the engine's own functions print as native code.
 */
function nameOfIntrinsic(prototype: object): string | undefined {
  const maker = findConstructor(prototype);
  if (maker === undefined || maker.prototype !== prototype) return undefined;
  const isNative = Function.prototype.toString.call(maker) === `function ${maker.name}() { [native code] }`;
  return isNative ? maker.name : undefined;
}

function findConstructor(prototype: object): { readonly name: string; readonly prototype: unknown } | undefined {
  const maker: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  return typeof maker === "function" ? maker : undefined;
}
