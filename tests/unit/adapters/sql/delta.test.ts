import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deltaBetween, withDelta } from "../../../../adapters/sql/delta.js";

/** A base, and a text made of it by edits at random places. */
const alike = fc
  .record({
    base: fc.string({ maxLength: 4000, unit: fc.constantFrom("a", "b", '"', "{", "é", "👍") }),
    edits: fc.array(fc.record({ at: fc.nat(4000), removed: fc.nat(300), inserted: fc.string({ maxLength: 300 }) }), {
      maxLength: 12,
    }),
  })
  .map(({ base, edits }) => {
    let text = base;
    for (const { at, removed, inserted } of edits) text = text.slice(0, at) + inserted + text.slice(at + removed);
    return [Buffer.from(base), Buffer.from(text)] as const;
  });

describe("a delta", () => {
  it("makes any text of any base", () => {
    fc.assert(
      fc.property(alike, ([base, text]) => {
        expect(withDelta(base, deltaBetween(base, text)).equals(text)).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  it("has what changed, at several places, and little else", () => {
    const lines = Array.from({ length: 2000 }, (_, index) => `line ${index} of a text, ${index * 7919}\n`);
    const base = Buffer.from(lines.join(""));
    for (const at of [10, 500, 501, 1500]) lines[at] = `changed ${at}\n`;
    lines.push("one more\n");
    expect(deltaBetween(base, Buffer.from(lines.join(""))).length).toBeLessThan(150);
    expect(deltaBetween(base, base).length).toBeLessThan(10);
  });

  it("that is cut, or belongs to another base, is refused", () => {
    const base = Buffer.from("a".repeat(500));
    const delta = deltaBetween(base, Buffer.from(`${"a".repeat(500)}b`));
    expect(() => withDelta(base.subarray(1), delta)).toThrow(RangeError);
    for (let size = 0; size < delta.length; size++) {
      expect(() => withDelta(base, delta.subarray(0, size))).toThrow(RangeError);
    }
  });
});
