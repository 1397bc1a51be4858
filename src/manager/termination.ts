/**
 * Runs when the process is told to end.
 *
 * @param isFinal - The process ends by the signal once every callback has settled; else its program listens, and decides.
 */
export type TerminationCallback = (signal: NodeJS.Signals, isFinal: boolean) => Promise<void>;

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
const callbacks = new Set<TerminationCallback>();
let ending = false;

/**
 * Calls back once on the first SIGINT or SIGTERM, so that work can be saved. When all callbacks have settled, the
 * signal is raised again, so the process ends with the exit code it would have had. If the program listens to that
 * signal itself, ending is its business, and nothing is raised. A second signal ends the process at once.
 *
 * A callback must not reject: it handles its own errors.
 *
 * @returns Its unsubscribe.
 */
export function onTermination(callback: TerminationCallback): () => void {
  if (callbacks.size === 0 && !ending) for (const signal of SIGNALS) process.on(signal, end);
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (callbacks.size === 0 && !ending) stopListening();
  };
}

function end(signal: NodeJS.Signals): void {
  ending = true;
  const othersListen = process.listenerCount(signal) > cleanupListeners() + 1;
  // From then on a second signal has its default effect: somebody who presses Ctrl-C twice means it. Not before all
  // listeners have been called: one that cleans up and sees nobody else would end the process.
  queueMicrotask(stopListening);
  void Promise.allSettled([...callbacks].map(async (callback) => callback(signal, !othersListen))).then(() => {
    ending = false;
    if (!othersListen) process.kill(process.pid, signal);
    else if (callbacks.size > 0) for (const name of SIGNALS) process.on(name, end);
  });
}

function stopListening(): void {
  for (const signal of SIGNALS) process.off(signal, end);
}

/**
 * The listeners of the package signal-exit, which proper-lockfile and execa clean up with: they leave ending the process
 * to others as long as others listen, and do end it when the signal is raised again. Its versions count each other's in
 * the same two places.
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
