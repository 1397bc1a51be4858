import { setTimeout as delay } from "node:timers/promises";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * How long to wait for a signal that the process sends to itself: far longer than it takes to arrive. Until it arrives,
 * only this timer keeps the process alive.
 */
const MAX_ARRIVAL_MS = 2_000;

/** The terminal sends a Ctrl-C to npm's child, and npm sends it again. A person takes longer to press it twice. */
const SAME_PRESS_MS = 500;

/**
 * Lets work stop cleanly at the first Ctrl-C, SIGTERM or SIGHUP, and report its progress. A second signal ends the
 * process without waiting for the work.
 */
export class Interruption {
  readonly #stop = new AbortController();
  readonly #listener = (signal: NodeJS.Signals) => this.#interrupt(signal);
  readonly #lastWords: (() => Promise<void>) | undefined;
  #by: NodeJS.Signals | undefined;
  #atMs = 0;

  /** @param lastWords - Called at the second signal. */
  constructor(lastWords?: () => Promise<void>) {
    this.#lastWords = lastWords;
    for (const signal of SIGNALS) process.on(signal, this.#listener);
  }

  /** Aborted when the work must stop. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Stops listening. If a signal came, it then ends the process with the signal's usual exit code. */
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
    if (this.#by === undefined) {
      this.#by = signal;
      this.#atMs = performance.now();
      this.#stop.abort();
    } else if (signal !== this.#by || performance.now() - this.#atMs > SAME_PRESS_MS) {
      // Stop only after all listeners were called: signal-exit ends the process if its listener is the last one.
      queueMicrotask(() => this.#stopListening());
      const kill = () => process.kill(process.pid, signal);
      // The process ends even if the last words can't be printed.
      void Promise.resolve(this.#lastWords?.()).then(kill, kill);
    }
  }
}
