import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { newStore } from "../adapters/sqlite/support.js";
import { startWorker } from "./worker-process.js";

it("attempts that are killed while they drain don't count, those that are killed before do", async () => {
  const { adapter, path } = await newStore();
  const manager = new CheckpointManager({ storage: adapter });
  const countDrains = async (taskId: string) => {
    let count = 0;
    for await (const record of manager.records(taskId, { kinds: ["mark"] })) {
      if ("name" in record && record.name === "pausing") count += 1;
    }
    return count;
  };
  const killed = async (taskId: string, drains: boolean) => {
    const drainsBefore = await countDrains(taskId);
    const worker = startWorker(path, "deaf");
    await worker.line(`${taskId} began`);
    if (drains) {
      worker.child.kill("SIGTERM");
      await expect.poll(() => countDrains(taskId)).toBe(drainsBefore + 1);
    }
    expect(await worker.ends("SIGKILL")).toEqual([null, "SIGKILL"]);
  };
  // The worker fails a task after two attempts.
  await manager.enqueue("q/drained");
  for (let n = 0; n < 3; n += 1) await killed("q/drained", true);
  await killed("q/drained", false);
  await killed("q/drained", true);
  const healthy = startWorker(path);
  await healthy.line("q/drained: Run completed");
  expect(await healthy.ends("SIGTERM")).toEqual([null, "SIGTERM"]);

  await manager.enqueue("q/poison");
  for (const drains of [false, true, false]) await killed("q/poison", drains);
  const last = startWorker(path);
  await last.line("q/poison: Run failed in step");
  expect(await last.ends("SIGTERM")).toEqual([null, "SIGTERM"]);
});
