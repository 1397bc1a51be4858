import { it } from "vitest";
import { casesOf, SEED } from "../support/seeded.js";
import { tryPrograms } from "./try-programs.js";

/** The number of programs; 10,000 for manual runs. */
const PROGRAMS = Number(process.env["WAYMARK_RUN_PROGRAMS"] ?? casesOf(75));

it(`${PROGRAMS} random programs keep what a run promises, whatever happens in their lives`, async () => {
  await tryPrograms(PROGRAMS, SEED);
}, 3_600_000);
