import { appendFileSync } from "node:fs";

/** A line that `npm run crash` prints: the number of attempts, and how many lost data. */
interface Count {
  /** The text in the table, such as `kill points`. */
  readonly what: string;
  readonly store: string;
  readonly operation: string;
  readonly tried: number;
  readonly lost: number;
}

/**
 * Reports a count to scripts/crash.mjs, if that script runs the tests. Every test in this folder with many attempts
 * calls this function.
 */
export function count(line: Count): void {
  const file = process.env["WAYMARK_CRASH_COUNTS"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`);
}
