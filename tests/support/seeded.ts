// Vitest loads this module before each test file.
import fc from "fast-check";

/** The seed of all random tests in this run. vitest.config.ts chooses it, and the run's last lines show it. */
export const SEED = Number(process.env["WAYMARK_SEED"]);

fc.configureGlobal({ seed: SEED });

/** Returns the number of cases that a random test tries: all in the full check, a fifth in `npm test`. */
export function casesOf(all: number): number {
  return process.env["WAYMARK_TESTS"] === undefined ? Math.ceil(all / 5) : all;
}

/** Returns a generator of numbers from 0 to 1 that depend only on the seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
