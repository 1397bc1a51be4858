// Values of every kind that the codec supports, and of kinds that it refuses.
import fc from "fast-check";

/** The innermost parts of all values in a run that must be refused. A refusal's path must lead to one of them. */
export const culprits = new Set<unknown>();
function culprit<Value>(value: Value): Value {
  culprits.add(value);
  return value;
}

/** Any UTF-16 text, including lone surrogates. */
export const text = fc.oneof(
  fc.string(),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)), maxLength: 8 }),
  fc.constantFrom('"\\/', "\u2028", "\ud83d\ude00", "\ud83d", "\u0000"),
);
const key = fc.oneof(
  text,
  fc.constantFrom(
    "__proto__",
    "constructor",
    "toJSON",
    "$waymark",
    "lc",
    "type",
    "held",
    "value",
    "length",
    "then",
    "",
    "0",
    "1",
    "42",
    "01",
    "a b",
  ),
  fc.nat().map(String),
);
const number = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(-0, Number.NaN, Number.POSITIVE_INFINITY));
const plainLeaf = fc.oneof(text, number, fc.boolean(), fc.constant(null));
const bytes = fc.uint8Array({ maxLength: 24 });

export const leaf: fc.Arbitrary<unknown> = fc.oneof(
  plainLeaf,
  fc.constant(undefined),
  fc.bigInt(),
  fc.bigInt({ min: 10n ** 990n, max: 10n ** 1010n }),
  fc.date({ noInvalidDate: false }),
  bytes,
  fc.float32Array({ maxLength: 5 }),
  fc.bigInt64Array({ maxLength: 5 }),
  bytes.map((each) => Buffer.from(each)),
  bytes.map((each) => new Uint8ClampedArray(each)),
  bytes.map((each) => each.slice().buffer),
  bytes.map((each) => new DataView(each.slice().buffer)),
  fc.webUrl().map((url) => new URL(url)),
  fc
    .tuple(
      fc.constantFrom("a+", "(?<n>x)/y", "\\d{2}\n", ""),
      fc.subarray(["g", "i", "m", "s", "u", "y", "d"]),
      fc.nat(3),
    )
    .map(([source, flags, lastIndex]) => Object.assign(new RegExp(source, flags.join("")), { lastIndex })),
);

export const refusable: fc.Arbitrary<unknown> = fc
  .constantFrom(
    () => culprit(() => 1),
    () => culprit(Symbol("s")),
    () => culprit(new (class Session {})()),
    () => culprit(Object.create({})),
    () => culprit(Promise.resolve()),
    () => culprit(Object("boxed")),
    () => culprit(new (class Timeline extends Map {})()),
    () => culprit(new Proxy(new Date(), {})),
    () => ({ [Symbol("k")]: culprit({}) }),
    () => Object.assign([1], { extra: culprit({}) }),
    () => Object.assign(new Map(), { "an extra": culprit({}) }),
    () => Object.assign(Buffer.from("a"), { extra: culprit({}) }),
    () => Object.defineProperty({}, "hidden", { value: culprit({}) }),
    () => {
      const thrown = culprit(new Error("from the getter"));
      return Object.defineProperty({}, "get", {
        enumerable: true,
        get: () => {
          throw thrown;
        },
      });
    },
    () => {
      const cyclic: Record<string, unknown> = culprit({ n: 1 });
      cyclic["self"] = new Set([cyclic]);
      return cyclic;
    },
  )
  .map((make) => make());

export function withOwn(target: object, entries: readonly (readonly [string, unknown])[]): object {
  for (const [name, value] of entries) {
    Object.defineProperty(target, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return target;
}

/** Returns values of every kind, built from `leaves`. */
export function valuesOf(leaves: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const { value } = fc.letrec<{ value: unknown; entries: [string, unknown][] }>((tie) => {
    const value = tie("value");
    const entries = tie("entries");
    return {
      value: fc.oneof(
        { maxDepth: 4, depthSize: "small", withCrossShrink: true },
        leaves,
        fc.array(value, { maxLength: 4 }),
        entries.map((each) => withOwn({}, each)),
        entries.map((each) => withOwn(Object.create(null), each)),
        fc.array(fc.option(fc.tuple(value)), { maxLength: 5 }).map((items) => {
          const holey = new Array<unknown>(items.length);
          for (const [i, item] of items.entries()) if (item !== null) holey[i] = item[0];
          return holey;
        }),
        fc.array(fc.tuple(fc.oneof(text, value), value), { maxLength: 3 }).map((each) => new Map(each)),
        fc.array(value, { maxLength: 3 }).map((each) => new Set(each)),
        fc
          .record({
            type: fc.constantFrom(Error, TypeError, RangeError, SyntaxError),
            message: text,
            cause: fc.option(fc.tuple(value)),
            extras: entries,
            own: fc.subarray(["message", "stack"]),
          })
          .map(({ type, message, cause, extras, own }) => {
            const error = new type(message, cause === null ? undefined : { cause: cause[0] });
            for (const name of own) Reflect.deleteProperty(error, name);
            return withOwn(error, extras);
          }),
        fc.array(value, { maxLength: 2 }).map((errors) => new AggregateError(errors, "all")),
        value.map((each) => new Proxy([each], {})),
        // Contains the same object twice.
        value.map((each) => ({ each, again: each })),
      ),
      entries: fc.uniqueArray(fc.tuple(key, value), { maxLength: 4, selector: ([name]) => name }),
    };
  });
  return value;
}

/** Plain data that needs no tag, like most states. Includes getters and Proxies. */
export const plain = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    plainLeaf,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.uniqueArray(fc.tuple(key, tie("value")), { selector: ([name]) => name }).map((each) => withOwn({}, each)),
    tie("value").map((each) => ({
      get got() {
        return each;
      },
    })),
    tie("value").map((each) => new Proxy({ each }, {})),
  ),
})).value;
