import { setTimeout as delay } from "node:timers/promises";
import { onTermination } from "waymark/kit";

export interface InterruptionOptions {
  /** The caller's signal. It ends the work too. */
  readonly signal: AbortSignal | undefined;
  /** Makes the error that the work's signal aborts with after SIGINT, SIGTERM or SIGHUP. */
  readonly reason: (signal: NodeJS.Signals) => Error;
}

/**
 * How long to wait for a signal to arrive: far longer than it takes. If something blocks the signal, the caller gets
 * the rejection.
 */
const MAX_ARRIVAL_MS = 2_000;

/**
 * Runs work that can be ended by SIGINT, SIGTERM, SIGHUP or the caller's signal: each aborts the signal passed to the
 * work. After one of the three process signals, this process ends as usual, once the work has settled.
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
    // The signal is raised again, but arrives only after some turns of the event loop. This delay lets the process end
    // before its program can handle the rejection.
    if (isFinal) await delay(MAX_ARRIVAL_MS);
    throw error;
  } finally {
    forget();
  }
}
