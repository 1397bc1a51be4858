import { describe, it } from "vitest";
import type { ConformanceRunner } from "waymark/conformance";

/**
 * A suite is split into two files if another adapter's suite covers the common part, or if all cases take a minute.
 */
export type Part = "quick" | "slow";

/**
 * The cases that kill one process after another, those that repeat on a reopened store, and races of processes that
 * differ from `append.many-processes` in the call alone.
 */
const SLOW =
  /killed[-:]|survives-kill|, reopened:|(leases|due|log|replace)\.many-processes|\.one-(winner|id|event)-anywhere/;

/** Runs only the cases of one part. */
export function runnerOf(part: Part): ConformanceRunner {
  return {
    describe,
    it: (title, body) => {
      if (SLOW.test(title) === (part === "slow")) it(title, body);
    },
  };
}
