import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { conformanceCases } from "waymark/conformance";
import { FOLDER, testBrokenAdapters, VERDICTS } from "./broken-adapters.js";

const HELPERS = ["altered.js", "altered-log.js", "listed-queue.js", "two-reads.js", "working-copy.js"];

describe("an adapter with one mistake", () => {
  testBrokenAdapters();

  it("exists for every case, so that every case can fail", () => {
    const failing = new Set(Object.values(VERDICTS).flatMap(({ caughtBy }) => caughtBy));
    expect(conformanceCases.map(({ name }) => name).filter((name) => !failing.has(name))).toEqual([]);
  });

  it("is listed above, with its verdict", () => {
    const modules = readdirSync(FOLDER).filter((file) => !HELPERS.includes(file));
    expect(Object.keys(VERDICTS).sort()).toEqual(modules.map((file) => file.replace(/\.js$/, "")).sort());
  });
});
