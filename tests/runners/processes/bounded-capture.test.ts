import { describe, expect, it } from "vitest";
import { BoundedCapture, boundText } from "../../../runners/src/processes/bounded-capture.js";

function capture(maxBytes: number, chunks: (string | Buffer)[]): string {
  const captured = new BoundedCapture(maxBytes);
  for (const chunk of chunks) captured.push(Buffer.from(chunk as string));
  return captured.text();
}

describe("captured output", () => {
  it("is kept whole up to the bound", () => {
    expect(capture(10, ["12345", "", "67890"])).toBe("1234567890");
  });

  it("keeps its head and its tail beyond it, and reports how much was cut", () => {
    const lines = Array.from({ length: 10_000 }, (_, i) => `${i}\n`);

    expect(capture(20, lines)).toBe("0\n1\n2\n3\n4\n\n[… 48,870 bytes cut …]\n9998\n9999\n");
  });

  it("has the same result however the output is chunked", () => {
    const bytes = Buffer.from("äöü€😀".repeat(40));
    const whole = capture(51, [bytes]);

    expect(
      capture(
        51,
        [...bytes].map((byte) => Buffer.of(byte)),
      ),
    ).toBe(whole);
    expect(capture(51, [bytes.subarray(0, 60), bytes.subarray(60)])).toBe(whole);
  });

  it.each([2, 3, 4])("cuts no character of %d bytes in two", (length) => {
    const character = { 2: "ä", 3: "€", 4: "😀" }[length] ?? "";
    for (let max = 0; max < 40; max++) {
      const text = capture(max, [character.repeat(50)]);
      expect(text).not.toContain("\uFFFD");
      expect(text).toContain(`[… ${50 * length - max} bytes cut …]`);
    }
  });

  it("keeps only the count if the bound is 0", () => {
    expect(capture(0, ["abc"])).toBe("\n[… 3 bytes cut …]\n");
    expect(capture(0, [])).toBe("");
  });

  it("bounds a text the same way", () => {
    expect(boundText("short", 100)).toBe("short");
    expect(boundText("ää", 4)).toBe("ää");
    expect(boundText("x".repeat(1_234_567 + 10), 10)).toBe("xxxxx\n[… 1,234,567 bytes cut …]\nxxxxx");
  });
});

describe("output that is still being captured", () => {
  it("leaves out an incomplete character, whatever the bound", () => {
    const bytes = Buffer.from("a€😀ä".repeat(5));
    for (let max = 0; max < 60; max++) {
      const captured = new BoundedCapture(max);
      for (const [i, byte] of bytes.entries()) {
        captured.push(Buffer.of(byte));
        const text = captured.text();
        expect(text).not.toContain("\uFFFD");
        const cut = Number(/\n\[… (\d+) bytes cut …\]\n/.exec(text)?.[1] ?? 0);
        if (cut > 0) expect(cut).toBe(i + 1 - max);
        else
          expect(text).toBe(
            bytes
              .subarray(0, i + 1)
              .toString("utf8")
              .replace(/\uFFFD+$/, ""),
          );
      }
    }
  });
});
