/** Lets the waits of this process go on at once when something happens to their task in this process. */
export class Wakers {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Ends the waits for a key: a task's id, or {@link ANY}. */
  wake(key: string): void {
    for (const wake of this.#waiting.get(key) ?? []) wake();
  }

  /**
   * Resolves after `ms` milliseconds, when the key is woken, or when the signal aborts. Keeps the process alive.
   */
  async wait(key: string, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const waiting = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, waiting);
    let end: () => void = () => undefined;
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve) => {
        end = resolve;
        timer = setTimeout(resolve, ms);
        waiting.add(end);
        signal.addEventListener("abort", end, { once: true });
      });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      waiting.delete(end);
      if (waiting.size === 0) this.#waiting.delete(key);
    }
  }
}

/** The key of workers, which wait for any task. */
export const ANY = "";
