import { describe, expect, it } from "vitest";
import { decodeJson, encodeJson } from "../../../src/codec/json.js";
import { CheckpointCorruptError, UnsupportedFormatError } from "../../../src/contract/errors.js";

const tag = ($waymark: unknown, value?: unknown, more?: object) => ({ $waymark, value, ...more });

describe("a text that no encoder wrote", () => {
  it.each<[string, unknown]>([
    ["a tag whose name is no string", tag(1)],
    ["a tag with a further key", tag("Date", null, { extra: 1 })],
    ["a tag with a key __proto__", JSON.parse('{"$waymark":"Date","value":null,"__proto__":{}}')],
    ["undefined with a value", tag("undefined", 1)],
    ["a hole outside of an array", { a: tag("hole") }],
    ["a hole with a value", [tag("hole", 1)]],
    ["a number that JSON has", tag("number", "1")],
    ["a number without a value", tag("number")],
    ["an invalid BigInt", tag("BigInt", "1.5")],
    ["a BigInt as a number", tag("BigInt", 1)],
    ["a date as a number", tag("Date", 5)],
    ["an invalid date", tag("Date", "2026-02-31T00:00:00.000Z")],
    ["a date in another notation", tag("Date", "2026-02-01")],
    ["a date without a value", tag("Date")],
    ["a regular expression without flags", tag("RegExp", { source: "a" })],
    ["a regular expression with more", tag("RegExp", { source: "a", flags: "", more: 1 })],
    ["a regular expression that is a string", tag("RegExp", "a")],
    ["an invalid URL", tag("URL", "no url")],
    ["a URL that is no string", tag("URL", null)],
    ["a Map that is an object", tag("Map", {})],
    ["a Map with an entry of three", tag("Map", [[1, 2, 3]])],
    ["a Map with an entry that is no array", tag("Map", ["ab"])],
    [
      "a Map with a key twice",
      tag("Map", [
        ["a", 1],
        ["a", 2],
      ]),
    ],
    ["a Set that is a string", tag("Set", "ab")],
    ["a Set with an item twice", tag("Set", [1, 1])],
    ["bytes that are no string", tag("Uint8Array", [1, 2])],
    ["bytes that are no base64", tag("Uint8Array", "ab!=")],
    ["bytes in base64 that is cut short", tag("Buffer", "abc")],
    ["bytes in base64 with padding alone", tag("ArrayBuffer", "==")],
    ["bytes in base64 with stray bits", tag("DataView", "ab==")],
    ["a typed array of half an element", tag("Float64Array", Buffer.alloc(12).toString("base64"))],
    ["an error that is a string", tag("Error", "x")],
    ["an error without a class", tag("Error", { message: "x" })],
    ["an error with a further key", tag("Error", { class: "Error", more: 1 })],
    ["an error whose properties are a list", tag("Error", { class: "Error", props: [] })],
    ["an error whose properties are a string", tag("Error", { class: "Error", props: "x" })],
    ["a DOMException without a name", tag("Error", { class: "DOMException", message: "x" })],
    ["an object that is a list", tag("Object", [])],
    ["an object without a prototype that is null", tag("NullObject", null)],
  ])("is corrupt: %s", (_what, node) => {
    const context = { taskId: "t", id: "c7", stateVersion: 1 };
    const text = JSON.stringify({ list: [node] });
    const decode = () => decodeJson("json-tagged", text, context);
    expect(decode).toThrow(CheckpointCorruptError);
    expect(decode).toThrow(/^Checkpoint c7 of task "t" can't be loaded: .*left untouched/);
  });

  it.each(["{", "", "[1,]", "nul", '{"a":1}x'])("is corrupt if it isn't JSON: %j", (text) => {
    for (const encoding of ["json", "json-tagged"] as const) {
      expect(() => decodeJson(encoding, text)).toThrow(CheckpointCorruptError);
    }
  });

  it.each<[string, unknown]>([
    ["a tag", tag("Temporal.Instant", "2026-11-21T22:14:00Z")],
    ["a tag named like a member of every object", tag("constructor", "")],
    ["a tag named like another", tag("__proto__", "")],
    ["a class of errors", tag("Error", { class: "SuppressedError" })],
    ["a regular expression", tag("RegExp", { source: "(?future:a)", flags: "" })],
    ["a flag of a regular expression", tag("RegExp", { source: "a", flags: "q" })],
  ])("counts as a newer version's if it has %s that is unknown here", (_what, node) => {
    expect(() => decodeJson("json-tagged", JSON.stringify([node]))).toThrow(UnsupportedFormatError);
  });

  it("is decoded in time even if it is nothing but holes", () => {
    const { encoding, text } = encodeJson(new Array(50_000), 16 * 1024 * 1024);
    const value = decodeJson(encoding, text) as unknown[];
    expect(value.length).toBe(50_000);
    expect(Object.keys(value)).toEqual([]);
  });

  it("stays unchanged if the encoding says that it has no tags", () => {
    expect(decodeJson("json", '{"$waymark":"Date"}')).toEqual({ $waymark: "Date" });
  });
});
