import { processState } from "../contract/process-state.js";

/**
 * Called when the process gets SIGINT, SIGTERM or SIGHUP.
 *
 * @param isFinal - True if the signal ends the process once all callbacks have settled. False if the program listens to
 *   the signal itself and decides when the process ends.
 */
export type TerminationCallback = (signal: NodeJS.Signals, isFinal: boolean) => Promise<void>;

/** A process gets SIGHUP when its terminal is closed. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** Shared by all copies of this package. Otherwise a copy would mistake another copy's listener for the program's. */
const TERMINATION = processState("termination.1", () => ({
  callbacks: new Set<TerminationCallback>(),
  isEnding: false,
  listener: end,
}));

/**
 * Calls `callback` on the first SIGINT, SIGTERM or SIGHUP, so that work can be saved. Once all callbacks have settled,
 * it raises the signal again, so the process ends with its usual exit code. If the program listens to the signal
 * itself, the signal isn't raised again, and the program decides when to end. A second signal ends the process at once.
 *
 * A callback must not reject; it handles its own errors.
 *
 * @returns A function that unsubscribes.
 */
export function onTermination(callback: TerminationCallback): () => void {
  const { callbacks } = TERMINATION;
  if (callbacks.size === 0 && !TERMINATION.isEnding) listen();
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (callbacks.size === 0 && !TERMINATION.isEnding) stopListening();
  };
}

function end(signal: NodeJS.Signals): void {
  const { callbacks } = TERMINATION;
  TERMINATION.isEnding = true;
  const othersListen = process.listenerCount(signal) > cleanupListeners() + 1;
  // From now on a second Ctrl-C has its default effect. The listeners are removed only after all of them were called,
  // because signal-exit ends the process if its listener is the last one.
  queueMicrotask(stopListening);
  void Promise.allSettled([...callbacks].map(async (callback) => callback(signal, !othersListen))).then(() => {
    TERMINATION.isEnding = false;
    if (!othersListen) process.kill(process.pid, signal);
    else if (callbacks.size > 0) listen();
  });
}

function listen(): void {
  for (const signal of SIGNALS) process.on(signal, TERMINATION.listener);
}

function stopListening(): void {
  for (const signal of SIGNALS) process.off(signal, TERMINATION.listener);
}

/**
 * Counts the listeners of signal-exit, which many libraries use to clean up. They don't end the process while others
 * listen, so they don't count as the program's listeners. All versions of signal-exit keep their number in these two
 * places.
 */
function cleanupListeners(): number {
  const emitters: unknown[] = [
    Reflect.get(process, "__signal_exit_emitter__"),
    Reflect.get(globalThis, Symbol.for("signal-exit emitter")),
  ];
  return emitters.reduce<number>((total, emitter) => {
    const hasCount = typeof emitter === "object" && emitter !== null && "count" in emitter;
    return total + (hasCount && typeof emitter.count === "number" ? emitter.count : 0);
  }, 0);
}
