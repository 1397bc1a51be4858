import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { recordingLogger } from "../../support/recording-logger.js";

/** A memory adapter that calls `meanwhile` between reading the newest checkpoint and changing its status. */
function memoryWith(meanwhile: (storage: MemoryAdapter) => Promise<unknown>) {
  const storage = new MemoryAdapter();
  const setStatus = storage.setStatus.bind(storage);
  storage.setStatus = async (...change) => {
    await meanwhile(storage);
    return setStatus(...change);
  };
  return { storage, manager: new CheckpointManager({ storage }) };
}

describe("complete and fail beside another writer", () => {
  it("end in a conflict if the newest checkpoint was removed by the other writer's retention", async () => {
    const { manager } = memoryWith((storage) =>
      new CheckpointManager({ storage, retention: { keepLast: 1 } }).save("t", "the other's"),
    );
    const { sequence } = await manager.save("t", 1);
    await expect(manager.complete("t")).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    await expect(manager.fail("t", new Error("late"))).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    await expect(manager.complete("t", { expectedSequence: sequence })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
    });
    expect((await manager.latest("t"))?.status).toBe("running");
  });

  it("end in CHECKPOINT_NOT_FOUND if the whole task was removed", async () => {
    const { manager } = memoryWith((storage) => storage.remove("t", "all"));
    await manager.save("t", 1);
    await expect(manager.complete("t")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });
});

it("complete, fail, cancel and retry of a run are records of its log, stored with the change", async () => {
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), logger: recordingLogger() });
  await expect(manager.run("t", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  await manager.retry("t");
  await manager.cancel("t", "not needed");
  await manager.enqueue("u");
  await manager.complete("u");
  await manager.save("plain", 1);
  await manager.complete("plain");
  const changes = async (taskId: string) => {
    const values: unknown[] = [];
    for await (const record of manager.records(taskId, { kinds: ["run"] })) {
      if ("value" in record) values.push(record.value);
    }
    return values.filter((value) => JSON.stringify(value).includes('"type":"status"'));
  };
  expect(await changes("t")).toMatchObject([
    { type: "status", status: "paused" },
    { type: "status", status: "failed", error: { message: "not needed" } },
  ]);
  expect(await changes("u")).toEqual([{ type: "status", status: "completed" }]);
  expect(await changes("plain")).toEqual([]);
});
