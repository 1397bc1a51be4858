/** Whether everything is tried, as in `npm run crash`, or as much as `npm test` has time for. */
export const isFull = process.env["WAYMARK_TESTS"] === "full";

/**
 * `.ci/run` has time for every kill of a storage, for some of the systems' kills, and for a tenth of the faults, the
 * power losses, the damaged bytes and the broken adapters: another tenth each time. The number is 0 to 9; without it,
 * everything is tried.
 */
export const tenth = process.env["WAYMARK_CRASH_TENTH"];

/** Whether the case with that number is tried. */
export function isTried(index: number): boolean {
  return tenth === undefined || index % 10 === Number(tenth);
}

/** How much farther apart the damaged bytes are. */
export const STRIDE_FACTOR = tenth === undefined ? 1 : 10;
