import { deflateRawSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  BrokenHistoryError,
  deltaAfter,
  FOLD,
  FORM,
  makeBundle,
  makeWhole,
  type Piece,
  textAt,
} from "../../../../adapters/sql/history.js";
import { hugeDeflated, hugePacked, messages } from "../../../support/histories.js";

/** Texts of which each extends the previous one, and their stored pieces: a whole text and a bundle. */
function bundled(...additions: readonly string[]) {
  const texts = [Buffer.from(messages(40_000).next().value)];
  const whole = makeWhole(texts[0]!);
  let last = whole;
  const deltas: Piece[] = [];
  for (const addition of additions) {
    const text = Buffer.concat([last.text.text, Buffer.from(addition)]);
    last = deltaAfter(last.text, text)!;
    texts.push(text);
    deltas.push({ number: texts.length, form: last.form, body: last.body });
  }
  return { texts, pieces: [{ number: 1, form: whole.form, body: whole.body }, makeBundle(deltas)] };
}

describe("a piece that inflates to more than the record says", () => {
  it.each([
    ["packed", hugePacked()],
    ["bundle", hugeDeflated()],
  ] as const)("counts as damage before its memory is allocated: %s", (form, body) => {
    const { pieces, texts } = bundled("one", "two");
    const spoiled = pieces.map((piece) => (piece.form === FORM[form] ? { ...piece, body } : piece));
    const { arrayBuffers } = process.memoryUsage();
    expect(() => textAt(3, spoiled, texts[2]!.length)).toThrow(BrokenHistoryError);
    expect(process.memoryUsage().arrayBuffers - arrayBuffers).toBeLessThan(64 * 1024 * 1024);
  });

  it("counts as damage if the text itself is longer", () => {
    const { pieces, texts } = bundled("one");
    expect(() => textAt(2, pieces, texts[1]!.length - 1)).toThrow(/is damaged: it has 40003 bytes, more than 40002/);
    expect(textAt(2, pieces, texts[1]!.length).text.equals(texts[1]!)).toBe(true);
  });
});

describe("a bundle", () => {
  it("returns the texts before a text that is twice as long", () => {
    const few = Array.from({ length: FOLD - 2 }, (_, index) => `addition ${index}`);
    const { texts, pieces } = bundled(...few, messages(38_000).next().value.toUpperCase());
    for (const number of [2, FOLD - 1, FOLD]) {
      const text = texts[number - 1]!;
      expect(textAt(number, pieces, text.length).text.equals(text)).toBe(true);
    }
  });

  it("with numbers that no bundle can have is damage", () => {
    const { texts, pieces } = bundled("one");
    const other = pieces.map((piece) =>
      piece.form === FORM.bundle ? { ...piece, body: deflateRawSync("\x01") } : piece,
    );
    expect(() => textAt(2, other, texts[1]!.length)).toThrow(BrokenHistoryError);
  });
});
