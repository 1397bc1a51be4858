/** Whether everything is tried, as `npm run crash` does, or what `npm test` has time for. */
export const isFull = process.env["WAYMARK_TESTS"] === "full";

/**
 * `.ci/run` has time for every kill, and for a third of the faults, the power losses, the damaged bytes and the broken
 * adapters: for another third each time. It is 0, 1 or 2; without it, all are tried.
 */
const third = process.env["WAYMARK_CRASH_THIRD"];

/** Whether the case of that number is tried. */
export function isTried(index: number): boolean {
  return third === undefined || index % 3 === Number(third);
}

/** How much farther apart the damaged bytes are. */
export const STRIDE_FACTOR = third === undefined ? 1 : 3;
