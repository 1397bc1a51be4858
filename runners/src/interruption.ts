import { setMaxListeners } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { onAbort, onTermination } from "waymark/kit";

export interface InterruptionOptions {
  /** The caller's signal. It also ends the work. */
  readonly signal: AbortSignal | undefined;
  /** Returns the error with which the work's signal aborts after SIGINT, SIGTERM or SIGHUP. */
  readonly reason: (signal: NodeJS.Signals) => Error;
}

/**
 * How long to wait for the raised signal to arrive, which is far longer than it takes. If something blocks the signal,
 * the caller gets the rejection.
 */
const MAX_ARRIVAL_MS = 2_000;

/**
 * Runs work that can be ended by SIGINT, SIGTERM, SIGHUP or the caller's signal: each aborts the signal passed to the
 * work. After SIGINT, SIGTERM or SIGHUP, this process ends as usual once the work has settled.
 */
export async function interruptibly<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  { signal, reason }: InterruptionOptions,
): Promise<Result> {
  const interruption = new AbortController();
  // Each command and each call of a coder may add a listener, so Node's warning about many listeners is switched off.
  setMaxListeners(0, interruption.signal);
  const unfollow = signal && onAbort(signal, (why) => interruption.abort(why));
  const running = work(interruption.signal);
  let isFinal = false;
  const forget = onTermination(async (name, isTheEnd) => {
    isFinal = isTheEnd;
    interruption.abort(reason(name));
    await Promise.allSettled([running]);
  });
  try {
    return await running;
  } catch (error) {
    // The signal is raised again, but arrives only after some turns of the event loop. This delay lets the process end
    // before its program can handle the rejection.
    if (isFinal) await delay(MAX_ARRIVAL_MS);
    throw error;
  } finally {
    forget();
    unfollow?.();
  }
}
