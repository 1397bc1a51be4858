import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deltaBetween, withDeltas } from "../../../../adapters/sql/delta.js";

/** Texts, each made of the one before it by edits at random places. */
const texts = fc
  .record({
    base: fc.string({ maxLength: 2000, unit: fc.constantFrom("a", "b", '"', "{", "é", "👍") }),
    changes: fc.array(
      fc.array(fc.record({ at: fc.nat(2000), removed: fc.nat(300), inserted: fc.string({ maxLength: 300 }) }), {
        maxLength: 6,
      }),
      { maxLength: 8 },
    ),
  })
  .map(({ base, changes }) => {
    const all = [base];
    for (const edits of changes) {
      let text = all.at(-1) ?? "";
      for (const { at, removed, inserted } of edits) text = text.slice(0, at) + inserted + text.slice(at + removed);
      all.push(text);
    }
    return all.map((text) => Buffer.from(text));
  });

/** A delta, however large. */
function whole(base: Buffer, text: Buffer): Buffer {
  return deltaBetween(base, text, Number.POSITIVE_INFINITY) ?? Buffer.alloc(0);
}

describe("a delta", () => {
  it("makes any text of any base, also after other deltas", () => {
    fc.assert(
      fc.property(texts, ([base = Buffer.alloc(0), ...later]) => {
        const deltas = later.map((text, index) => whole(later[index - 1] ?? base, text));
        for (const [index, text] of later.entries()) {
          expect(withDeltas(base, deltas.slice(0, index + 1)).equals(text)).toBe(true);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it("has what changed, at several places, and little else", () => {
    const lines = Array.from({ length: 2000 }, (_, index) => `line ${index} of a text, ${index * 7919}\n`);
    const base = Buffer.from(lines.join(""));
    for (const at of [10, 500, 501, 1500]) lines[at] = `changed ${at}\n`;
    lines.push("one more\n");
    expect(whole(base, Buffer.from(lines.join(""))).length).toBeLessThan(150);
    expect(whole(base, base).length).toBeLessThan(10);
  });

  it("has at most so many bytes, or isn't made", () => {
    fc.assert(
      fc.property(texts, fc.nat(3000), ([base = Buffer.alloc(0), text = base], most) => {
        const delta = whole(base, text);
        expect(deltaBetween(base, text, most)).toEqual(delta.length <= most ? delta : undefined);
      }),
    );
  });

  it("that is cut, or belongs to another base, is refused", () => {
    const base = Buffer.from("a".repeat(500));
    const delta = whole(base, Buffer.from(`${"a".repeat(500)}b`));
    expect(() => withDeltas(base.subarray(1), [delta])).toThrow(RangeError);
    for (let size = 0; size < delta.length; size++) {
      expect(() => withDeltas(base, [delta.subarray(0, size)])).toThrow(RangeError);
    }
  });
});
