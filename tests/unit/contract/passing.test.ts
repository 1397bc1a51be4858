import { expect, it } from "vitest";
import { isPassing, replacedBy } from "waymark/adapter";
import { passingMetadata } from "../../../src/contract/passing.js";

it("a checkpoint is passing if `metadata.waymark` says so", () => {
  const status = "paused";
  expect(isPassing({ metadata: passingMetadata(undefined), status })).toBe(true);
  for (const metadata of [{}, { passing: true }, { waymark: true }, { waymark: [] }, { waymark: { passing: "yes" } }]) {
    expect(isPassing({ metadata, status })).toBe(false);
  }
  expect(isPassing({ status })).toBe(false);
});

it.each(["completed", "failed"] as const)("a %s checkpoint is a milestone, however it was saved", (status) => {
  expect(isPassing({ metadata: passingMetadata(undefined), status })).toBe(false);
});

it("a passing checkpoint names the one that it replaced", () => {
  expect(replacedBy({ metadata: passingMetadata("a1") })).toBe("a1");
  expect(replacedBy({ metadata: passingMetadata(undefined) })).toBeUndefined();
  expect(replacedBy({ metadata: { waymark: { replaces: 7 } } })).toBeUndefined();
});
