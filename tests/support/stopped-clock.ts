import { onTestFinished, vi } from "vitest";

/** Stops this process's clock until the test is over, so that an age is the same on any machine. */
export function stopClock() {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass(ms: number): void {
      vi.setSystemTime(Date.now() + ms);
    },
  };
}

/** Lets the timeouts of this process expire when the test says so, however slowly the awaited work begins. */
export function stopTimeouts() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass(ms: number): void {
      vi.advanceTimersByTime(ms);
    },
  };
}

/** The pauses between two looks for a task, an event or a run's end, and the one before a run that waits is suspended. */
const PAUSES_MS = [250, 500, 1000, 2000];

/** Shortens those pauses of this process until the test is over. Leases and time limits keep their time. */
export function shortenPauses(): void {
  const { setTimeout } = globalThis;
  const shortened = (act: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
    setTimeout(act, PAUSES_MS.includes(ms) ? 1 : ms, ...args);
  vi.stubGlobal("setTimeout", shortened);
  onTestFinished(() => void vi.unstubAllGlobals());
}
