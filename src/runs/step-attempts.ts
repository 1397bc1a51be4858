import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { StepCall, StepOptions, StepRetry } from "./run.js";

/** How a step ended. */
export type StepEnd<Result> = { readonly attempts: number } & (
  | { readonly isFailed: false; readonly result: Result }
  | { readonly isFailed: true; readonly error: unknown }
);

const DEFAULT_RETRY = { backoffMs: 1000, factor: 2, maxMs: 60_000 };

/**
 * Calls a step's function, and again after an error as often as `retry` says. Never rejects.
 *
 * @param title - The step's title, for messages.
 * @param keyOf - Returns the step's key.
 * @param signal - The run's signal. Once it aborts, the step isn't tried again.
 */
export async function attemptStep<Result>(
  fn: (call: StepCall) => Result | Promise<Result>,
  { retry, timeoutMs }: StepOptions,
  { title, keyOf, signal }: { readonly title: string; readonly keyOf: () => string; readonly signal: AbortSignal },
): Promise<StepEnd<Result>> {
  for (let attempt = 1; ; attempt++) {
    const timed = timeoutMs === undefined ? undefined : new TimedSignal(signal, timeoutMs, title);
    try {
      const call = {
        // The key is a getter, because most steps don't read it.
        get key() {
          return keyOf();
        },
        attempt,
        signal: timed?.signal ?? signal,
      };
      const result = await fn(call);
      return { isFailed: false, result, attempts: attempt };
    } catch (thrown) {
      const error = timed?.errorOf(thrown) ?? thrown;
      if (signal.aborted || retry === undefined || attempt > retry.times || !(retry.if?.(error) ?? true)) {
        return { isFailed: true, error, attempts: attempt };
      }
      // If the run stops during the pause, the step ends with its last error.
      const isOver = await pause(pauseMs(retry, attempt), false, { signal }).catch(() => true);
      if (isOver) return { isFailed: true, error, attempts: attempt };
    } finally {
      timed?.clear();
    }
  }
}

function pauseMs(retry: StepRetry, attempt: number): number {
  const { backoffMs = DEFAULT_RETRY.backoffMs, factor = DEFAULT_RETRY.factor, maxMs = DEFAULT_RETRY.maxMs } = retry;
  return Math.min(backoffMs * factor ** (attempt - 1), maxMs);
}

class TimedSignal {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #abort = () => this.#controller.abort(this.#outer.reason);
  #timeout: DOMException | undefined;

  constructor(outer: AbortSignal, timeoutMs: number, title: string) {
    this.#outer = outer;
    // A step may pass it to many calls, so Node's warning about many listeners is switched off.
    setMaxListeners(0, this.signal);
    this.#timer = setTimeout(() => {
      this.#timeout = new DOMException(
        `Step ${JSON.stringify(title)} took longer than ${timeoutMs} ms`,
        "TimeoutError",
      );
      this.#controller.abort(this.#timeout);
    }, timeoutMs);
    if (outer.aborted) this.#abort();
    else outer.addEventListener("abort", this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The timeout, if it came before the attempt threw. */
  errorOf(thrown: unknown): unknown {
    return this.#timeout !== undefined && this.signal.reason === this.#timeout ? this.#timeout : thrown;
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener("abort", this.#abort);
  }
}
