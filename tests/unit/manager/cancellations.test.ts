import { expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { watchCancellation } from "../../../src/manager/cancellations.js";
import { withMembers } from "../../support/with-members.js";

/** Returns the times at which a watch polls for a cancellation. `hint` is the storage's. */
async function watching(worksAlready: boolean) {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  const { token } = await inner.leases.claim("t", "us", 60_000);
  const looks: number[] = [];
  let hint: () => void = () => undefined;
  const storage = withMembers<StorageAdapter>(inner, {
    capabilities: { ...inner.capabilities, multiProcess: true },
    log: withMembers(inner.log, {
      watch(changed) {
        hint = changed;
        if (worksAlready) changed();
        return () => undefined;
      },
    }),
    leases: withMembers(inner.leases, {
      current(taskId) {
        looks.push(runtime.now());
        return inner.leases.current(taskId);
      },
    }),
  });
  watchCancellation(
    { storage, runtime },
    "t",
    () => token,
    () => undefined,
  );
  return { runtime, looks, hint: () => hint() };
}

it("looks at each hint of a watch that works already, at most every 20 ms", async () => {
  const { runtime, looks, hint } = await watching(true);
  await runtime.advance(100);
  expect(looks).toEqual([]);
  hint();
  hint();
  await runtime.advance(50);
  expect(looks).toEqual([100, 120]);
});

it("looks 20 ms after a watch has begun to work, since an earlier change may have been missed", async () => {
  const { runtime, looks, hint } = await watching(false);
  hint();
  await runtime.advance(50);
  expect(looks).toEqual([20]);
});
