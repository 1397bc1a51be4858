import { expect, it } from "vitest";
import { isTransient, replacedBy } from "waymark/adapter";
import { transientMetadata } from "../../../src/contract/transient.js";

it("a checkpoint is transient if `metadata.waymark` marks it", () => {
  const status = "paused";
  expect(isTransient({ metadata: transientMetadata(undefined), status })).toBe(true);
  for (const metadata of [
    {},
    { transient: true },
    { waymark: true },
    { waymark: [] },
    { waymark: { transient: "yes" } },
  ]) {
    expect(isTransient({ metadata, status })).toBe(false);
  }
  expect(isTransient({ status })).toBe(false);
});

it.each(["completed", "failed"] as const)("a %s checkpoint is a milestone, however it was saved", (status) => {
  expect(isTransient({ metadata: transientMetadata(undefined), status })).toBe(false);
});

it("a transient checkpoint names the one that it replaced", () => {
  expect(replacedBy({ metadata: transientMetadata("a1") })).toBe("a1");
  expect(replacedBy({ metadata: transientMetadata(undefined) })).toBeUndefined();
  expect(replacedBy({ metadata: { waymark: { replaces: 7 } } })).toBeUndefined();
});
