import { setTimeout as delay } from "node:timers/promises";
import { onTermination } from "waymark/kit";

export interface InterruptionOptions {
  /** Ends the work too. */
  readonly signal: AbortSignal | undefined;
  /** The reason with which the work's signal aborts on SIGINT, SIGTERM or SIGHUP. */
  readonly reason: (signal: NodeJS.Signals) => Error;
}

/** Far longer than a signal takes to arrive. If something holds it back, the caller gets the rejection. */
const MAX_ARRIVAL_MS = 2_000;

/**
 * Does work that ends on SIGINT, SIGTERM, SIGHUP and on a signal of the caller's: each aborts the signal that the work is
 * given. After one of the first three this process ends as it would have, once the work has settled.
 */
export async function interruptibly<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  { signal, reason }: InterruptionOptions,
): Promise<Result> {
  const interruption = new AbortController();
  const running = work(signal === undefined ? interruption.signal : AbortSignal.any([interruption.signal, signal]));
  let isFinal = false;
  const forget = onTermination(async (name, isTheEnd) => {
    isFinal = isTheEnd;
    interruption.abort(reason(name));
    await Promise.allSettled([running]);
  });
  try {
    return await running;
  } catch (error) {
    // The signal is raised again and takes some turns of the event loop to arrive. Waits, so that this process ends by
    // it before its program can handle the rejection.
    if (isFinal) await delay(MAX_ARRIVAL_MS);
    throw error;
  } finally {
    forget();
  }
}
