/** Replaces the type of a value that can't be stored, for the compiler's message. No value has this type. */
export interface CannotBeStored<What extends string> {
  readonly "can't be stored": What;
}

/**
 * A parameter of type `T & Storable<T>` accepts what the codec can store. It refuses functions, symbols and Promises,
 * and the compiler's error is at their place. It doesn't check the contents of Maps and Sets. It accepts `unknown`,
 * `any` and type parameters, which only the codec can check. An instance of a class is refused for its methods; if it
 * has none, only the codec refuses it.
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
 * The reason why a `T` may not be storable. While `T` is a type parameter, TypeScript substitutes `any` for it to find
 * which branches of {@link Storable} are possible. For `any` the reason is "none", so a type parameter counts as
 * storable.
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

/** The type of a state to save: the type that the manager saves or, if that is unknown, any type that can be stored. */
export type StateToSave<Saved, Given> = [unknown] extends [Saved] ? Given & NoInfer<Storable<Given>> : Saved;
