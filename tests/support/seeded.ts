// Read before each file of tests.
import fc from "fast-check";

/** What all random tests of this run begin with. vitest.config.ts chooses it, and the run's last lines have it. */
export const SEED = Number(process.env["WAYMARK_SEED"]);

fc.configureGlobal({ seed: SEED });

/** The number of cases that a random test tries: all in the full check, a fifth in `npm test`. */
export function casesOf(all: number): number {
  return process.env["WAYMARK_TESTS"] === undefined ? Math.ceil(all / 5) : all;
}

/** Returns the same numbers from 0 to 1 for the same seed: mulberry32. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
