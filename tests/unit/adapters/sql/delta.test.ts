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
          expect(withDeltas(base, deltas.slice(0, index + 1), text.length).equals(text)).toBe(true);
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

  it("finds its place again among rows that are much alike", () => {
    const status = (is: boolean) => (is ? "pending" : "done");
    const rows = Array.from({ length: 20_000 }, (_, id) => ({
      id,
      status: status(id % 2 > 0),
      attempts: 0,
      error: null,
    }));
    const base = Buffer.from(JSON.stringify(rows));
    for (let change = 0, at = 7; change < 50; change++) {
      at = (at * 48_271) % 20_011;
      const row = rows[at % 20_000];
      if (row) row.status = status(row.status === "done");
    }
    expect(whole(base, Buffer.from(JSON.stringify(rows))).length).toBeLessThan(1500);
  });

  it("isn't looked for longer than the text's size allows", () => {
    const table = (factor: number) =>
      Array.from({ length: 40_000 }, (_, id) => ({ name: `a name that stays, ${id}`, value: Math.sin(id * factor) }));
    const [base, text] = [table(1), table(2)].map((rows) => Buffer.from(JSON.stringify(rows)));
    // One could be made: half of the bytes are in both, at 40,000 places.
    expect(whole(base ?? Buffer.alloc(0), text ?? Buffer.alloc(0)).length).toBeGreaterThan((text?.length ?? 0) * 0.7);
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
    expect(() => withDeltas(base.subarray(1), [delta], 501)).toThrow(RangeError);
    for (let size = 0; size < delta.length; size++) {
      expect(() => withDeltas(base, [delta.subarray(0, size)], 501)).toThrow(RangeError);
    }
  });
});
