import { checkInteger, MAX_DELAY_MS } from "../../src/contract/arguments.js";

/** Timers that each call a function at intervals until they are stopped. They never keep the process alive. */
export class AutoSaves {
  readonly #timers = new Set<NodeJS.Timeout>();

  /**
   * @returns A function that stops the timer.
   * @throws {TypeError | RangeError} The interval isn't a whole number of milliseconds that a timer supports.
   */
  start(save: () => void, intervalMs: number): () => void {
    checkInteger("intervalMs", intervalMs, 1);
    if (intervalMs > MAX_DELAY_MS) throw new RangeError(`intervalMs must be at most ${MAX_DELAY_MS} (24.8 days).`);
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
