import { it } from "vitest";
import { SEED } from "../support/seeded.js";
import { tempFolder } from "../support/temp-folder.js";
import { tryPrograms } from "./try-programs.js";

it.each(["files", "tasks", "sqlite"])("40 random programs keep what a run promises on %s", async (kind) => {
  await tryPrograms(40, SEED, { kind, folder: await tempFolder() });
});
