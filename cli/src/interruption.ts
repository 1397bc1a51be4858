import { setTimeout as delay } from "node:timers/promises";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Far longer than a signal takes to arrive. Nothing else keeps the process alive until then. */
const MAX_ARRIVAL_MS = 2_000;

/** npm sends its child the Ctrl-C that the terminal has sent it already. A person takes longer to press it again. */
const SAME_PRESS_MS = 100;

/**
 * Lets work stop cleanly at the first Ctrl-C, SIGTERM or SIGHUP and report how far it came. A second one ends the process
 * without waiting for the work.
 */
export class Interruption {
  readonly #stop = new AbortController();
  readonly #listener = (signal: NodeJS.Signals) => this.#interrupt(signal);
  readonly #lastWords: (() => Promise<void>) | undefined;
  #by: NodeJS.Signals | undefined;
  #atMs = 0;

  /** @param lastWords - Called at the second one. */
  constructor(lastWords?: () => Promise<void>) {
    this.#lastWords = lastWords;
    for (const signal of SIGNALS) process.on(signal, this.#listener);
  }

  /** Aborted when the work must stop. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Stops listening. If a signal came, it then ends the process, with the usual exit code. */
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
      // Only after all listeners were called: signal-exit ends the process if it finds itself the last listener.
      queueMicrotask(() => this.#stopListening());
      const kill = () => process.kill(process.pid, signal);
      // A terminal that can't be written to changes nothing.
      void Promise.resolve(this.#lastWords?.()).then(kill, kill);
    }
  }
}
