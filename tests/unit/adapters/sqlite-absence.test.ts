import { readFileSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointCorruptError } from "waymark";
import { draft } from "../../../src/conformance/drafts.js";
import { collect, idsOf, newStore, openAdapter } from "./sqlite-support.js";

const BY_SEQUENCE = "waymark_checkpoints_by_sequence";
const BY_ID = "waymark_checkpoints_by_id";

/** A store with checkpoints c1 to c3 of task t, in which somebody has changed an index's root page. */
async function storeWith(index: string, change: (page: Buffer) => void) {
  const { adapter, path } = await newStore();
  for (const id of ["c1", "c2", "c3"]) await adapter.append(draft("t", id));
  await adapter.close();
  const database = new Database(path, { readonly: true });
  const root = Number(database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").pluck().get(index));
  database.close();
  const content = readFileSync(path);
  change(content.subarray((root - 1) * 4096, root * 4096));
  writeFileSync(path, content);
  return openAdapter({ path });
}

/** To SQLite, the index has no entries: one byte, of their number, is 0. */
function storeWithout(index: string) {
  return storeWith(index, (page) => page.writeUInt8(0, 4));
}

describe("an index that has lost its entries to one damaged byte", () => {
  it("by sequence, is no empty list, no absent task and no first save", async () => {
    const adapter = await storeWithout(BY_SEQUENCE);
    for (const order of ["newest", "oldest"] as const) {
      await expect(collect(adapter.list({ taskId: "t", order }))).rejects.toThrow(CheckpointCorruptError);
      await expect(collect(adapter.read({ taskId: "t", order, limit: 1 }))).rejects.toThrow(CheckpointCorruptError);
    }
    await expect(collect(adapter.list({ taskId: "t", order: "newest", stage: "s" }))).rejects.toThrow(/by another/);
    await expect(collect(adapter.tasks({ order: "taskId" }))).rejects.toThrow(CheckpointCorruptError);
    await expect(adapter.append(draft("t", "c4"))).rejects.toThrow(CheckpointCorruptError);
  });

  it("by sequence, leaves other tasks as they are: they can be saved to and read", async () => {
    const adapter = await storeWithout(BY_SEQUENCE);
    expect(await collect(adapter.list({ taskId: "u", order: "newest" }))).toEqual([]);
    expect(await adapter.append(draft("u", "first"))).toBe(1);
    expect(await idsOf(adapter.list({ taskId: "u", order: "newest" }))).toEqual(["first"]);
  });

  it("by id, is no checkpoint that isn't there", async () => {
    const adapter = await storeWithout(BY_ID);
    await expect(adapter.get("t", "c1")).rejects.toThrow(CheckpointCorruptError);
    await expect(adapter.setStatus("t", "c1", { status: "completed" })).rejects.toThrow(CheckpointCorruptError);
    const payload = { encoding: "json", body: "1", sha256: "0".repeat(64) };
    await expect(adapter.replacePayload("t", "c1", payload, payload.sha256)).rejects.toThrow(CheckpointCorruptError);
    await expect(adapter.remove("t", ["c1"])).rejects.toThrow(CheckpointCorruptError);
    await expect(adapter.remove("t", "all")).rejects.toThrow(CheckpointCorruptError);
    expect(await idsOf(adapter.list({ taskId: "t", order: "newest" }))).toEqual(["c3", "c2", "c1"]);
  });
});

it.each<[string, "newest" | "oldest", (page: Buffer) => void]>([
  // Cells are added from a page's end on, so the task's newest checkpoint comes first.
  ["newest", "newest", (page) => page.write("b", page.indexOf("t"))],
  ["oldest", "oldest", (page) => page.write("z", page.lastIndexOf("t"))],
])(
  "an index in which only the task's %s checkpoint has another task makes no empty list",
  async (_what, order, change) => {
    const adapter = await storeWith(BY_SEQUENCE, change);
    const other = order === "newest" ? "oldest" : "newest";
    expect(await idsOf(adapter.list({ taskId: "t", order: other }))).toContain("c2");
    await expect(collect(adapter.list({ taskId: "t", order }))).rejects.toThrow(/by another it has none/);
  },
);

it("an index in which a task has another name makes no empty list of tasks", async () => {
  const adapter = await storeWith(BY_SEQUENCE, (page) => {
    // No UTF-8: so it can't be asked for by the text that SQLite gives for it.
    for (const [at, byte] of page.entries()) if (byte === "t".charCodeAt(0)) page.writeUInt8(byte ^ 0xff, at);
  });
  const [task] = await collect(adapter.tasks({ order: "taskId" }));
  expect(task).toMatchObject({ corrupt: true, reason: expect.stringContaining("none of its checkpoints is found") });
});

it("what isn't there is absent where both indexes say so", async () => {
  const { adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  expect(await adapter.get("t", "none")).toBeUndefined();
  expect(await adapter.get("none", "c1")).toBeUndefined();
  expect(await collect(adapter.list({ taskId: "t", order: "newest", beforeSequence: 1 }))).toEqual([]);
  expect(await collect(adapter.tasks({ order: "taskId", prefix: "u" }))).toEqual([]);
  expect(await adapter.remove("t", ["none"])).toBe(0);
  expect(await adapter.remove("none", "all")).toBe(0);
  expect(await adapter.setStatus("none", "c1", { status: "completed" })).toBe(false);
});
