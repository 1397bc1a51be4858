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
