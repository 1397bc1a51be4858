import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type CorruptRecord, type StorageAdapter, UnsupportedFormatError } from "waymark";
import { recordingLogger } from "../../../support/recording-logger.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const stores = {
  "json-file": { make: newJsonStore, fileName: "000000000002-newer.json", newer: '{"waymark":2,"what":"ever"}\n' },
  "task-file": { make: newTaskStore, fileName: "checkpoints.json", newer: '{"version":"2.0","checkpoints":[\n]}\n' },
};

describe.each(Object.entries(stores))("a list of tasks of %s", (_kind, { make, fileName, newer }) => {
  it("tells of a task's folder that is a link, and goes on with the others", async () => {
    const { root, adapter } = await make();
    for (const taskId of ["a", "b", "long/".repeat(60), "z"]) await adapter.append(draft(taskId, "1"));
    const hashed = readdirSync(root).find((name) => name.includes("~")) ?? "";
    const elsewhere = await tempFolder();
    for (const name of ["b", hashed]) {
      renameSync(join(root, name), join(elsewhere, name));
      symlinkSync(join(elsewhere, name), join(root, name));
    }
    const link = (name: string) => ({
      corrupt: true,
      location: join(root, name),
      reason: "it is a symbolic link, which is not followed",
    });

    const [ofHashed, ofB] = [link(hashed), { ...link("b"), taskId: "b" }];
    const [a, z] = [{ taskId: "a" }, { taskId: "z" }];
    expect(await shown(adapter, { order: "taskId" })).toMatchObject([ofHashed, a, ofB, z]);
    expect(await shown(adapter, { order: "recent" })).toMatchObject([ofHashed, ofB, a, z]);
    expect(await shown(adapter, { order: "taskId", after: "a", limit: 1 })).toMatchObject([ofHashed, ofB, z]);
    expect(await shown(adapter, { order: "taskId", prefix: "b" })).toMatchObject([ofHashed, ofB]);
    expect((await shown(adapter, { order: "taskId" }))[0]).not.toHaveProperty("taskId");
  });

  it("emits `corrupt` for such a link, and is an error where nothing else is left", async () => {
    const { root, adapter } = await make();
    await using manager = new CheckpointManager({ storage: adapter, logger: recordingLogger() });
    for (const taskId of ["a", "b"]) await manager.save(taskId, 1);
    const elsewhere = join(await tempFolder(), "b");
    renameSync(join(root, "b"), elsewhere);
    symlinkSync(elsewhere, join(root, "b"));
    const corrupt: CorruptRecord[] = [];
    manager.on("corrupt", (record) => corrupt.push(record));

    expect((await manager.tasks()).map(({ taskId }) => taskId)).toEqual(["a"]);
    expect((await manager.findIncomplete()).map(({ taskId }) => taskId)).toEqual(["a"]);
    expect(await manager.pruneAll({ keepLast: 1 })).toMatchObject({ tasks: 1 });
    expect(corrupt.map(({ taskId, location }) => ({ taskId, location }))).toEqual(
      Array(3).fill({ taskId: "b", location: join(root, "b") }),
    );
    await manager.removeTask("a");
    await expect(manager.tasks()).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    rmSync(join(root, "b"));
    expect(await manager.tasks()).toEqual([]);
  });

  it("is refused where a newer program wrote one of them, which is no damage; the file is named", async () => {
    const { root, adapter } = await make();
    await using manager = new CheckpointManager({ storage: adapter, logger: recordingLogger() });
    const corrupt: CorruptRecord[] = [];
    manager.on("corrupt", (record) => corrupt.push(record));
    for (const taskId of ["a", "z"]) await manager.save(taskId, 1);
    const path = join(root, "newer", fileName);
    mkdirSync(dirname(path));
    writeFileSync(path, newer);

    for (const call of [
      () => manager.tasks(),
      () => manager.tasks({ order: "recent" }),
      () => manager.findIncomplete(),
      () => manager.pruneAll({ keepLast: 1 }),
    ]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(UnsupportedFormatError);
      expect((error as Error).message).toContain(`${path} has format version`);
    }
    // The others are there for whoever knows their names, and lists that don't ask for that one are whole.
    expect((await manager.latest("z"))?.state).toBe(1);
    expect((await manager.tasks({ prefix: "a" })).map(({ taskId }) => taskId)).toEqual(["a"]);
    expect(corrupt).toEqual([]);
  });
});

async function shown(adapter: StorageAdapter, query: Parameters<StorageAdapter["tasks"]>[0]) {
  return collect(adapter.tasks(query));
}
