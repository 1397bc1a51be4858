import { appendFileSync } from "node:fs";

/** One line of what `npm run crash` prints: how often something was tried there, and how much was lost of it. */
interface Count {
  /** In the words of the table: `kill points`. */
  readonly what: string;
  readonly store: string;
  readonly operation: string;
  readonly tried: number;
  readonly lost: number;
}

/** Tells scripts/crash.mjs, where that runs the tests: every test in this folder that tries something often counts here. */
export function count(line: Count): void {
  const file = process.env["WAYMARK_CRASH_COUNTS"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`);
}
