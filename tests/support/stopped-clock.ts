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

/** The pause of a worker between two looks, of a wait between its first two, and before a run that waits is suspended. */
const PAUSE_MS = 250;

/** Ends those pauses of this process at once until the test is over. Leases and time limits keep their time. */
export function skipPauses(): void {
  const { setTimeout } = globalThis;
  vi.stubGlobal("setTimeout", (act: () => void, ms = 0) => setTimeout(act, ms === PAUSE_MS ? 0 : ms));
  onTestFinished(() => void vi.unstubAllGlobals());
}
