// Trees whose entries are in no order, as damage leaves them: whoever goes on after the last one may get the same again.
import { readFileSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { collect, connect, newStore, openAdapter } from "./sqlite-support.js";

/** A page of a tree: its type, how many entries it has, and where each is. */
const LEAF_TYPES = [10, 13];
const COUNT_AT = 3;
const FIRST_POINTER_AT = 8;

/** A store with that many checkpoints of task t, changed by the statements and closed, and then by hand. */
async function storeAfter(count: number, ...statements: string[]) {
  const { adapter, path } = await newStore({ durability: "normal" });
  const manager = new CheckpointManager({ storage: adapter });
  for (let n = 1; n <= count; n++) await manager.save("t", { n });
  await manager.close();
  const database = new Database(path);
  for (const sql of statements) database.exec(sql);
  database.close();
  return { path, open: () => openAdapter({ path }) };
}

/** Gives the entries of that tree, which has one page, another order. */
function reorder(path: string, tree: string, order: (entries: readonly number[]) => readonly number[]): void {
  const database = new Database(path);
  const root = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").pluck().get(tree);
  const at = (Number(root) - 1) * Number(database.pragma("page_size", { simple: true }));
  database.close();
  const bytes = readFileSync(path);
  expect(LEAF_TYPES).toContain(bytes[at]);
  const place = (index: number) => at + FIRST_POINTER_AT + 2 * index;
  const entries = Array.from({ length: bytes.readUInt16BE(at + COUNT_AT) }, (_, i) => bytes.readUInt16BE(place(i)));
  for (const [index, pointer] of order(entries).entries()) bytes.writeUInt16BE(pointer, place(index));
  writeFileSync(path, bytes);
}

const rotated = ([first, ...others]: readonly number[]) => [...others, ...(first === undefined ? [] : [first])];

const swapped = (one: number, other: number) => (entries: readonly number[]) =>
  entries.map((entry, index) => (index === one ? entries[other] : index === other ? entries[one] : entry) ?? entry);

/** The first of them, and no more: there may be no end. */
async function some<Item>(items: AsyncIterable<Item>, most = 1_000): Promise<Item[]> {
  const taken: Item[] = [];
  for await (const item of items) if (taken.push(item) >= most) break;
  return taken;
}

const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;

describe("verify and repair come to an end", () => {
  it("where payloads without checkpoints are out of order", async () => {
    const { path, open } = await storeAfter(3, "DELETE FROM waymark_checkpoints", "DELETE FROM waymark_tasks");
    reorder(path, "waymark_payloads", rotated);
    const found = await some(open().verify({ quick: false }));
    expect(found.length).toBeGreaterThan(0);
    expect(found.map(({ kind }) => kind)).toEqual(found.map(() => "database"));
    const steps = await some(open().repair(REPAIR));
    expect(steps.map(({ action }) => action)).toEqual(found.map(() => "left"));
  });

  it("where a task's checkpoints are out of order", async () => {
    const { path, open } = await storeAfter(3);
    reorder(path, "waymark_checkpoints_by_sequence", rotated);
    for (const quick of [false, true]) {
      const found = await some(open().verify({ quick }));
      expect(found.filter(({ kind }) => kind === "checked").length).toBeLessThanOrEqual(3);
      expect(found).toContainEqual({
        kind: "database",
        location: path,
        reason: "waymark_checkpoints is out of order, so what comes after can't be found",
      });
    }
    const steps = await some(open().repair(REPAIR));
    expect(new Set(steps.map(({ action }) => action))).toEqual(new Set(["left"]));
  });

  it("where the id of a task is no text, and look at the tasks before and after it", async () => {
    const inFile = (table: string, hex: string, id: string) =>
      `UPDATE ${table} SET task_id = CAST(x'${hex}' AS TEXT) WHERE task_id = '${id}'`;
    const { adapter, path } = await newStore();
    const manager = new CheckpointManager({ storage: adapter });
    // Of the bytes c3a9 and f09f9880; what replaces bytes that are no text has those between them.
    for (const id of ["low", "é", "high", "😀"]) await manager.save(id, {});
    for (const table of ["waymark_tasks", "waymark_checkpoints"]) {
      connect(path).exec(`${inFile(table, "9e", "low")}; ${inFile(table, "f1", "high")}`);
    }
    const found = await some(adapter.verify({ quick: false }));
    expect(found.filter((item) => item.kind === "checked").map(({ taskId }) => taskId)).toEqual(["é", "😀"]);
    expect(found.filter((item) => item.kind !== "checked")).toEqual(
      ["9e", "f1"].map((hex) => ({
        kind: "database",
        location: path,
        reason: `a task's id is no UTF-8: the bytes ${hex}`,
      })),
    );
    await expect(collect(adapter.tasks({ order: "taskId", after: "😀", limit: 1 }))).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringContaining("verify"),
    });
  });
});

describe("reads come to an end", () => {
  it("where a list's page ends with an entry that comes before its first", async () => {
    const { path, open } = await storeAfter(300);
    // The list takes 256 at a time, and goes on below the last of them, which is the newest here.
    reorder(path, "waymark_checkpoints_by_sequence", swapped(300 - 256, 299));
    const adapter = open();
    await expect(some(adapter.list({ taskId: "t", order: "newest" }))).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringMatching(/out of order.*verify/),
    });
  });

  it("where so are the newest of a task, of which none can be read", async () => {
    const { path, open } = await storeAfter(40, "UPDATE waymark_checkpoints SET label = 'changed'");
    // The list of tasks looks for one that can be read, 16 at a time. The second page ends as the third does.
    reorder(path, "waymark_checkpoints_by_sequence", (entries) => swapped(23, 37)(swapped(24, 38)(entries)));
    const found = await some(open().tasks({ order: "taskId" }));
    expect(found).toHaveLength(3 * 16);
  });

  it("where the oldest of a task has a sequence that no number can hold", async () => {
    const { open } = await storeAfter(
      2,
      "UPDATE waymark_checkpoints SET sequence = 9223372036854775807 WHERE number = 2",
    );
    const found = await some(open().read({ taskId: "t", order: "oldest" }));
    expect(found.map((item) => "corrupt" in item)).toEqual([false, true]);
  });
});
