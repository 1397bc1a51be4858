import type { Runtime } from "../contract/runtime.js";

/** All calls that wait for one signal, behind a single listener. */
class Waiting {
  readonly #calls = new Set<{ readonly call: (reason: unknown) => void }>();
  readonly #signal: AbortSignal;
  readonly #abort = () => {
    WAITING.delete(this.#signal);
    for (const { call } of this.#calls) call(this.#signal.reason);
  };

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    WAITING.set(signal, this);
    signal.addEventListener("abort", this.#abort, { once: true });
  }

  add(call: (reason: unknown) => void): () => void {
    // The function is wrapped in an object, so that a function that is added twice is called twice.
    const own = { call };
    this.#calls.add(own);
    return () => {
      this.#calls.delete(own);
      if (this.#calls.size > 0) return;
      WAITING.delete(this.#signal);
      this.#signal.removeEventListener("abort", this.#abort);
    };
  }
}

const WAITING = new WeakMap<AbortSignal, Waiting>();

/**
 * Calls `call` with the signal's reason once the signal aborts; at once if it has aborted already. All calls together
 * add one listener to the signal, since a program may pass one signal to many runs, and Node warns of a leak from the
 * eleventh listener on.
 *
 * @returns A function that cancels the call. Once no call is left, the listener is removed.
 */
export function onAbort(signal: AbortSignal, call: (reason: unknown) => void): () => void {
  if (!signal.aborted) return (WAITING.get(signal) ?? new Waiting(signal)).add(call);
  call(signal.reason);
  return () => undefined;
}

/** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
export async function pause(runtime: Runtime, ms: number, signal: AbortSignal): Promise<void> {
  const stops: (() => void)[] = [];
  await new Promise<void>((resolve) => {
    const end = () => resolve();
    stops.push(runtime.setTimeout(end, ms), onAbort(signal, end));
  });
  for (const stop of stops) stop();
}

/** Returns a signal that aborts as soon as one of these signals does, with its reason. */
export function anySignal(...signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined).map(nativeSignal));
}

/** Makes a native signal from a signal of another library, which `AbortSignal.any` would refuse. */
function nativeSignal(signal: AbortSignal): AbortSignal {
  // eslint-disable-next-line no-restricted-syntax -- AbortSignal.any asks the same.
  if (signal instanceof AbortSignal) return signal;
  const controller = new AbortController();
  onAbort(signal, (reason) => controller.abort(reason));
  return controller.signal;
}
