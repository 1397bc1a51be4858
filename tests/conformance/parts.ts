import { describe, it } from "vitest";
import type { ConformanceRunner } from "waymark/conformance";

/** A suite is in two files where another adapter's suite shows the same of what they share, or where all of it takes a minute. */
export type Part = "quick" | "slow";

/** The cases that kill one process after another, and those that are replayed on a store that was opened again. */
const SLOW = /killed-|survives-kill|, reopened:/;

/** Runs the cases of that part alone. */
export function runnerOf(part: Part): ConformanceRunner {
  return {
    describe,
    it: (title, body) => {
      if (SLOW.test(title) === (part === "slow")) it(title, body);
    },
  };
}
