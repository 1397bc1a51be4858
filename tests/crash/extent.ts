/** Whether everything is tried, as `npm run crash` does, or what `npm test` has time for. */
export const isFull = process.env["WAYMARK_TESTS"] === "full";

/**
 * `.ci/run` has time for every kill, and for a fifth of the faults, the power losses, the damaged bytes and the broken
 * adapters: for another fifth each time. It is 0 to 4; without it, all are tried.
 */
export const fifth = process.env["WAYMARK_CRASH_FIFTH"];

/** Whether the case of that number is tried. */
export function isTried(index: number): boolean {
  return fifth === undefined || index % 5 === Number(fifth);
}

/** How much farther apart the damaged bytes are. */
export const STRIDE_FACTOR = fifth === undefined ? 1 : 5;
