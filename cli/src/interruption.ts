import { setTimeout as delay } from "node:timers/promises";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** Far longer than a signal takes to arrive; nothing else would keep the process until then. */
const MAX_ARRIVAL_MS = 2_000;

/**
 * Lets work stop in order at the first Ctrl-C or SIGTERM, and say how far it came. A second one ends the process at once.
 */
export class Interruption {
  readonly #stop = new AbortController();
  readonly #listener = (signal: NodeJS.Signals) => this.#interrupt(signal);
  #by: NodeJS.Signals | undefined;

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#listener);
  }

  /** Aborted when the work is to stop. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Stops listening; where a signal came, the process ends by it, with the exit code that it would have had. */
  async end(): Promise<void> {
    this.#stopListening();
    if (this.#by === undefined) return;
    process.kill(process.pid, this.#by);
    await delay(MAX_ARRIVAL_MS);
  }

  #stopListening(): void {
    for (const signal of SIGNALS) process.off(signal, this.#listener);
  }

  #interrupt(signal: NodeJS.Signals): void {
    this.#by = signal;
    this.#stop.abort();
    // Not before all listeners have been called: one that cleans up (a lock's) and sees nobody else ends the process.
    queueMicrotask(() => this.#stopListening());
  }
}
