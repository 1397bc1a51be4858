import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deltaBetween, encodeNumbers, withDeltas } from "../../../../adapters/sql/delta.js";
import { messages } from "../../../support/histories.js";
import { casesOf } from "../../../support/seeded.js";

const edit = fc.record({
  at: fc.nat(2000),
  removed: fc.nat(300),
  inserted: fc.string({ maxLength: 300 }),
  /** A part of the previous text, which is inserted again. */
  again: fc.record({ from: fc.nat(2000), length: fc.nat(500), times: fc.nat(3) }),
});

/** Yields texts. Each is made from the previous text by edits at random places. */
const texts = fc
  .record({
    base: fc.string({ maxLength: 2000, unit: fc.constantFrom("a", "b", '"', "{", "é", "👍") }),
    changes: fc.array(fc.array(edit, { maxLength: 6 }), { maxLength: 8 }),
  })
  .map(({ base, changes }) => {
    const all = [base];
    for (const edits of changes) {
      let text = all.at(-1) ?? "";
      const before = text;
      for (const { at, removed, inserted, again } of edits) {
        const part = before.slice(again.from, again.from + again.length).repeat(again.times);
        text = text.slice(0, at) + inserted + part + text.slice(at + removed);
      }
      all.push(text.slice(0, 20_000));
    }
    return all.map((text) => Buffer.from(text));
  });

/** Makes a delta without a limit on its size. */
function whole(base: Buffer, text: Buffer): Buffer {
  return deltaBetween(base, text, Number.POSITIVE_INFINITY) ?? Buffer.alloc(0);
}

/** Returns the text that the deltas make from the base, or their RangeError. Throws any other error. */
function outcome(base: Buffer, deltas: readonly Buffer[], mostBytes: number): Buffer | RangeError {
  try {
    return withDeltas(base, deltas, mostBytes);
  } catch (error) {
    if (error instanceof RangeError) return error;
    throw error;
  }
}

describe("a delta", () => {
  it("makes any text from any base, also after other deltas", () => {
    fc.assert(
      fc.property(texts, ([base = Buffer.alloc(0), ...later]) => {
        const deltas = later.map((text, index) => whole(later[index - 1] ?? base, text));
        for (const [index, text] of later.entries()) {
          expect(withDeltas(base, deltas.slice(0, index + 1), text.length).equals(text)).toBe(true);
        }
      }),
      { numRuns: casesOf(2000) },
    );
  });

  it("stays small if a text is elsewhere in the base, or there several times", () => {
    const texts = messages(60_000);
    const [one, two, three] = [40_000, 50_000, 60_000].map((bytes) => texts.next().value.slice(0, bytes));
    const other = texts.next().value.slice(0, 3000);
    const base = Buffer.from(`{"a":"${one}","b":"${two}","c":"${three}"}`);
    const sends = Array.from({ length: 5 }, (_, call) => ({ call, state: three, more: two }));
    for (const value of [{ c: three, b: two, a: one }, sends, { other, sends }]) {
      const text = Buffer.from(JSON.stringify(value));
      const delta = whole(base, text);
      expect(delta.length).toBeLessThan(other.length + 500);
      expect(withDeltas(base, [delta], text.length).equals(text)).toBe(true);
    }
  });

  it("holds the changes at several places, and little else", () => {
    const lines = Array.from({ length: 2000 }, (_, index) => `line ${index} of a text, ${index * 7919}\n`);
    const base = Buffer.from(lines.join(""));
    for (const at of [10, 500, 501, 1500]) lines[at] = `changed ${at}\n`;
    lines.push("one more\n");
    expect(whole(base, Buffer.from(lines.join(""))).length).toBeLessThan(150);
    expect(whole(base, base).length).toBeLessThan(10);
  });

  it("finds its place again among very similar lines", () => {
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

  it("takes no more search time than the text's size allows", () => {
    const table = (factor: number) =>
      Array.from({ length: 40_000 }, (_, id) => ({ name: `a name that stays, ${id}`, value: Math.sin(id * factor) }));
    const [base, text] = [table(1), table(2)].map((rows) => Buffer.from(JSON.stringify(rows)));
    // Half of the bytes are shared, at 40,000 places: finding a small delta would take too long.
    expect(whole(base ?? Buffer.alloc(0), text ?? Buffer.alloc(0)).length).toBeGreaterThan((text?.length ?? 0) * 0.7);
  });

  it("has at most the allowed bytes, or isn't made", () => {
    fc.assert(
      fc.property(texts, fc.nat(3000), ([base, text = base], most) => {
        if (base === undefined || text === undefined) return;
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

  it("with damaged bytes returns some text of at most the requested size, or throws a RangeError", () => {
    const byte = fc.record({ at: fc.nat(2000), value: fc.nat(255) });
    const damage = fc.array(byte, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(texts, damage, ([first, second = first], bytes) => {
        if (first === undefined || second === undefined) return;
        const delta = Buffer.from(whole(first, second));
        for (const { at, value } of bytes) delta[at % Math.min(delta.length, 20)] = value;
        const found = outcome(first, [delta], second.length);
        expect(found instanceof RangeError || found.length <= second.length).toBe(true);
      }),
      { numRuns: casesOf(5000) },
    );
  });

  it.each([
    ["outside", [10, 1, 0, 11, 0]],
    ["before", [10, 1, 1, 5, 0]],
    ["far away", [10, 1, 2 ** 52, 2 ** 52, 0]],
  ])("that copies from %s of its base is refused", (_where, numbers) => {
    expect(() => withDeltas(Buffer.alloc(10), [encodeNumbers(numbers)], 2 ** 53)).toThrow(RangeError);
  });

  it("needs no more memory than the text, whatever the size of those between", () => {
    // Each delta copies its base a hundred times, and the last one takes ten bytes of 10^13.
    const sizes = Array.from({ length: 5 }, (_, index) => 1000 * 100 ** index);
    const growing = sizes.map((size) => {
      const copies = Array.from({ length: 99 }, () => [2 * size - 1, size, 0]);
      return encodeNumbers([size, 100, 0, size, 0, ...copies.flat()]);
    });
    const last = encodeNumbers([10 ** 13, 1, 10 ** 13, 10, 0]);
    const base = Buffer.from("0123456789".repeat(100));
    expect(withDeltas(base, [...growing, last], 10).toString()).toBe("0123456789");
    expect(() => withDeltas(base, growing, 1000)).toThrow(RangeError);
  });
});
