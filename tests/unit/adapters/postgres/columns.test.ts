import fc from "fast-check";
import { expect, it } from "vitest";
import { fromColumn, toColumn } from "../../../../adapters/postgres/columns.js";
import { compareTaskIds } from "../../../../src/contract/checkpoint.js";

const unit = fc.constantFrom("\0", "\x01", "\x02", "a", "～", "😀");
const texts = fc.string({ unit });

it("a column holds no U+0000, and restores any text", () => {
  fc.assert(
    fc.property(texts, (text) => {
      expect(toColumn(text)).not.toContain("\0");
      expect(fromColumn(toColumn(text))).toBe(text);
    }),
  );
});

it("columns sort like their texts, and have the same prefixes", () => {
  fc.assert(
    fc.property(texts, texts, (a, b) => {
      expect(Math.sign(compareTaskIds(toColumn(a), toColumn(b)))).toBe(Math.sign(compareTaskIds(a, b)));
      expect(toColumn(a + b).startsWith(toColumn(a))).toBe(true);
    }),
  );
});
