import fc from "fast-check";
import { expect, it } from "vitest";
import { randomFrom, SEED } from "../support/seeded.js";

it("a random test gets the same values again with the same WAYMARK_SEED", () => {
  const [first, again] = [fc.sample(fc.integer(), 20), fc.sample(fc.integer(), 20)];

  expect(Number.isSafeInteger(SEED)).toBe(true);
  expect(again).toEqual(first);
  expect(fc.sample(fc.integer(), { numRuns: 20, seed: SEED })).toEqual(first);
  expect(randomFrom(SEED)()).toBe(randomFrom(SEED)());
});
