import { isBusy } from "../../adapters/sqlite/errors.js";

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 20;

/**
 * Does the work as soon as the database is free, and blocks the process meanwhile. SQLite itself waits for most locks;
 * where waiting might be in vain it refuses at once, and that is tried again here.
 *
 * @throws What the work throws; where the database is still locked after so many milliseconds, SQLite's error.
 */
export function untilFree<Result>(work: () => Result, timeoutMs: number): Result {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return work();
    } catch (error) {
      const leftMs = deadline - performance.now();
      if (!isBusy(error) || leftMs <= 0) throw error;
      // Not all at the same time: processes that wait for each other would meet again and again.
      block(Math.min(pauseMs * (0.5 + Math.random()), leftMs));
    }
  }
}

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
