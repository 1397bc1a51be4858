import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const OF_T = { taskId: "t", order: "newest" } as const;
const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;

async function findingsOf(adapter: StorageAdapter) {
  return (await collect(adapter.verify!({ quick: false }))).filter(({ kind }) => kind !== "checked");
}

describe("json-file: a checkpoint's file that somebody has renamed", () => {
  async function renamed(to: string, from = "000000000003-i3.json") {
    const { adapter, root, open } = await newJsonStore();
    for (const id of ["i1", "i2", "i3"]) await adapter.append(draft("t", id));
    const path = join(root, "t", to);
    renameSync(join(root, "t", from), path);
    return { adapter, root, path, open };
  }

  it.each(["000000000003-i3.JSON", "000000000003-i3.json.bak", "../000000000003-i3.json", "mine.txt"])(
    "to %s is a stray to verify, and left by repair",
    async (to) => {
      const { adapter, path } = await renamed(to);
      expect(await idsOf(adapter.list(OF_T))).toEqual(["i2", "i1"]);
      expect(await findingsOf(adapter)).toMatchObject([{ kind: "stray", location: path }]);
      expect(await collect(adapter.repair(REPAIR))).toMatchObject(to.startsWith("..") ? [] : [{ action: "left" }]);
    },
  );

  it.each(["000000000003-i3.JSON", "000000000003-i3.json.bak", "000000000003-i3.json~"])(
    "to %s keeps its sequence from being given again",
    async (to) => {
      const { adapter, open } = await renamed(to);
      await expect(adapter.append(draft("t", "x"), { expectedSequence: 3 })).rejects.toMatchObject({
        code: "CHECKPOINT_CONFLICT",
      });
      expect(await adapter.append(draft("t", "i4"), { expectedSequence: 2 })).toBe(4);
      expect(await open().append(draft("t", "i5"))).toBe(5);
      expect(await idsOf(adapter.list(OF_T))).toEqual(["i5", "i4", "i2", "i1"]);
    },
  );

  it("keeps its sequence also where the numbering is recovered", async () => {
    const { adapter, root } = await renamed("000000000003-i3.JSON");
    writeFileSync(join(root, "t", "numbering.json"), "");
    expect(await collect(adapter.repair(REPAIR))).toMatchObject([
      { action: "renumbered", lastSequence: 1_000_003 },
      { action: "left", finding: { kind: "stray" } },
    ]);
  });

  it("is told from other people's files, which neither count nor are reported", async () => {
    const { adapter, root } = await newJsonStore();
    await adapter.append(draft("t", "i1"));
    for (const name of ["README.json", "t/README.md", "t/000000000009-notes.txt", "t/9-x.json", "t/data.json"]) {
      writeFileSync(join(root, name), "{}");
    }
    // More than a number can count.
    writeFileSync(join(root, "t", "9999999999999999-x.json.bak"), "{}");
    mkdirSync(join(root, "t", "folder"));
    expect(await adapter.append(draft("t", "i2"))).toBe(2);
    expect(await findingsOf(adapter)).toEqual([]);
  });

  it("is a stray as a numbering, too", async () => {
    const { adapter, root } = await newJsonStore();
    for (const id of ["i1", "i2"]) await adapter.append(draft("t", id));
    await adapter.remove("t", ["i2"]);
    const path = join(root, "t", "NUMBERING.JSON");
    renameSync(join(root, "t", "numbering.json"), path);
    expect(await findingsOf(adapter)).toMatchObject([{ kind: "stray", location: path }]);
  });
});

describe("task-file: a task's file that somebody has renamed", () => {
  it.each(["checkpoints.json.bak", "checkpoints.JSON", "../checkpoints.json", "../.hidden", "old"])(
    "to %s is a stray to verify, and left by repair",
    async (to) => {
      const { adapter, root, pathOf } = await newTaskStore();
      for (const task of ["t", "u"]) await adapter.append(draft(task, "i1"));
      const path = join(root, "t", to);
      renameSync(pathOf("t"), path);
      expect((await collect(adapter.tasks({ order: "taskId" }))).map(({ taskId }) => taskId)).toEqual(["u"]);
      expect(await findingsOf(adapter)).toMatchObject([{ kind: "stray", location: path }]);
      for (const dryRun of [true, false]) {
        const steps = await collect(adapter.repair({ ...REPAIR, dryRun }));
        expect(steps).toMatchObject(to.startsWith("..") ? [] : [{ action: "left", finding: { location: path } }]);
      }
    },
  );

  it("is told from other people's files, and from what was set aside", async () => {
    const { adapter, root, pathOf } = await newTaskStore();
    for (const id of ["i1", "i2"]) await adapter.append(draft("t", id));
    writeFileSync(join(root, "README.md"), "{}");
    writeFileSync(join(root, "t", "notes.md"), "about checkpoints.json");
    writeFileSync(join(root, "t", "checkpoints.json.tmp"), '{"version":"1.0","checkpoints":[]}');
    mkdirSync(join(root, "t", "folder"));
    writeFileSync(pathOf("t"), '{"version":"1.0","waymark":{"taskId":"t","lastSequence":9,"seal":"');
    expect(await adapter.setAside("t")).toBeDefined();
    expect(await findingsOf(adapter)).toEqual([]);
  });
});
