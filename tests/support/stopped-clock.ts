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
