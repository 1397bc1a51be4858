import { expect, it } from "vitest";
import { PayloadTooLargeError, StateNotSerializableError } from "waymark";
import { encodePlainJson } from "../../../src/codec/json.js";

const MAX_BYTES = 1024 * 1024;

class Session {
  readonly id = 1;
}

it.each([
  [{ tasks: [{ id: "t1", done: false, cost: 1.5, parent: null, tags: ["a", "é\u2028", '"'] }] }],
  [{ $waymark: "Date", value: "data that looks like a tag" }],
  [{ a: undefined, b: { c: undefined }, d: [{ e: undefined, f: 1, g: undefined }], h: undefined }],
  [[]],
  ["text"],
])("writes %j exactly as JSON.stringify does", (value) => {
  expect(encodePlainJson(value, MAX_BYTES)).toBe(JSON.stringify(value));
});

it.each([
  [{ at: new Date() }, "$.at", "a Date"],
  [{ at: new Date(Number.NaN) }, "$.at", "a Date"],
  [{ list: [1, undefined] }, "$.list[1]", "undefined"],
  [undefined, "$", "undefined"],
  [{ list: new Array(2) }, "$.list[0]", "an empty slot of an array"],
  [{ n: Number.NaN }, "$.n", "NaN"],
  [{ n: Number.NEGATIVE_INFINITY }, "$.n", "-Infinity"],
  [{ n: -0 }, "$.n", "-0"],
  [{ n: 1n }, "$.n", "a BigInt"],
  [{ seen: new Set() }, "$.seen", "a Set"],
  [{ byId: new Map() }, "$.byId", "a Map"],
  [{ bytes: new Int8Array(2) }, "$.bytes", "an Int8Array"],
  [{ bytes: Buffer.from("x") }, "$.bytes", "a Buffer"],
  [{ error: new TypeError("x") }, "$.error", "an Error"],
  [{ where: new URL("https://example.org") }, "$.where", "a URL"],
  [{ what: /x/ }, "$.what", "a RegExp"],
  [{ dict: Object.create(null) }, "$.dict", "an object without a prototype"],
  [{ run() {} }, "$.run", "a function"],
  [{ session: new Session() }, "$.session", "an instance of class Session"],
])("refuses %o, and says where and what", (value, path, what) => {
  const encode = () => encodePlainJson(value, MAX_BYTES, { taskId: "b", id: "c1", stateVersion: 1 });
  expect(encode).toThrow(StateNotSerializableError);
  expect(encode).toThrow(expect.objectContaining({ path }));
  expect(encode).toThrow(`Checkpoint c1 of task "b" can't be saved: ${path} is ${what}`);
});

it("names the property whose getter throws", () => {
  const state = {
    none: undefined,
    get broken(): never {
      throw new Error("not now");
    },
  };
  expect(() => encodePlainJson(state, MAX_BYTES)).toThrow(/\$\.broken is not readable \(not now\)/);
});

it("refuses a value with too many bytes", () => {
  expect(() => encodePlainJson("x".repeat(100), 50)).toThrow(PayloadTooLargeError);
});
