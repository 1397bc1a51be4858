import { onTestFinished, vi } from "vitest";

/** The clock of this process stands still until the test is over, so that an age is the same on any machine. */
export function stopClock() {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass(ms: number): void {
      vi.setSystemTime(Date.now() + ms);
    },
  };
}

/** The timeouts of this process run out when the test says so, however long what they are for takes to begin. */
export function stopTimeouts() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass(ms: number): void {
      vi.advanceTimersByTime(ms);
    },
  };
}
