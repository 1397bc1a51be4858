import { describe, expect, it } from "vitest";
import { decodeJson, encodeJson } from "../../../src/codec/json.js";
import { PayloadTooLargeError, StateNotSerializableError } from "../../../src/contract/errors.js";
import { follow } from "./follow.js";

const MAX = 1024 * 1024;

function refusalOf(value: unknown, maxBytes = MAX): StateNotSerializableError {
  try {
    encodeJson(value, maxBytes);
  } catch (error) {
    if (error instanceof StateNotSerializableError) return error;
    throw error;
  }
  throw new Error("It was accepted.");
}

class Session {
  id = 1;
}
class Timeline extends Map {}

const looksLikeMap = {
  get [Symbol.toStringTag]() {
    return "Map";
  },
};
const hiddenOnObject = Object.defineProperty({ a: 1 }, "secret", { value: 1, enumerable: false });
const revoked = Proxy.revocable({}, {});
revoked.revoke();
const detached = new Uint8Array(8);
structuredClone(detached, { transfer: [detached.buffer] });

const culprits: [what: string, value: unknown, path: string, message: RegExp][] = [
  ["a function", { messages: [1, 2, 3, { onDone() {} }] }, "$.messages[3].onDone", /is a function/],
  ["an object with toJSON", { at: { toJSON: () => "x" } }, "$.at.toJSON", /is a function/],
  ["a symbol", { a: Symbol("s") }, "$.a", /is a symbol/],
  ["a property with a symbol as its key", { a: { [Symbol("tag")]: 1 } }, "$.a[Symbol(tag)]", /a symbol as its key/],
  ["a symbol at the top", Symbol.iterator, "$", /\$ is a symbol/],
  ["a class instance", { s: [new Session()] }, "$.s[0]", /an instance of class Session\..*codec/],
  ["an instance of a class without a name", [new (class {})()], "$[0]", /class \(anonymous\)/],
  ["an object with a custom prototype", { a: Object.create({ b: 1 }) }, "$.a", /a custom prototype/],
  ["an object whose prototype is a bare one", { a: Object.create(Object.create(null)) }, "$.a", /a custom prototype/],
  ["a subclass of Map", { t: new Timeline() }, "$.t", /class Timeline/],
  ["a subclass of Array", [new (class List extends Array {})()], "$[0]", /class List/],
  ["a subclass of Date", [new (class Day extends Date {})()], "$[0]", /class Day/],
  ["a subclass of Uint8Array", [new (class Bytes extends Uint8Array {})(1)], "$[0]", /class Bytes/],
  ["a boxed primitive", { n: Object(1) }, "$.n", /boxed primitive/],
  ["a Promise", { p: Promise.resolve(1) }, "$.p", /is a Promise\. .*Await it first/],
  ["a WeakMap", { w: new WeakMap() }, "$.w", /\$\.w is an instance of class WeakMap\./],
  ["URLSearchParams", new URLSearchParams("a=1"), "$", /class URLSearchParams/],
  ["a generator", { *[Symbol.iterator]() {} }[Symbol.iterator](), "$", /a custom prototype/],
  ["an array whose prototype was replaced", [Object.setPrototypeOf([1], Object.prototype)], "$[0]", /class Object/],
  ["an object with a fake toStringTag", { m: looksLikeMap }, "$.m[Symbol(Symbol.toStringTag)]", /a symbol as its key/],
  ["an object that only pretends to be a Date", { d: Object.create(Date.prototype) }, "$.d", /pretends to be .* Date/],
  ["an object that only pretends to be an error", { d: Object.create(TypeError.prototype) }, "$.d", /pretends/],
  ["an object that only pretends to be a URL", { d: Object.create(URL.prototype) }, "$.d", /not readable/],
  [
    "an error of no class of errors",
    [Object.setPrototypeOf(new Error("x"), Session.prototype)],
    "$[0]",
    /class Session/,
  ],
  ["a Proxy around a Map", { m: new Proxy(new Map(), {}) }, "$.m", /a Proxy around an instance of class Map/],
  ["a revoked Proxy", { a: [revoked.proxy] }, "$.a[0]", /not readable \(.*revoked/],
  ["a non-enumerable property", { a: hiddenOnObject }, "$.a.secret", /non-enumerable/],
  [
    "an extra property of an array",
    { a: Object.assign([1, 2], { note: 1 }) },
    "$.a.note",
    /an extra property of an Array/,
  ],
  ["an extra property of a long array", [Object.assign(Array(5000).fill(1), { note: 1 })], "$[0].note", /of an Array/],
  ["a match of a regular expression", { m: /b/.exec("abc") }, "$.m.index", /an extra property/],
  [
    "a property of an array with a symbol as its key",
    [Object.assign([], { [Symbol("x")]: 1 })],
    "$[0][Symbol(x)]",
    /an extra/,
  ],
  ["an extra property of a Map", [Object.assign(new Map(), { note: 1 })], "$[0].note", /an extra property .* Map/],
  ["an extra property of a Set", [Object.assign(new Set(), { note: 1 })], "$[0].note", /an extra property .* Set/],
  ["an extra property of a Date", [Object.assign(new Date(), { note: 1 })], "$[0].note", /an extra property .* Date/],
  ["an extra property of a RegExp", [Object.assign(/a/, { note: 1 })], "$[0].note", /an extra property .* RegExp/],
  ["an extra property of a URL", [Object.assign(new URL("a:b"), { note: 1 })], "$[0].note", /an extra property .* URL/],
  ["an extra property of a Buffer", [Object.assign(Buffer.from("abc"), { note: 1 })], "$[0].note", /Buffer/],
  [
    "an extra property of a DataView",
    [Object.assign(new DataView(new ArrayBuffer(2)), { note: 1 })],
    "$[0].note",
    /DataView/,
  ],
  [
    "an extra property of a large typed array",
    [Object.assign(new Float32Array(5000), { note: 1 })],
    "$[0].note",
    /Float32Array/,
  ],
  ["an extra property of a large Buffer", [Object.assign(Buffer.alloc(5000), { note: 1 })], "$[0].note", /Buffer/],
  ["an extra property of an ArrayBuffer", [Object.assign(new ArrayBuffer(1), { note: 1 })], "$[0].note", /ArrayBuffer/],
  [
    "a property of an error with a symbol as its key",
    { e: Object.assign(new Error("x"), { [Symbol("k")]: 1 }) },
    "$.e[Symbol(k)]",
    /symbol/,
  ],
  ["a function on an error", { e: Object.assign(new Error("x"), { retry() {} }) }, "$.e.retry", /a function/],
  ["a function in an error's cause", { e: new Error("x", { cause: [() => 1] }) }, "$.e.cause[0]", /a function/],
  ["a function in an AggregateError", new AggregateError([1, () => 1]), "$.errors[1]", /a function/],
  [
    "a function as a regular expression's lastIndex",
    Object.assign(/a/, { lastIndex: () => 1 }),
    "$.lastIndex",
    /a function/,
  ],
  ["shared memory", { s: new SharedArrayBuffer(4) }, "$.s", /class SharedArrayBuffer/],
  ["a detached view", { d: detached }, "$.d", /not readable/],
  ["something under a key that is no identifier", { "a b": { '"': () => 1 } }, '$["a b"]["\\""]', /a function/],
  ["something under a Map's string key", { m: new Map([["alice", [() => 1]]]) }, '$.m.get("alice")[0]', /a function/],
  [
    "something under a Map's other key",
    new Map<unknown, unknown>([
      ["a", 1],
      [7, () => 1],
    ]),
    "$.values()[1]",
    /a function/,
  ],
  [
    "a Map's key",
    new Map<unknown, unknown>([
      ["a", 1],
      [() => 1, 2],
    ]),
    "$.keys()[1]",
    /a function/,
  ],
  ["something in a Set", { s: new Set([1, { f() {} }]) }, "$.s.values()[1].f", /a function/],
];

describe("a refused value", () => {
  it.each(culprits)("is %s, and the path leads to it", (_what, value, path, message) => {
    const error = refusalOf(value);
    expect(error.path).toBe(path);
    expect(error.message).toMatch(message);
    expect(error.message).toContain(`The state can't be saved: ${path} is `);
    expect(() => follow(value, path)).not.toThrow();
  });

  it("is a cycle, and the message says where it leads back to", () => {
    const parent: Record<string, unknown> = { name: "p" };
    parent["children"] = [{ parent }];
    const error = refusalOf({ root: parent });
    expect(error.path).toBe("$.root.children[0].parent");
    expect(error.message).toContain("is a cycle: it is the same object as $.root");
  });

  it("is a cycle through a Map, a Set or an error", () => {
    const map = new Map<string, unknown>();
    map.set("self", new Set([map]));
    expect(refusalOf(map).path).toBe('$.get("self").values()[0]');
    const error = new Error("x");
    error.cause = error;
    expect(refusalOf([error])).toMatchObject({
      path: "$[0].cause",
      message: expect.stringContaining("it is the same object as $[0]"),
    });
  });

  it("is a getter that throws, with its error as the cause", () => {
    const cause = new Error("no connection");
    const value = {
      a: {
        get b(): number {
          throw cause;
        },
      },
    };
    const error = refusalOf(value);
    expect(error).toMatchObject({ path: "$.a.b", cause });
    expect(error.message).toContain("not readable (no connection)");
  });

  it("is a getter that throws, even if it throws no Error, or one of ours", () => {
    const throwing = (thrown: unknown) =>
      Object.defineProperty({}, "x", {
        enumerable: true,
        get: () => {
          throw thrown;
        },
      });
    expect(refusalOf(throwing("text"))).toMatchObject({ path: "$.x", cause: "text" });
    const ours = new StateNotSerializableError("inner", "$.inner");
    expect(refusalOf(throwing(ours))).toMatchObject({ path: "$.x", cause: ours });
  });

  it("is an error of a Proxy's trap, under the path of the Proxy", () => {
    const cause = new Error("no keys");
    const proxy = new Proxy(
      {},
      {
        ownKeys: () => {
          throw cause;
        },
      },
    );
    expect(refusalOf({ p: proxy })).toMatchObject({ path: "$.p", cause });
  });

  it("is nested more than a thousand levels deep, and never less", () => {
    const nested = (levels: number) => {
      let value: unknown[] = [];
      for (let i = 1; i < levels; i++) value = [value];
      return value;
    };
    const { text } = encodeJson(nested(1000), MAX);
    expect(text).toBe("[".repeat(1000) + "]".repeat(1000));
    expect(JSON.stringify(JSON.parse(text))).toBe(text);
    const error = refusalOf(nested(1001));
    expect(error.path).toBe(`$${"[0]".repeat(1000)}`);
    expect(error.message).toMatch(/nested more than 1000 levels deep/);
    expect(error.message.length).toBeLessThan(600);
    expect(refusalOf(nested(100_000)).path).toBe(error.path);
  });

  it("is never a rich value within the allowed depth, whatever it holds", () => {
    let map = new Map<string, unknown>([
      ["x", undefined],
      ["y", -0],
    ]);
    let error = new Error("x", { cause: undefined });
    for (let i = 1; i < 334; i++) {
      map = new Map([["m", map]]);
      error = new Error("x", { cause: error });
    }
    for (const value of [map, error]) {
      const { encoding, text } = encodeJson(value, MAX);
      expect(JSON.stringify(JSON.parse(text))).toBe(text);
      expect(encodeJson(decodeJson(encoding, text), MAX).text).toBe(text);
    }
    expect(refusalOf(new Map([["m", map]])).message).toMatch(/levels deep/);
    expect(refusalOf(new Error("x", { cause: error })).message).toMatch(/levels deep/);
  });

  it("names the checkpoint when there is one", () => {
    const context = { taskId: 'build "42"', id: "c1", stateVersion: 1 };
    expect(() => encodeJson(() => 1, MAX, context)).toThrow(
      /^Checkpoint c1 of task "build \\"42\\"" can't be saved: \$ is a function/,
    );
    expect(() => encodeJson("long", 2, context)).toThrow(/^Checkpoint c1 of task .* more than 2 bytes/);
  });
});

describe("a value that is too large", () => {
  it("is one UTF-8 byte more than maxBytes", () => {
    for (const value of ["aaaa", "ää", "😀", { a: "ß" }, [1, 2], new Date(0), "\ud800", Buffer.from("abcd")]) {
      const { text } = encodeJson(value, MAX);
      const bytes = Buffer.byteLength(text);
      expect(encodeJson(value, bytes).text).toBe(text);
      expect(() => encodeJson(value, bytes - 1)).toThrow(PayloadTooLargeError);
    }
  });

  it("ends the walk of a graph that would explode", () => {
    let graph: unknown = "leaf";
    for (let i = 0; i < 200; i++) graph = [graph, graph];
    expect(() => encodeJson(graph, MAX)).toThrow(PayloadTooLargeError);
    let empty: unknown = [];
    for (let i = 0; i < 200; i++) empty = { a: empty, b: empty };
    expect(() => encodeJson(empty, MAX)).toThrow(PayloadTooLargeError);
  });

  it("ends the walk of an array with a length of billions", () => {
    expect(() => encodeJson(new Array(4_000_000_000), MAX)).toThrow(PayloadTooLargeError);
  });

  it("is refused before it becomes a large text, with its path", () => {
    expect(() => encodeJson({ a: [1, Buffer.alloc(MAX)] }, MAX)).toThrow(/exceeded at \$\.a\[1\]/);
    expect(() => encodeJson({ a: "x".repeat(MAX) }, MAX)).toThrow(/exceeded at \$\.a\)/);
  });

  it("is refused if a getter would have to make a string that is too long", () => {
    const value = {
      get a() {
        return "x".repeat(2 ** 30);
      },
    };
    expect(() => encodeJson(value, Number.MAX_SAFE_INTEGER)).toThrow(PayloadTooLargeError);
  });
});
