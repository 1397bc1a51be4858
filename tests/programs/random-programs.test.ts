import fc from "fast-check";
import { expect, it } from "vitest";
import { casesOf } from "../support/seeded.js";
import { cases } from "./cases.js";
import { violationsOf } from "./lives.js";

/** Set to 10,000 by hand. */
const PROGRAMS = Number(process.env["WAYMARK_RUN_PROGRAMS"] ?? casesOf(75));

it(`${PROGRAMS} random programs keep what a run promises, whatever happens in their lives`, async () => {
  const check = fc.asyncProperty(cases, async (one) => {
    expect(await violationsOf(one)).toEqual([]);
  });
  await fc.assert(check, { numRuns: PROGRAMS, endOnFailure: true });
}, 3_600_000);
