import { checkInteger } from "../../src/contract/arguments.js";

/** The longest delay a Node timer has; beyond it, it would fire at once. */
const MAX_INTERVAL_MS = 2 ** 31 - 1;

/** Calls back at intervals until it is stopped, and never keeps the process alive. */
export class AutoSaves {
  readonly #timers = new Set<NodeJS.Timeout>();

  /**
   * @returns Its stop.
   * @throws {TypeError | RangeError} The interval is no whole number of milliseconds that a timer has.
   */
  start(save: () => void, intervalMs: number): () => void {
    checkInteger("intervalMs", intervalMs, 1);
    if (intervalMs > MAX_INTERVAL_MS)
      throw new RangeError(`intervalMs must be at most ${MAX_INTERVAL_MS} (24.8 days).`);
    const timer = setInterval(save, intervalMs).unref();
    this.#timers.add(timer);
    return () => {
      clearInterval(timer);
      this.#timers.delete(timer);
    };
  }

  stopAll(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers.clear();
  }
}
