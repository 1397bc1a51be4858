import { describe, expect, it } from "vitest";
import { encodeJson } from "../../../src/codec/json.js";
import { countValues, excessOf } from "../../../src/codec/json-excess.js";

const MIB = 1024 ** 2;
const filler = JSON.stringify("x".repeat(MIB));
const nested = (levels: number) => `[${filler},${"[".repeat(levels)}${"]".repeat(levels)}]`;

describe("a text of more than a megabyte", () => {
  it("nests too deep from beyond what is saved on, wherever that begins", () => {
    expect(excessOf(nested(1010))).toBeUndefined();
    expect(excessOf(nested(1100))).toBe("levels");
    expect(excessOf("[".repeat(2 * MIB))).toBe("levels");
    expect(excessOf('{"a":'.repeat(MIB))).toBe("levels");
    expect(excessOf("[{".repeat(MIB))).toBe("levels");
  });

  it("holds brackets, quotes and backslashes in its texts that are none", () => {
    for (const text of ["[".repeat(2 * MIB), '"['.repeat(MIB), "\\[".repeat(MIB), '\\"{'.repeat(MIB)]) {
      expect(excessOf(JSON.stringify({ [text]: text, list: [1] }), 6)).toBeUndefined();
    }
  });

  it("may be as deep as the deepest state that is saved, and as wide as there is room for", () => {
    let deepest: unknown[] = [filler];
    for (let level = 1; level < 1000; level++) deepest = [deepest];
    expect(excessOf(encodeJson(deepest, 4 * MIB).text)).toBeUndefined();
    expect(() => encodeJson([deepest], 4 * MIB)).toThrow(/1000 levels/);
    const widest = Array.from({ length: MIB }, () => []);
    expect(excessOf(encodeJson(widest, 4 * MIB).text)).toBeUndefined();
  });

  it("holds too many values where there are more than are asked for", () => {
    const text = `[${filler},[],{},0]`;
    expect(countValues(text)).toBe(6);
    expect(excessOf(text, 6)).toBeUndefined();
    expect(excessOf(text, 5)).toBe("values");
  });

  it("that isn't JSON is looked through to its end, and no further", () => {
    expect(excessOf(`"${"[".repeat(2 * MIB)}`)).toBeUndefined();
    expect(excessOf(`${"]".repeat(2 * MIB)}`)).toBeUndefined();
    expect(excessOf(`"${"x".repeat(2 * MIB)}\\`)).toBeUndefined();
  });
});

it("a text of a megabyte isn't looked through: whatever it holds takes little memory", () => {
  expect(excessOf("[".repeat(MIB))).toBeUndefined();
});
