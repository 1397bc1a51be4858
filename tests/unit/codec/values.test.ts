import { createContext, runInContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { decodeJson, encodeJson } from "../../../src/codec/json.js";
import { difference } from "./difference.js";

const MAX = 1024 * 1024;

function roundTrip(value: unknown): unknown {
  const { encoding, text } = encodeJson(value, MAX);
  expect(JSON.stringify(JSON.parse(text))).toBe(text);
  return decodeJson(encoding, text);
}

/** An object's own property with any name, even "__proto__". */
function owning(entries: Record<string, unknown> | [string, unknown][], target: object = {}): object {
  for (const [key, value] of Array.isArray(entries) ? entries : Object.entries(entries)) {
    Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
  }
  return target;
}

class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status = 503;
}
class ParseError extends SyntaxError {}
class NamedByPrototype extends Error {}
Object.defineProperty(NamedByPrototype.prototype, "name", { value: "Named" });

const expression = /a+(?<word>\w)\/"/giu;
expression.lastIndex = 7;

const shared = new ArrayBuffer(64);
new Uint8Array(shared).forEach((_, i, bytes) => {
  bytes[i] = i * 5;
});

const survivors: [string, unknown][] = [
  ["a date", new Date("2026-11-21T22:14:00.123Z")],
  ["a date far away", new Date(-8.64e15)],
  ["an invalid date", new Date(Number.NaN)],
  [
    "a Map with keys of every kind",
    new Map<unknown, unknown>([
      ["a", 1],
      [{ id: 1 }, [2]],
      [Number.NaN, undefined],
      [null, new Map()],
    ]),
  ],
  ["an empty Map", new Map()],
  ["a Set", new Set<unknown>(["a", { b: 1 }, undefined, 1n])],
  ["an empty Set", new Set()],
  ["a BigInt", 12345678901234567890n],
  ["a negative BigInt", -5n],
  ["BigInt 0", 0n],
  ["a BigInt of a thousand digits", 10n ** 1000n - 1n],
  ["a BigInt of more than a thousand digits", 10n ** 1000n],
  ["a negative BigInt of more than a thousand digits", -(7n ** 2000n)],
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
  ["-0", -0],
  ["numbers at the ends of their range", [0, 5e-324, 1.7976931348623157e308, 1e21, 2 ** 53]],
  ["undefined at the top", undefined],
  ["undefined as a property and as an item", { a: undefined, b: [undefined] }],
  // biome-ignore lint/suspicious/noSparseArray: holes are what this is about.
  ["holes, the last one too", [, 1, , undefined, ,]],
  ["an array of nothing but holes", new Array(5)],
  ["a long array of nothing but holes", new Array(5000)],
  ["a long array", Object.assign(Array(5000).fill(1), { 1: -0, 2: undefined, 3: [1n] })],
  ["a regular expression with its lastIndex", expression],
  ["an empty regular expression", /(?:)/],
  ["a regular expression whose lastIndex is no number", Object.assign(/a/g, { lastIndex: { at: -0 } })],
  ["a URL", new URL("https://user:pass@example.com:8080/a%20b?q=ä#h")],
  ["an error", new Error("It broke")],
  ["an error without a message", new Error()],
  ["an error with a cause", new Error("outer", { cause: new TypeError("inner", { cause: { retries: 3 } }) })],
  ["an error whose cause is there, and undefined", new Error("outer", { cause: undefined })],
  ["an error with a code and more", Object.assign(new Error("ENOENT"), { code: "ENOENT", errno: -2, at: new Date(0) })],
  ["an error without a stack", withoutStack()],
  ["an error with a property named __proto__", owning([["__proto__", { polluted: true }]], new Error("x"))],
  ["an error with an enumerable message and name", owning({ message: "m", name: "n" }, new Error("x"))],
  ["an AggregateError", new AggregateError([new Error("a"), "b", undefined], "all failed", { cause: 1 })],
  ...[EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((type): [string, unknown] => [
    `a ${type.name}`,
    new type("m"),
  ]),
  ["the DOMException of an aborted signal", AbortSignal.abort().reason],
  ["a DOMException with more", Object.assign(new DOMException("m", "TimeoutError"), { attempt: 2 })],
  ["an ArrayBuffer", shared.slice(3, 20)],
  ["an empty ArrayBuffer", new ArrayBuffer(0)],
  ["a DataView", new DataView(shared.slice(1, 9))],
  ["a Buffer", Buffer.from("häßlich")],
  ["an empty Buffer", Buffer.alloc(0)],
  ["a large Buffer", Buffer.alloc(5000, 7)],
  ...[
    Int8Array,
    Uint8Array,
    Uint8ClampedArray,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
  ].map((type): [string, unknown] => [`a ${type.name}`, new type(shared.slice(0, 48))]),
  ["a typed array too large to list its keys", new Float64Array(3000).fill(Number.NaN)],
  ["an object without a prototype", Object.assign(Object.create(null), { a: 1, $waymark: "Date" })],
  ["an empty object without a prototype", Object.create(null)],
  [
    "__proto__ and constructor as keys",
    owning([
      ["__proto__", { polluted: true }],
      ["constructor", { prototype: 1 }],
    ]),
  ],
  ["__proto__ as a key of an object without a prototype", owning([["__proto__", [undefined]]], Object.create(null))],
  ["__proto__ as a key whose value needs a tag", owning([["__proto__", undefined]])],
  ["data that looks like a tag", { $waymark: "Date", value: "2026-11-21T22:14:00.000Z" }],
  ["data that looks like an escaped tag", { $waymark: "Object", value: { $waymark: "hole" } }],
  ["a list of data that looks like holes", [{ $waymark: "hole" }, { $waymark: "undefined" }]],
  ["keys that look like numbers", { 10: "a", 2: "b", x: "c", "01": "d", "-1": "e", 4294967295: "f", 4294967294: "g" }],
  ["lone surrogates, in keys too", { "\ud800": "\udfff x", ok: "😀", "\u2028": '\u0000\u001f\u007f"\\' }],
];

function withoutStack(): Error {
  const error = new Error("no stack");
  delete error.stack;
  return error;
}

describe("a decoded value", () => {
  it.each(survivors)("is the saved value: %s", (_name, value) => {
    expect(difference(roundTrip(value), value)).toBeUndefined();
    expect(difference(roundTrip({ list: [value, { value }] }), { list: [value, { value }] })).toBeUndefined();
  });

  it("never sets a prototype by way of a key", () => {
    const value = roundTrip(
      owning([
        ["__proto__", { polluted: true }],
        ["since", new Date(0)],
      ]),
    );
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value as object)).toEqual(["__proto__", "since"]);
    expect("polluted" in (value as object)).toBe(false);
  });

  it("is an Error with its name and properties if the class was the caller's own", () => {
    const error = roundTrip(new HttpError("unavailable")) as Error;
    expect(Object.getPrototypeOf(error)).toBe(Error.prototype);
    expect(error).toMatchObject({ name: "HttpError", message: "unavailable", status: 503 });
    expect(Object.keys(error)).toEqual(["name", "status"]);
  });

  it("is the nearest built-in class of an error's own class", () => {
    const error = roundTrip(new ParseError("x")) as Error;
    expect(Object.getPrototypeOf(error)).toBe(SyntaxError.prototype);
    expect(error.name).toBe("SyntaxError");
  });

  it("keeps a name that an error had from its prototype", () => {
    const error = roundTrip(new NamedByPrototype("x")) as Error;
    expect(String(error)).toBe("Named: x");
    expect(Object.keys(error)).toEqual([]);
  });

  it("is a Buffer with its own memory, not with the pool that it came from", () => {
    const buffer = roundTrip(Buffer.from("abc")) as Buffer;
    expect(Buffer.isBuffer(buffer)).toBe(true);
    expect(buffer.buffer.byteLength).toBe(3);
  });

  it("is only a view's own part of the memory behind it", () => {
    const view = roundTrip(new Uint16Array(shared, 4, 3)) as Uint16Array;
    expect([...view]).toEqual([...new Uint16Array(shared, 4, 3)]);
    expect(view.buffer.byteLength).toBe(6);
  });

  it("is two equal copies of a shared value", () => {
    const one = { when: new Date(1) };
    const [a, b] = roundTrip([one, one]) as [object, object];
    expect(a).toEqual(b);
    expect(a).not.toBe(b);
  });

  it("is the value that a getter gave, read once", () => {
    let reads = 0;
    const value = {
      get count() {
        reads++;
        return reads;
      },
    };
    expect(difference(roundTrip(value), { count: 1 })).toBeUndefined();
    expect(reads).toBe(1);
  });

  it("is the value that a Proxy's traps give", () => {
    const proxy = new Proxy({ a: 1, b: [2] }, { get: (target, key) => (key === "a" ? -0 : Reflect.get(target, key)) });
    expect(difference(roundTrip(proxy), { a: -0, b: [2] })).toBeUndefined();
    expect(difference(roundTrip(new Proxy([1, undefined], {})), [1, undefined])).toBeUndefined();
  });

  it("has a Proxy's keys in the order of plain objects, whatever the Proxy says", () => {
    const proxy = new Proxy({ a: 1, 7: 2, 3: 3 }, { ownKeys: () => ["a", "7", "3"] });
    expect(encodeJson(proxy, MAX).text).toBe('{"3":3,"7":2,"a":1}');
  });

  it("belongs to this realm even if another realm made the value", () => {
    const foreign: unknown = runInContext(
      `({
        list: [1, , { a: new Date(5) }], map: new Map([["k", new Set([1n])]]), expression: /x/g,
        error: new RangeError("far", { cause: 1 }), all: new AggregateError([1], "m"), bare: Object.create(null),
        bytes: new Uint8Array([1, 2]), floats: new Float32Array([1.5]), buffer: new ArrayBuffer(2), view: new DataView(new ArrayBuffer(1)),
      })`,
      createContext(),
    );
    const value = roundTrip(foreign) as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(value["error"]).toMatchObject({ name: "RangeError", message: "far", cause: 1 });
    expect(value["error"]).toBeInstanceOf(RangeError);
    expect(value["all"]).toBeInstanceOf(AggregateError);
    const { error: _error, all: _all, ...rest } = value;
    const expected = {
      // biome-ignore lint/suspicious/noSparseArray: holes are what this is about.
      list: [1, , { a: new Date(5) }],
      map: new Map([["k", new Set([1n])]]),
      expression: /x/g,
      bare: Object.create(null),
      bytes: new Uint8Array([1, 2]),
      floats: new Float32Array([1.5]),
      buffer: new ArrayBuffer(2),
      view: new DataView(new ArrayBuffer(1)),
    };
    expect(difference(rest, expected)).toBeUndefined();
  });

  it("shares nothing between two decodes, not even memory", () => {
    const { encoding, text } = encodeJson(
      [Buffer.from("ab"), new Uint8Array(3), { d: new Date(0) }, new Map([["a", {}]])],
      MAX,
    );
    const [one, two] = [decodeJson(encoding, text), decodeJson(encoding, text)] as [Buffer[], Buffer[]];
    expect(difference(one, two)).toBeUndefined();
    expect(one[0]!.buffer).not.toBe(two[0]!.buffer);
    expect(one[1]!.buffer).not.toBe(two[1]!.buffer);
  });

  it("comes from the text that JSON.stringify would write, for plain data", () => {
    const state = { a: [1, "x", null, true, { b: {} }, []], "": 0, 'k"': "é\n", toJSON: "data" };
    expect(encodeJson(state, MAX)).toEqual({ encoding: "json", text: JSON.stringify(state) });
  });

  it("is complete, and its bytes are counted exactly, if the text is long", () => {
    const state = Array.from({ length: 4000 }, (_, i) => ({
      id: `m${i}`,
      text: "😀ä".repeat(i % 9),
      n: [i / 7, "\ud83d"],
    }));
    const text = JSON.stringify(state);
    const bytes = Buffer.byteLength(text);
    expect(encodeJson(state, bytes)).toEqual({ encoding: "json", text });
    expect(() => encodeJson(state, bytes - 1)).toThrow(/more than/);
  });

  it("comes in readable tags", () => {
    expect(encodeJson({ at: new Date(0), u: undefined, n: -0, m: new Map([["a", 1n]]) }, MAX)).toEqual({
      encoding: "json-tagged",
      text: JSON.stringify({
        at: { $waymark: "Date", value: "1970-01-01T00:00:00.000Z" },
        u: { $waymark: "undefined" },
        n: { $waymark: "number", value: "-0" },
        m: { $waymark: "Map", value: [["a", { $waymark: "BigInt", value: "1" }]] },
      }),
    });
    expect(encodeJson({ $waymark: 1 }, MAX).text).toBe('{"$waymark":"Object","value":{"$waymark":1}}');
  });
});
