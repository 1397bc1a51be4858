import { onTestFinished, vi } from "vitest";

/** Stops this process's clock until the end of the test, so that an age is the same on every machine. */
export function stopClock() {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass(ms: number): void {
      vi.setSystemTime(Date.now() + ms);
    },
  };
}

/** Stops the timeouts of this process. The test lets them expire, however slowly the awaited work begins. */
export function stopTimeouts() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass(ms: number): void {
      vi.advanceTimersByTime(ms);
    },
  };
}

/** The pauses between polls for a task, an event or a run's end, and the pause before a waiting run is suspended. */
const PAUSES_MS = [250, 500, 1000, 2000];

/** Shortens the polling pauses of this process until the end of the test. Leases and time limits stay the same. */
export function shortenPauses(): void {
  const { setTimeout } = globalThis;
  const shortened = (act: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
    setTimeout(act, PAUSES_MS.includes(ms) ? 1 : ms, ...args);
  vi.stubGlobal("setTimeout", shortened);
  onTestFinished(() => void vi.unstubAllGlobals());
}
