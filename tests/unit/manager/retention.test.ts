import { describe, expect, it } from "vitest";
import { CheckpointManager, type CheckpointManagerOptions, type CheckpointSummary } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { recordingLogger } from "../../support/recording-logger.js";

const DAY_MS = 86_400_000;

function managerAtDay(options: Partial<CheckpointManagerOptions> = {}) {
  const time = { day: 0 };
  const clock = () => time.day * DAY_MS;
  return { time, manager: new CheckpointManager({ storage: new MemoryAdapter(), clock, ...options }) };
}

/** Damages a payload but not its header, so that no list shows the damage. */
function damagePayload(storage: MemoryAdapter, { taskId, id }: CheckpointSummary): void {
  const get = storage.get.bind(storage);
  storage.get = async (...wanted) => {
    const record = await get(...wanted);
    return record && wanted[0] === taskId && wanted[1] === id
      ? { ...record, payload: { ...record.payload, body: "damaged" } }
      : record;
  };
}

const sequencesOf = async (manager: CheckpointManager, taskId = "t") =>
  (await manager.list(taskId)).map(({ sequence }) => sequence);

describe("retention after a save", () => {
  it("applies any other policy according to its plan", async () => {
    const { manager, time } = managerAtDay({
      retention: { keepLast: 2, keepStages: ["release"], maxAgeMs: 10 * DAY_MS },
    });
    await manager.save("t", 1, { stage: "release" });
    for (time.day = 1; time.day <= 4; time.day++) await manager.save("t", time.day);
    expect(await sequencesOf(manager)).toEqual([5, 4, 1]);
    time.day = 12;
    await manager.save("t", 12);
    expect(await sequencesOf(manager)).toEqual([6, 5]);
  });

  it("never fails the save, and logs what went wrong", async () => {
    const logger = recordingLogger();
    const storage = new MemoryAdapter();
    storage.remove = async () => {
      throw new Error("read-only");
    };
    const manager = new CheckpointManager({ storage, retention: { keepLast: 1 }, logger });
    await manager.save("t", 1);
    expect((await manager.save("t", 2)).sequence).toBe(2);
    expect(logger.lines).toContainEqual(
      expect.objectContaining({ level: "error", message: expect.stringContaining("the save is stored") }),
    );
  });
});

describe("prune", () => {
  it("removes the plan's checkpoints, even if there are new saves since", async () => {
    const { manager } = managerAtDay();
    for (const n of [1, 2, 3]) await manager.save("t", n);
    const plan = await manager.retention.plan("t", { keepLast: 1 });
    expect(await sequencesOf(manager)).toEqual([3, 2, 1]);
    await manager.save("t", 4);
    expect(await manager.retention.apply(JSON.parse(JSON.stringify(plan)))).toEqual({
      tasks: 1,
      removed: 2,
      removedBytes: 2,
      failures: [],
    });
    expect(await sequencesOf(manager)).toEqual([4, 3]);
    expect(await manager.retention.apply(plan)).toMatchObject({ tasks: 1, removed: 0, removedBytes: 0 });
  });

  it("refuses a plan if a checkpoint it keeps is gone, or one it removes has another status", async () => {
    const { manager } = managerAtDay();
    const first = await manager.save("t", 1);
    const second = await manager.save("t", 2);
    const plan = await manager.retention.plan("t", { keepLast: 1 });
    await manager.setStatus("t", first.id, "failed", { error: "late news" });
    await expect(manager.retention.apply(plan)).rejects.toMatchObject({ code: "PLAN_OUTDATED" });
    await expect(manager.retention.apply(plan)).rejects.toThrow(`${first.id}, which it removes, is failed now`);
    const next = await manager.retention.plan("t", { keepLast: 1 });
    await manager.remove("t", second.id);
    await expect(manager.retention.apply(next)).rejects.toThrow(`${second.id}, which it keeps, is gone`);
    expect(await sequencesOf(manager)).toEqual([1]);
  });

  it("takes a task and a policy, or the manager's own", async () => {
    const storage = new MemoryAdapter();
    const plain = new CheckpointManager({ storage });
    for (const n of [1, 2, 3]) await plain.save("t", n);
    expect(await plain.retention.prune("t", { keepLast: 2 })).toMatchObject({
      removed: 1,
      removedBytes: 1,
      failures: [],
    });
    await expect(plain.retention.prune("t")).rejects.toThrow("There is no retention policy");
    await expect(plain.retention.prune("t", { keepLst: 1 } as object)).rejects.toThrow("keepLst");
    const own = new CheckpointManager({ storage, retention: { keepLast: 1 } });
    expect(await own.retention.prune("t")).toMatchObject({ removed: 1 });
  });

  it("prunes every task, and returns the totals", async () => {
    const { manager } = managerAtDay();
    for (const taskId of ["a", "b"]) for (const n of [1, 2, 3]) await manager.save(taskId, n);
    await manager.save("c", 1);
    expect(await manager.retention.prune({ all: true }, { keepLast: 1 })).toEqual({
      tasks: 3,
      removed: 4,
      removedBytes: 4,
      failures: [],
    });
    await expect(manager.retention.prune({ all: true })).rejects.toThrow(TypeError);
  });

  it("prunes only the tasks under a prefix", async () => {
    const { manager } = managerAtDay();
    for (const taskId of ["a/1", "a/2", "b"]) for (const n of [1, 2]) await manager.save(taskId, n);
    expect(await manager.retention.prune({ prefix: "a/" }, { keepLast: 1 })).toMatchObject({ tasks: 2, removed: 2 });
    expect(await sequencesOf(manager, "b")).toEqual([2, 1]);
  });

  it("emits an event for removed checkpoints, and none if nothing was removed", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    const removed: unknown[] = [];
    manager.on("removed", (event) => removed.push(event));
    const { id } = await manager.save("t", 1);
    expect(await manager.remove("t", "nowhere")).toBe(false);
    expect(await manager.removeTask("u")).toBe(0);
    expect(removed).toEqual([]);
    expect(await manager.remove("t", id)).toBe(true);
    expect(removed).toEqual([{ taskId: "t", ids: [id], by: "request" }]);
  });

  it("refuses a value that isn't a plan", async () => {
    const { manager } = managerAtDay();
    for (const n of [1, 2, 3]) await manager.save("t", n);
    const plan = await manager.retention.plan("t", { keepLast: 1 });
    const part = { checkpoint: {}, reasons: [] };
    for (const wrong of [
      null,
      { ...plan, keep: undefined },
      { ...plan, keep: [...plan.keep, part] },
      { ...plan, remove: [...plan.remove, part] },
    ]) {
      await expect(manager.retention.apply(wrong as typeof plan)).rejects.toThrow(
        "retention.apply needs a plan made by retention.plan",
      );
    }
    expect(await sequencesOf(manager)).toEqual([3, 2, 1]);
  });

  it("removes nothing if none of the checkpoints to keep can be read", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage, logger: recordingLogger() });
    await manager.save("t", 1);
    damagePayload(storage, await manager.save("t", 2));
    await expect(manager.retention.prune("t", { keepLast: 1 })).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
    });
    expect(await sequencesOf(manager)).toEqual([2, 1]);
    await manager.save("t", 3);
    expect(await manager.retention.prune("t", { keepLast: 2 })).toMatchObject({ removed: 1 });
  });

  it("prunes every other task if one is damaged, and reports which one and why", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage, logger: recordingLogger() });
    for (const taskId of ["a", "b", "c"]) for (const n of [1, 2, 3]) await manager.save(taskId, n);
    damagePayload(storage, await manager.save("b", 4));
    const result = await manager.retention.prune({ all: true }, { keepLast: 1 });
    expect(result).toMatchObject({ tasks: 3, removed: 4, removedBytes: 4 });
    expect(result.failures).toEqual([
      {
        taskId: "b",
        error: expect.objectContaining({ code: "CHECKPOINT_CORRUPT", message: expect.stringContaining('"b"') }),
      },
    ]);
    expect(await sequencesOf(manager, "b")).toEqual([4, 3, 2, 1]);
    expect(await sequencesOf(manager, "c")).toEqual([3]);
  });

  it("keeps the newest of an incomplete task, whatever its age", async () => {
    const { manager, time } = managerAtDay();
    await manager.save("t", 1);
    await manager.save("done", 1, { status: "completed" });
    time.day = 100;
    expect(await manager.retention.prune({ all: true }, { maxAgeMs: DAY_MS })).toMatchObject({ removed: 1 });
    expect(await sequencesOf(manager)).toEqual([1]);
  });
});
