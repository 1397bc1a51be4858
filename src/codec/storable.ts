/** Stands in the compiler's message for the type of a value that can't be stored. No value has it. */
export interface CannotBeStored<What extends string> {
  readonly "can't be stored": What;
}

/**
 * A parameter of type `T & Storable<T>` takes what the codec can store, and refuses functions, symbols and Promises where
 * they stand. It doesn't look into Maps and Sets. It takes `unknown`, `any` and type parameters, which only the codec can
 * check. An instance of a class is refused for its methods; if it has none, only the codec refuses it.
 */
export type Storable<T> = [FlawOf<T>] extends ["function"]
  ? CannotBeStored<"a function">
  : [FlawOf<T>] extends ["symbol"]
    ? CannotBeStored<"a symbol">
    : [FlawOf<T>] extends ["promise"]
      ? CannotBeStored<"a Promise: await it first">
      : [FlawOf<T>] extends ["in members"]
        ? StorableParts<T>
        : unknown;

/**
 * What may keep a `T` from being stored. While `T` is a type parameter, TypeScript takes `any` for it to find which
 * branches of {@link Storable} are possible. For `any` this is "none", so a type parameter counts as storable.
 */
type FlawOf<T> = [T] extends [Whole]
  ? "none"
  : [unknown] extends [T]
    ? "none"
    : [Extract<T, AnyFunction>] extends [never]
      ? [Extract<T, symbol>] extends [never]
        ? [Extract<T, PromiseLike<unknown>>] extends [never]
          ? "in members"
          : "promise"
        : "symbol"
      : "function";

/** TypeScript resolves items and members one by one, so a type may contain itself. */
type StorableParts<T> = T extends Whole
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Storable<Item>[]
    : { readonly [Key in keyof T]: Storable<T[Key]> };

type AnyFunction = ((...args: never[]) => unknown) | (abstract new (...args: never[]) => unknown);

/** Primitive values, and the built-in objects that the codec stores. */
type Whole =
  | string
  | number
  | boolean
  | bigint
  | null
  | undefined
  // biome-ignore lint/suspicious/noConfusingVoidType: a function without a result returns it, and it is stored as undefined.
  | void
  | Date
  | RegExp
  | URL
  | Error
  | ArrayBuffer
  | ArrayBufferView
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>;

/** The states that may be saved: of the type that the manager saves; if that is unknown, all that can be stored. */
export type StateToSave<Saved, Given> = [unknown] extends [Saved] ? Given & NoInfer<Storable<Given>> : Saved;
