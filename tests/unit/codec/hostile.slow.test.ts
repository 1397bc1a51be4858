import { expect, it } from "vitest";
import { decodeJson } from "../../../src/codec/json.js";
import { CheckpointCorruptError } from "../../../src/contract/errors.js";

it("a text is corrupt if it nests too deeply for any stack, in whatever way", () => {
  for (const [open, close] of [
    ["[", "]"],
    ['{"a":', "}"],
    ['{"$waymark":"Object","value":{"a":', "}}"],
    ['{"$waymark":"NullObject","value":{"a":', "}}"],
    ['{"$waymark":"Set","value":[', "]}"],
    ['{"$waymark":"Map","value":[[', ",1]]}"],
    ['{"$waymark":"RegExp","value":{"source":"","flags":"","lastIndex":', "}}"],
    ['{"$waymark":"Error","value":{"class":"Error","cause":', "}}"],
    ['{"$waymark":"Error","value":{"class":"Error","props":{"a":', "}}}"],
  ] as const) {
    const text = `${open.repeat(100_000)}1${close.repeat(100_000)}`;
    expect(() => decodeJson("json-tagged", text)).toThrow(CheckpointCorruptError);
  }
});
