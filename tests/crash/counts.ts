import { appendFileSync } from "node:fs";

/** A line that `npm run crash` prints: how many attempts there were, and how much they lost. */
interface Count {
  /** The words in the table: `kill points`. */
  readonly what: string;
  readonly store: string;
  readonly operation: string;
  readonly tried: number;
  readonly lost: number;
}

/**
 * Reports a count to scripts/crash.mjs, if that runs the tests. Every test in this folder with many attempts reports
 * here.
 */
export function count(line: Count): void {
  const file = process.env["WAYMARK_CRASH_COUNTS"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`);
}
