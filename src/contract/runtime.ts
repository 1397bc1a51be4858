import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { uptime } from "node:os";
// Vitest's fake timers don't replace this import, so calls finish even if no test advances the fake time.
import { setImmediate } from "node:timers";

/**
 * What a manager takes from the outside besides its storage: time, timers, turns of the event loop, and ids. The
 * default runtime looks up `Date`, `performance` and `setTimeout` of `globalThis` at each call, so it follows the fake
 * timers of a test. `waymark/testing` has another one, the `SimulatedRuntime`.
 */
export interface Runtime {
  /** The time of day, in milliseconds since 1970. */
  now(): number;
  /** Milliseconds since an arbitrary moment, by a clock that nobody can set. */
  elapsedMs(): number;
  /**
   * Calls `call` once, after `ms` milliseconds.
   *
   * @param isBackground - Whether the process may end before the call. Default false.
   * @returns A function that cancels the timer.
   */
  setTimeout(call: () => void, ms: number, isBackground?: boolean): () => void;
  /** Calls `call` in the next turn of the event loop. */
  setImmediate(call: () => void): void;
  /** Makes a globally unique id. */
  randomUUID(): string;
  /**
   * Returns an object or a function to use instead of `target`, whose promises depend on the outside: the manager's
   * storage or a transform. A simulated runtime waits for these promises before it lets time pass. Default: `target` is
   * used.
   */
  outside?<Target extends object>(target: Target): Target;
}

export const realRuntime: Runtime = {
  now: () => Date.now(),
  elapsedMs: () => performance.now(),
  setTimeout(call, ms, isBackground) {
    const timer = setTimeout(call, ms);
    if (isBackground) timer.unref();
    return () => clearTimeout(timer);
  },
  setImmediate: (call) => void setImmediate(call),
  randomUUID: () => randomUUID(),
};

/**
 * The largest difference of {@link monotonicMs} between two processes. Bun reports the time since the boot in seconds
 * only.
 */
export const CLOCK_SKEW_MS = "bun" in process.versions ? 1000 : 0;

/** Bun's `hrtime` counts from the start of the process, Node's from the boot. */
const BEGAN_MS = "bun" in process.versions ? Math.round(readUptime() * 1000 - performance.now()) : 0;

/** Returns the time by a clock that all processes of this machine share and nobody can set. It restarts at a reboot. */
export function monotonicMs(): number {
  return BEGAN_MS + Number(process.hrtime.bigint() / 1_000_000n);
}

/** Resolves in the next turn of the event loop. */
export function nextTurn(runtime: Runtime): Promise<void> {
  return new Promise((resolve) => runtime.setImmediate(resolve));
}

/** Calls `call` every `ms` milliseconds, in the background. Returns a function that stops the calls. */
export function repeat(runtime: Runtime, call: () => void, ms: number): () => void {
  let cancel: () => void;
  const wait = () => {
    cancel = runtime.setTimeout(
      () => {
        wait();
        call();
      },
      ms,
      true,
    );
  };
  wait();
  return () => cancel();
}

/** Reads the time since the boot, in seconds. Bun's own `uptime` returns whole seconds only. */
function readUptime(): number {
  try {
    return Number.parseFloat(readFileSync("/proc/uptime", "latin1"));
  } catch {
    // Only Linux has this file.
    return uptime();
  }
}
