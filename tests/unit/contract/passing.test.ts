import { expect, it } from "vitest";
import { isPassing } from "waymark/adapter";

it("a checkpoint is passing if `metadata.waymark` says so", () => {
  expect(isPassing({ metadata: { waymark: { passing: true } } })).toBe(true);
  for (const metadata of [undefined, {}, { passing: true }, { waymark: true }, { waymark: { passing: "yes" } }]) {
    expect(isPassing(metadata === undefined ? {} : { metadata })).toBe(false);
  }
});
