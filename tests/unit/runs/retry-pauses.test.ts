// The pauses between a step's retries. The timer is mocked.
import { expect, it, vi } from "vitest";
import { managerOn } from "./run-support.js";

const pauses = vi.hoisted((): number[] => []);
vi.mock("node:timers/promises", async (original) => ({
  ...(await original<typeof import("node:timers/promises")>()),
  setTimeout: async (ms: number) => void pauses.push(ms),
}));

it.each([
  [{ times: 3 }, [1000, 2000, 4000]],
  [{ times: 3, backoffMs: 10, factor: 3 }, [10, 30, 90]],
  [{ times: 3, backoffMs: 10, factor: 3, maxMs: 50 }, [10, 30, 50]],
  [{ times: 3, if: (error: unknown) => error instanceof RangeError && error.message !== "2" }, [1000]],
])("%j pauses for %j ms", async (retry, expected) => {
  pauses.length = 0;
  const failing = managerOn().manager.run("t", (run) =>
    run.step("a", ({ attempt }) => Promise.reject(new RangeError(`${attempt}`)), { retry }),
  );
  await expect(failing).rejects.toThrow(RangeError);
  expect(pauses).toEqual(expected);
});
