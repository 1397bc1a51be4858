// Tests the pauses between a step's retries.
import { expect, it } from "vitest";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { managerOn } from "./run-support.js";

it.each([
  [{ times: 3 }, [0, 1000, 3000, 7000]],
  [{ times: 3, backoffMs: 10, factor: 3 }, [0, 10, 40, 130]],
  [{ times: 3, backoffMs: 10, factor: 3, maxMs: 50 }, [0, 10, 40, 90]],
  [{ times: 3, if: (error: unknown) => error instanceof RangeError && error.message !== "2" }, [0, 1000]],
])("with %j the tries are at %j ms", async (retry, expected) => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const { manager } = managerOn(new MemoryAdapter({ runtime }), { runtime });
  const triedMs: number[] = [];
  const failed = expect(
    manager.run("t", (run) =>
      run.step(
        "a",
        ({ attempt }) => {
          triedMs.push(runtime.now());
          return Promise.reject(new RangeError(`${attempt}`));
        },
        { retry },
      ),
    ),
  ).rejects.toThrow(RangeError);
  await runtime.advance(60_000);
  await failed;
  expect(triedMs).toEqual(expected);
});
