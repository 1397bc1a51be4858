import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type ConformanceCase,
  type ConformanceHarness,
  conformanceCases,
  runConformanceCase,
} from "waymark/conformance";
import { tempFolder } from "../support/temp-folder.js";

const FOLDER = new URL("../fixtures/broken-adapters/", import.meta.url);

const G: Record<string, (c: ConformanceCase) => boolean> = {
  core: ({ needs }) => needs === undefined,
  damage: ({ name }) => name.startsWith("corrupt."),
  kills: ({ name, needs }) => needs === "durable" && !name.startsWith("corrupt."),
  processes: ({ needs }) => needs === "multiProcess",
  reopened: ({ replayed }) => replayed === true,
};
const group = (f: string) =>
  f === "forgets-its-numbering.js"
    ? "reopened"
    : /damage/.test(f) && f !== "takes-removed-for-damaged.js"
      ? "damage"
      : /acknow|loses-the-last|in-two-steps|never-frees/.test(f) && !/status/.test(f)
        ? "kills"
        : /own-process|numbers-for-itself|remembers-what|each-process|takes-removed/.test(f)
          ? "processes"
          : "core";

async function failing(harness: ConformanceHarness, g: string): Promise<string[]> {
  const failed: string[] = [];
  for (const conformanceCase of conformanceCases.filter(G[g]!)) {
    try {
      await runConformanceCase(conformanceCase, harness, g === "reopened" ? "reopened" : "fresh");
    } catch (error) {
      failed.push(conformanceCase.name);
      if (process.env["SHOW"]) console.log(conformanceCase.name, (error as Error).message);
    }
  }
  return failed;
}

const all = new Set<string>();
describe("x", () => {
  for (const file of readdirSync(FOLDER)) {
    if (file === "altered.js" || file === "working-copy.js") continue;
    it(file, async () => {
      const newLocation = async () => join(await tempFolder(), "store");
      const m = await import(new URL(file, FOLDER).href);
      let { capabilities } = m.open(await newLocation());
      if (file.startsWith("promises")) capabilities = { durable: false, multiProcess: false };
      const f = await failing({ name: file, module: new URL(file, FOLDER), capabilities, newLocation }, group(file));
      console.log("ROW", JSON.stringify([file.slice(0, -3), group(file), f]));
      for (const x of f) all.add(x);
      expect(f.length).toBeGreaterThan(0);
    });
  }
  it("all", () => {
    console.log(
      "NOT FAILED",
      conformanceCases
        .map((c) => c.name)
        .filter((n) => !all.has(n))
        .join("\n"),
    );
  });
});
