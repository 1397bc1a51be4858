import fc from "fast-check";
import { it } from "vitest";
import { checkProgram, kills, programs } from "./random-programs.js";

it("15 random programs, stopped at random saves, do what an interpreter in memory does", async () => {
  await fc.assert(
    fc.asyncProperty(programs, kills, (program, killed) => checkProgram(program, killed)),
    { numRuns: 15 },
  );
});
