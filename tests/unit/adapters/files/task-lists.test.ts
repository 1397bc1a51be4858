import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type CorruptRecord, UnsupportedFormatError } from "waymark";
import { recordingLogger } from "../../../support/recording-logger.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const stores = {
  "json-file": { make: newJsonStore, fileName: "000000000002-newer.json", newer: '{"waymark":2,"what":"ever"}\n' },
  "task-file": { make: newTaskStore, fileName: "checkpoints.json", newer: '{"version":"2.0","checkpoints":[\n]}\n' },
};

describe.each(Object.entries(stores))("a list of %s tasks", (_kind, { make, fileName, newer }) => {
  it("leaves out a folder that is a link, and doesn't follow it", async () => {
    const { root, adapter } = await make();
    for (const taskId of ["a", "b"]) await adapter.append(draft(taskId, "1"));
    const elsewhere = await tempFolder();
    renameSync(join(root, "b"), join(elsewhere, "b"));
    symlinkSync(join(elsewhere, "b"), join(root, "b"));
    for (const order of ["taskId", "recent"] as const) {
      expect(await collect(adapter.tasks({ order }))).toMatchObject([{ taskId: "a" }]);
    }
    await expect(adapter.get("b", "1")).rejects.toThrow("b is a symbolic link");
  });

  it("of one task whose id is the prefix reads no other folder", async () => {
    const { root, adapter } = await make();
    for (const taskId of ["t", "t/1"]) await adapter.append(draft(taskId, "1", { status: "paused" }));
    const one = { prefix: "t", order: "taskId", limit: 1 } as const;
    expect(await collect(adapter.tasks({ ...one, after: "t" }))).toMatchObject([{ taskId: "t/1" }]);
    expect(await collect(adapter.tasks({ ...one, status: ["completed"] }))).toEqual([]);
    // The name of this folder doesn't contain its task's id, so every list has to read the folder.
    const path = join(root, `t~${"0".repeat(64)}`, fileName);
    mkdirSync(dirname(path));
    writeFileSync(path, newer);
    await expect(collect(adapter.tasks({ ...one, limit: 2 }))).rejects.toThrow(UnsupportedFormatError);
    expect(await collect(adapter.tasks(one))).toMatchObject([{ taskId: "t", count: 1 }]);
  });

  it("is refused if a newer program wrote one of them, and names that file", async () => {
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
      () => manager.retention.prune({ all: true }, { keepLast: 1 }),
    ]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(UnsupportedFormatError);
      expect((error as Error).message).toContain(`${path} has format version`);
    }
    // The other tasks can still be read by id, and lists that don't include the refused one are complete.
    expect((await manager.latest("z"))?.state).toBe(1);
    expect((await manager.tasks({ prefix: "a" })).map(({ taskId }) => taskId)).toEqual(["a"]);
    expect(corrupt).toEqual([]);
  });
});
