// Tests the errors for a task with damaged checkpoints on the disk, and for states without a migration path.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { tempFolder } from "../../support/temp-folder.js";

/** Makes a manager of task `t` with three checkpoints, and damages the checkpoints with these sequences. */
async function damaged(...sequences: readonly number[]) {
  const root = await tempFolder();
  const storage = new JsonFileAdapter({ path: root });
  const manager = new CheckpointManager({
    storage,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  });
  for (const n of [1, 2, 3]) await manager.save("t", { n }, { id: `c${n}` });
  const names = readdirSync(join(root, "t")).filter((name) => name.endsWith(".json"));
  const contents = () =>
    names
      .filter((name) => existsSync(join(root, "t", name)))
      .map((name) => readFileSync(join(root, "t", name), "latin1"));
  for (const sequence of sequences) {
    const path = join(root, "t", names[sequence - 1] ?? "");
    writeFileSync(path, readFileSync(path, "utf8").replace('"status":"running"', '"status":"runninG"'));
  }
  return { manager, storage, contents, newest: join(root, "t", names[2] ?? "") };
}

describe("a task without an intact checkpoint", () => {
  it("makes each read fail with an error that counts the damaged checkpoints and names the first", async () => {
    const { manager, contents, newest } = await damaged(1, 2, 3);
    const before = contents();
    const corrupt = {
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringContaining(`3 can't be read (the first at ${newest}: its status is unknown)`),
    };
    await expect(manager.latest("t")).rejects.toMatchObject(corrupt);
    await expect(manager.list("t")).rejects.toMatchObject(corrupt);
    await expect(manager.history("t").next()).rejects.toMatchObject(corrupt);
    await expect(manager.tasks()).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    expect(contents()).toEqual(before);
  });

  it("can be removed with all tasks of its prefix", async () => {
    const { manager, contents } = await damaged(1, 2, 3);
    expect(await manager.removeTask({ prefix: "t" })).toBe(3);
    expect(contents()).toEqual([]);
    expect(await manager.has("t")).toBe(false);
  });
});

describe("a task with an intact checkpoint", () => {
  it("is read without its damaged checkpoints", async () => {
    const { manager } = await damaged(1, 3);
    expect((await manager.latest("t"))?.id).toBe("c2");
    expect((await manager.list("t")).map(({ id }) => id)).toEqual(["c2"]);
    expect((await manager.history("t").next()).value?.id).toBe("c2");
    expect((await manager.tasks()).map(({ newest }) => newest.id)).toEqual(["c2"]);
    // Damage elsewhere doesn't turn a missing checkpoint into an error.
    expect(await manager.list("t", { status: "completed" })).toEqual([]);
  });

  it("keeps damaged checkpoints when retention removes others", async () => {
    const { storage, contents } = await damaged(2);
    const before = contents()[1];
    const manager = new CheckpointManager({ storage, retention: { keepLast: 1 } });
    await manager.save("t", { n: 4 }, { id: "c4" });
    expect((await manager.list("t")).map(({ id }) => id)).toEqual(["c4"]);
    expect(contents()).toEqual([before]);
  });

  it("isn't completed if its newest checkpoint is damaged, which the error names", async () => {
    const { manager, contents, newest } = await damaged(3);
    const before = contents();
    await expect(manager.complete("t")).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringContaining(newest),
    });
    expect(contents()).toEqual(before);
  });
});

it("an error names the missing checkpoint, or else its task", async () => {
  const manager = new CheckpointManager({ storage: new MemoryAdapter() });
  const missing = { code: "CHECKPOINT_NOT_FOUND", taskId: "t" };
  const message =
    'Task "t" has no checkpoint. Nothing was changed. Check the id and the storage: `manager.tasks()` lists the tasks.';
  for (const change of [() => manager.complete("t"), () => manager.cancel("t", "late"), () => manager.retry("t")])
    await expect(change()).rejects.toMatchObject({ ...missing, message });
  await expect(manager.restore("t", "c1")).rejects.toMatchObject({
    ...missing,
    id: "c1",
    message: expect.stringContaining('Task "t" has no checkpoint "c1"'),
  });
});

it("a state whose migration is missing is refused with an error that names the migration", async () => {
  const storage = new MemoryAdapter();
  await new CheckpointManager({ storage }).save("t", { n: 1 });
  const manager = new CheckpointManager({ storage, stateVersion: 3, migrations: { 1: (state) => state } });
  await expect(manager.latest("t")).rejects.toMatchObject({
    code: "UNSUPPORTED_FORMAT",
    message: expect.stringContaining("there is no migration from version 2 to 3"),
  });
});
