import { describe, expect, it } from "vitest";
import { utf8Of } from "../../../src/contract/utf8.js";

describe("a text's bytes", () => {
  it("are what Buffer.from gives, of short and long texts", () => {
    for (const text of [
      "",
      "a",
      "ä✓😀",
      "\ud800 \udc00",
      "✓".repeat(21_845),
      "✓".repeat(21_846),
      "a".repeat(200_000),
    ]) {
      expect(utf8Of(text).equals(Buffer.from(text))).toBe(true);
    }
  });

  it("stay as they are when the next text is encoded", () => {
    const first = utf8Of("first");
    utf8Of("other");
    expect(first.toString()).toBe("first");
  });
});
