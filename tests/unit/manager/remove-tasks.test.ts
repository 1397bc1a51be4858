import { describe, expect, it } from "vitest";
import { CheckpointManager, type Notifications, type StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";

/** The memory adapter without its own `removePrefix`. */
function oneByOne(): StorageAdapter {
  const storage = new MemoryAdapter();
  Object.defineProperty(storage, "removePrefix", { value: undefined });
  return storage;
}

const STORAGES: Record<string, () => StorageAdapter> = {
  "in one step": () => new MemoryAdapter(),
  "task by task": oneByOne,
};

it("removeTask uses the storage's removePrefix if there is one", async () => {
  const storage = new MemoryAdapter();
  const asked: string[] = [];
  const removePrefix = storage.removePrefix.bind(storage);
  storage.removePrefix = async (prefix) => {
    asked.push(prefix);
    return removePrefix(prefix);
  };
  const manager = new CheckpointManager({ storage });
  for (const taskId of ["a/1", "a/2"]) await manager.save(taskId, 1);
  expect(await manager.removeTask({ prefix: "a/" })).toBe(2);
  expect(asked).toEqual(["a/"]);
});

describe.each(Object.entries(STORAGES))("removeTask of a prefix, %s,", (_name, open) => {
  it("removes the tasks under a prefix, ends their numbering, and returns the number of their checkpoints", async () => {
    const manager = new CheckpointManager({ storage: open() });
    for (const taskId of ["a/1", "a/2", "a/2", "ab", "A/1", "b/a/1"]) await manager.save(taskId, taskId);
    const removed: Notifications["removed"][] = [];
    manager.on("removed", (event) => removed.push(event));

    expect(await manager.removeTask({ prefix: "a/" })).toBe(3);
    expect((await manager.tasks()).map(({ taskId }) => taskId)).toEqual(["A/1", "ab", "b/a/1"]);
    expect(removed).toEqual([
      { taskId: "a/1", ids: "all", by: "request" },
      { taskId: "a/2", ids: "all", by: "request" },
    ]);
    expect((await manager.save("a/2", "again")).sequence).toBe(1);
    expect(await manager.removeTask({ prefix: "nowhere/" })).toBe(0);
    expect(removed).toHaveLength(2);
  });

  it("lets an auto-save of a removed task store its state again", async () => {
    const manager = new CheckpointManager({ storage: open() });
    const autoSave = manager.autoSave("a/1", () => ({ n: 1 }));
    await autoSave.flush();
    await manager.removeTask({ prefix: "a/" });
    await autoSave.flush();
    expect(await manager.list("a/1")).toHaveLength(1);
    await manager.close();
  });

  it("refuses a lease, which is for one task", async () => {
    const manager = new CheckpointManager({ storage: open() });
    await using lease = await manager.lease("a/1");
    await manager.save("a/1", 1, { lease });
    const removeTask = manager.removeTask.bind(manager) as (task: object, options: object) => Promise<number>;
    await expect(removeTask({ prefix: "a/" }, { lease })).rejects.toThrow("a lease for one task");
    expect(await manager.has("a/1")).toBe(true);
  });
});
