import fc from "fast-check";
import { cases } from "./cases.js";
import { violationsOf } from "./lives.js";

/** Executes random programs in simulated time, in memory. @throws What was wrong with one, with its case. */
export async function tryPrograms(numRuns: number, seed: number): Promise<void> {
  const check = fc.asyncProperty(cases, async (one) => {
    const violations = await violationsOf(one);
    if (violations.length > 0) throw new Error(violations.join("\n"));
  });
  await fc.assert(check, { numRuns, seed, endOnFailure: true });
}
