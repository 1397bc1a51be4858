import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../../../src/contract/utf8.js";

describe("a text's bytes", () => {
  it("equal the result of Buffer.from, for short and long texts", () => {
    for (const text of [
      "",
      "a",
      "ä✓😀",
      "\ud800 \udc00",
      "✓".repeat(21_845),
      "✓".repeat(21_846),
      "a".repeat(200_000),
      "✓".repeat(1024 * 1024),
      "✓".repeat(1024 * 1024 + 1),
    ]) {
      expect(encodeUtf8(text).equals(Buffer.from(text))).toBe(true);
    }
  });

  it("stay as they are when the next text is encoded", () => {
    const first = encodeUtf8("first");
    encodeUtf8("other");
    expect(first.toString()).toBe("first");
  });
});
