import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeJson, encodeJson } from "../../../src/codec/json.js";
import { StateNotSerializableError } from "../../../src/contract/errors.js";
import { difference } from "./difference.js";
import { follow } from "./follow.js";

const MAX = 64 * 1024 * 1024;

/** What every refusable value of a run ends in: what a refusal's path must lead to. */
const culprits = new Set<unknown>();
function culprit<Value>(value: Value): Value {
  culprits.add(value);
  return value;
}

/** Any UTF-16, lone surrogates too. */
const text = fc.oneof(
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

const leaf: fc.Arbitrary<unknown> = fc.oneof(
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

const refusable: fc.Arbitrary<unknown> = fc
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

function withOwn(target: object, entries: readonly (readonly [string, unknown])[]): object {
  for (const [name, value] of entries) {
    Object.defineProperty(target, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return target;
}

/** Values of every kind, out of those leaves. */
function valuesOf(leaves: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
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
        // Twice the same object.
        value.map((each) => ({ each, again: each })),
      ),
      entries: fc.uniqueArray(fc.tuple(key, value), { maxLength: 4, selector: ([name]) => name }),
    };
  });
  return value;
}

/** Plain data, as the many states are that need no tag; getters and Proxies among it. */
const plain = fc.letrec<{ value: unknown }>((tie) => ({
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

describe("any value", () => {
  it("comes back as it was, by canonical and well-formed text, each time anew", () => {
    fc.assert(
      fc.property(valuesOf(leaf), (value) => {
        const { encoding, text: encoded } = encodeJson(value, MAX);
        expect(JSON.stringify(JSON.parse(encoded))).toBe(encoded);
        expect(encoded).not.toMatch(/\p{Surrogate}/u);

        const one = decodeJson(encoding, encoded);
        const two = decodeJson(encoding, encoded);
        expect(difference(one, value)).toBeUndefined();
        // Nothing is shared: the comparison calls the same object on both sides a difference.
        expect(difference(one, two)).toBeUndefined();
        expect(encodeJson(one, MAX)).toEqual({ encoding, text: encoded });
      }),
      { numRuns: 1500 },
    );
  });

  it("is written as JSON.stringify writes it wherever the encoding is json", () => {
    let untagged = 0;
    fc.assert(
      fc.property(fc.oneof(plain, valuesOf(leaf)), (value) => {
        const { encoding, text: encoded } = encodeJson(value, MAX);
        if (encoding === "json") {
          untagged++;
          expect(encoded).toBe(JSON.stringify(value));
        }
        expect(encoding === "json-tagged").toBe(encoded.includes('"$waymark":'));
      }),
      { numRuns: 1500 },
    );
    expect(untagged).toBeGreaterThan(200);
  });

  it("comes back as it was, or is refused with the path of the culprit", () => {
    const seen = { refused: 0, kept: 0 };
    fc.assert(
      fc.property(valuesOf(fc.oneof({ arbitrary: leaf, weight: 6 }, { arbitrary: refusable, weight: 1 })), (value) => {
        let encoded: ReturnType<typeof encodeJson>;
        try {
          encoded = encodeJson(value, MAX);
        } catch (error) {
          if (!(error instanceof StateNotSerializableError)) throw error;
          expect(culprits).toContain(follow(value, error.path));
          seen.refused++;
          return;
        }
        seen.kept++;
        expect(difference(decodeJson(encoded.encoding, encoded.text), value)).toBeUndefined();
      }),
      { numRuns: 1500 },
    );
    expect(seen.refused).toBeGreaterThan(200);
    expect(seen.kept).toBeGreaterThan(200);
  });

  it("is refused as too large, and never stored, with one byte less than it needs", () => {
    fc.assert(
      fc.property(valuesOf(leaf), (value) => {
        const bytes = Buffer.byteLength(encodeJson(value, MAX).text);
        expect(Buffer.byteLength(encodeJson(value, bytes).text)).toBe(bytes);
        expect(() => encodeJson(value, bytes - 1)).toThrow(/more than/);
      }),
      { numRuns: 300 },
    );
  });
});
