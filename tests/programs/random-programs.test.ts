import { it } from "vitest";
import { casesOf, SEED } from "../support/seeded.js";
import { tryPrograms } from "./try-programs.js";

/** Set to 10,000 by hand. */
const PROGRAMS = Number(process.env["WAYMARK_RUN_PROGRAMS"] ?? casesOf(75));

it(`${PROGRAMS} random programs keep what a run promises, whatever happens in their lives`, async () => {
  await tryPrograms(PROGRAMS, SEED);
}, 3_600_000);
