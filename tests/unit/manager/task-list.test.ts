import { expect, it } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { recordingLogger } from "../../support/recording-logger.js";
import { withMembers } from "../../support/with-members.js";

it("a damaged task takes no place within a limit", async () => {
  const storage = new MemoryAdapter();
  const damaged = withMembers<StorageAdapter>(storage, {
    async *tasks(query) {
      yield { corrupt: true, location: "here", reason: "it can't be read", taskId: "a" };
      yield* storage.tasks(query);
    },
  });
  const manager = new CheckpointManager({ storage: damaged, logger: recordingLogger() });
  for (const taskId of ["b", "c"]) await manager.save(taskId, 1);
  const ids = (await manager.tasks({ limit: 1 })).map(({ taskId }) => taskId);
  expect(ids).toEqual(["b"]);
});

it.each([1, 2, 5])("a limit of %i counts the tasks with the status alone, among many others", async (limit) => {
  const { storage, manager } = await manyTasks();
  const asked: (number | undefined)[] = [];
  const counted = withMembers<StorageAdapter>(storage, {
    tasks(query) {
      asked.push(query.limit);
      return storage.tasks(query);
    },
  });
  const reader = new CheckpointManager({ storage: counted, logger: recordingLogger() });
  // A failed task that is held counts as running, so the storage can't select by status.
  const found = await reader.tasks({ status: ["waiting", "queued"], limit });
  expect(found.map(({ taskId }) => taskId)).toEqual(["y", "z"].slice(0, limit));
  expect(asked[0]).toBe(limit);
  expect(asked.slice(1)).toEqual(asked.slice(0, -1).map((before) => 4 * before!));
  await manager.close();
});

/** 40 paused tasks without a run, and two queued ones behind them. */
async function manyTasks() {
  const storage = new MemoryAdapter();
  const manager = new CheckpointManager({ storage, logger: recordingLogger(), ownsStorage: false });
  for (let n = 0; n < 40; n++) await manager.save(`a${n}`, n, { status: "paused" });
  for (const taskId of ["y", "z"]) await manager.enqueue(taskId, {});
  return { storage, manager };
}
