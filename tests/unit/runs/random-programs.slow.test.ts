import { join } from "node:path";
import fc from "fast-check";
import { it } from "vitest";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../../support/temp-folder.js";
import { checkProgram, kills, programs } from "./random-programs.js";

/** Set to 10,000 by hand. */
const PROGRAMS = Number(process.env["WAYMARK_RUN_PROGRAMS"] ?? 300);

it(`${PROGRAMS} random programs, stopped at random saves, do what an interpreter in memory does`, async () => {
  await fc.assert(
    fc.asyncProperty(programs, kills, (program, killed) => checkProgram(program, killed)),
    { numRuns: PROGRAMS },
  );
});

it("random programs do the same on files and SQLite", async () => {
  const folder = await tempFolder();
  let stores = 0;
  for (const kind of ["files", "tasks", "sqlite"]) {
    const check = fc.asyncProperty(programs, kills, async (program, killed) => {
      const storage = openStorage(`${kind}:${join(folder, `${kind}-${++stores}`)}`);
      try {
        await checkProgram(program, killed, storage);
      } finally {
        await storage.close();
      }
    });
    await fc.assert(check, { numRuns: 40 });
  }
});
