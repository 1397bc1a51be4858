import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { createBuildCheckpoints } from "waymark/builds";
import { connect, newStore, openAdapter } from "./support.js";

/** A driver whose application reads integers as bigints. */
class WithBigints extends Database {
  constructor(path?: string, options?: Database.Options) {
    super(path, options);
    this.defaultSafeIntegers(true);
    this.unsafeMode(true);
  }
}

it("reads every row with a driver that returns bigints", async () => {
  const { path, adapter: storage } = await newStore({ driver: WithBigints });
  const manager = new CheckpointManager({ storage });
  for (let n = 1; n <= 5; n++) await manager.save("t", { n, text: "long".repeat(500) });
  expect(await manager.latest("t")).toMatchObject({ sequence: 5, state: { n: 5 } });
  const lease = await manager.lease("t");
  await manager.save("t", { n: 6 }, { lease });
  expect(await manager.leaseOf("t")).toMatchObject({ holder: lease.holder });
  await lease.release();
  await manager.enqueue("queued", { n: 1 });
  const due = { prefix: "queued", dueBy: "9999-01-01T00:00:00.000Z" };
  expect(await storage.queue.count(due)).toMatchObject({ tasks: 1 });
  expect(await storage.queue.claimNext(due, "me", 10_000, 1)).toEqual([{ taskId: "queued", token: 1 }]);
  expect(await manager.maintenance.verify()).toMatchObject({ tasks: 2, checkpoints: 7, findings: [] });
  expect(await manager.maintenance.repair()).toMatchObject({ steps: [] });
  const other = new CheckpointManager({ storage: openAdapter({ path }) });
  expect(await manager.tasks()).toEqual(await other.tasks());
});

it("keeps builds with a driver that returns bigints", async () => {
  const { path } = await newStore();
  using builds = createBuildCheckpoints({ path, driver: WithBigints });
  builds.saveCheckpoint("b", { tasks: [{ id: "compile" }], currentPhase: 2 });
  expect(builds.getLatestCheckpoint("b")).toMatchObject({ currentPhase: 2 });
  expect(connect(path).prepare("SELECT count(*) FROM checkpoints").pluck().get()).toBe(1);
});
