/** Whether everything is tried, as in `npm run crash`, or only what `npm test` has time for. */
export const isFull = process.env["WAYMARK_TESTS"] === "full";

/**
 * The tenth of the faults, power losses, damaged bytes and broken adapters that is tried, from 0 to 9. `.ci/run` has
 * time for every kill of a storage, for some of the systems' kills, and for another tenth of the rest each time.
 * Without a number, everything is tried.
 */
export const tenth = process.env["WAYMARK_CRASH_TENTH"];

/** Whether the case with this number is tried. */
export function isTried(index: number): boolean {
  return tenth === undefined || index % 10 === Number(tenth);
}

/** The factor by which the distance between damaged bytes grows. */
export const STRIDE_FACTOR = tenth === undefined ? 1 : 10;
