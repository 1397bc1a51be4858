import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import * as root from "waymark";
import * as adapter from "waymark/adapter";
import * as retention from "../../src/manager/retention-plan.js";

/** The names that a file exports, including types; the file has only lists of exports. */
function namesIn(file: string): string[] {
  const text = readFileSync(join(import.meta.dirname, "..", "..", "src", file), "utf8");
  expect(text).not.toMatch(/export \*|export (const|function|class|interface)/);
  return [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, list = ""]) =>
    list
      .split(",")
      .map((name) => name.trim().replace(/^type /, ""))
      .filter((name) => name !== ""),
  );
}

it("the root exports at most 80 names", () => {
  const names = namesIn("index.ts");
  expect(names).toEqual(expect.arrayContaining(Object.keys(root)));
  expect(new Set(names).size).toBe(names.length);
  expect(names.length, `${names.length} names: ${names.join(", ")}`).toBeLessThanOrEqual(80);
});

it("the root doesn't export internals of the manager", () => {
  const internals = { ...retention, ...adapter };
  for (const internal of ["whyOutdated", "checkRetentionPolicy", "sealDraft", "nextSequence"]) {
    expect(internals).toHaveProperty(internal);
    expect(namesIn("index.ts")).not.toContain(internal);
  }
});

it("an adapter's author finds all of the contract in waymark/adapter", () => {
  expect(namesIn("adapter.ts")).toEqual(expect.arrayContaining(Object.keys(adapter)));
  expect(Object.keys(adapter)).toEqual(
    expect.arrayContaining(["nextSequence", "sealDraft", "withStatus", "matchesQuery", "matchRetry", "makePayload"]),
  );
});
