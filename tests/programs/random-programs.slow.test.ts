import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../support/temp-folder.js";
import { cases } from "./cases.js";
import { violationsOf } from "./lives.js";

it.each(["files", "tasks", "sqlite"])("40 random programs keep what a run promises on %s", async (kind) => {
  const folder = await tempFolder();
  let stores = 0;
  const check = fc.asyncProperty(cases, async (one) => {
    const storage = openStorage(`${kind}:${join(folder, `store-${++stores}`)}`);
    try {
      expect(await violationsOf(one, storage)).toEqual([]);
    } finally {
      await storage.close();
    }
  });
  await fc.assert(check, { numRuns: 40, endOnFailure: true });
});
