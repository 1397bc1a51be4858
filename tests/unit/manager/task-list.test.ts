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
