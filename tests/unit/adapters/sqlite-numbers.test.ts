// Rows that keep numbers which no program came to by counting, and rows that are gone though others need them.
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { collect, connect, idsOf, newStore, openAdapter } from "./sqlite-support.js";

/** More than a JavaScript number can hold, and no more than SQLite's integers can. */
const LAST_INTEGER = "9223372036854775807";

/** A store with checkpoints 1 to 3 of tasks t and u, changed behind the adapter's back. */
async function storeAfter(...statements: string[]) {
  const { adapter, path } = await newStore({ durability: "normal" });
  const before = new CheckpointManager({ storage: adapter, createId: ({ taskId, stage }) => `${taskId}-${stage}` });
  for (const stage of ["1", "2", "3"]) {
    for (const taskId of ["t", "u"]) await before.save(taskId, { stage }, { stage });
  }
  await before.close();
  for (const sql of statements) connect(path).exec(sql);
  const storage = openAdapter({ path });
  return { path, storage, manager: new CheckpointManager({ storage }) };
}

async function tasksOf({ storage }: { storage: ReturnType<typeof openAdapter> }): Promise<string[]> {
  const tasks = await collect(storage.tasks({ order: "taskId" }));
  return tasks.map((task) =>
    isCorrupt(task) ? `corrupt ${task.id}` : `${task.taskId}: ${task.newest.id} of ${task.count}`,
  );
}

const found = async ({ manager }: { manager: CheckpointManager }) =>
  (await manager.verify()).findings.map(({ kind, taskId, reason }) => `${kind} ${taskId ?? "?"}: ${reason}`);

describe("a task whose row in waymark_tasks is gone", () => {
  it("is listed all the same, found by verify, and given a row by repair", async () => {
    const store = await storeAfter("DELETE FROM waymark_tasks WHERE task_id = 't'");
    expect(await tasksOf(store)).toEqual(["t: t-3 of 3", "u: u-3 of 3"]);
    expect(await collect(store.storage.tasks({ order: "taskId", prefix: "t", after: "s" }))).toHaveLength(1);
    expect(await collect(store.storage.tasks({ order: "taskId", after: "t" }))).toHaveLength(1);
    expect(await collect(store.storage.tasks({ order: "taskId", prefix: "v" }))).toHaveLength(0);
    expect(await found(store)).toEqual(["numbering t: it has no row for the task, which keeps its last sequence"]);
    expect((await store.manager.repair()).steps).toMatchObject([{ action: "renumbered", lastSequence: 3 }]);
    expect(await found(store)).toEqual([]);
  });

  it("is given no sequence twice: the removal of its newest checkpoint makes the row anew", async () => {
    const { manager } = await storeAfter("DELETE FROM waymark_tasks");
    await manager.remove("t", "t-3");
    expect((await manager.save("t", {})).sequence).toBe(4);
  });
});

it.each(["0", "-1", `-${LAST_INTEGER} - 1`])(
  "a sequence below 1 is reported by reads, alone or among others, and stops none of them: %s",
  async (sequence) => {
    for (const others of [[1, 2], []]) {
      const { storage, manager } = await storeAfter(
        `DELETE FROM waymark_checkpoints WHERE task_id = 't' AND sequence <> 3 AND sequence NOT IN (${others.join()})`,
        `UPDATE waymark_checkpoints SET sequence = ${sequence} WHERE task_id = 't' AND sequence = 3`,
      );
      for (const order of ["newest", "oldest"] as const) {
        for (const found of [storage.list({ taskId: "t", order }), storage.read({ taskId: "t", order })]) {
          const all = await collect(found);
          expect(all.filter((one) => !isCorrupt(one))).toHaveLength(others.length);
          expect(all.filter(isCorrupt)).toMatchObject([{ id: "t-3", reason: "its sequence can't be read" }]);
        }
        const history = collect(manager.history("t", { order }));
        if (others.length > 0) expect(await history).toHaveLength(others.length);
        else await expect(history).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      }
    }
  },
);

it("sequences below 1 that JavaScript can't tell apart stop no read", async () => {
  const { storage } = await storeAfter(
    `UPDATE waymark_checkpoints SET sequence = -${LAST_INTEGER} + sequence WHERE task_id = 't' AND sequence < 3`,
  );
  expect(await idsOf(storage.list({ taskId: "t", order: "oldest" }))).toEqual(["corrupt t-1", "corrupt t-2", "t-3"]);
  // Page by page, as above every number.
  expect(await idsOf(storage.read({ taskId: "t", order: "oldest" }))).toEqual(["corrupt t-1", "t-3"]);
  expect(await idsOf(storage.read({ taskId: "t", order: "newest" }))).toEqual(["t-3", "corrupt t-2"]);
});

describe("a row's number that leaves none above it", () => {
  it.each([
    [LAST_INTEGER, "its number can't be read"],
    [String(Number.MAX_SAFE_INTEGER), "its number is the last there is, so nothing more can be saved"],
  ])("makes saves typed errors, is found by verify, and moved by repair: %s", async (number, reason) => {
    const store = await storeAfter(
      `UPDATE waymark_payloads SET number = ${number} WHERE number = 3`,
      `UPDATE waymark_checkpoints SET number = ${number} WHERE number = 3`,
    );
    const { manager, path } = store;
    await expect(manager.save("u", {})).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringMatching(/Nothing was stored, and what is there is intact.*repair moves it to quarantine/),
    });
    expect((await manager.verify()).findings).toMatchObject([
      { kind: "record", id: "t-2", reason, location: `${path}, table waymark_checkpoints, number ${number}` },
    ]);
    expect((await manager.repair()).steps).toMatchObject([{ action: "quarantined", finding: { id: "t-2" } }]);
    const kept = connect(path).prepare("SELECT CAST(number AS TEXT), id, body FROM waymark_quarantine").raw().all();
    expect(kept).toEqual([[number, "t-2", '{"stage":"2"}']]);
    expect(await found(store)).toEqual([]);
    expect((await manager.save("t", {})).sequence).toBe(4);
    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([4, 3, 1]);
  });

  it("makes its checkpoint corrupt to reads, whatever they ask for, and it can be removed", async () => {
    const { storage } = await storeAfter(`UPDATE waymark_checkpoints SET number = ${LAST_INTEGER} WHERE number = 3`);
    expect(await idsOf(storage.list({ taskId: "t", order: "newest" }))).toEqual(["t-3", "corrupt t-2", "t-1"]);
    expect(await idsOf(storage.read({ taskId: "t", order: "newest", stage: "1" }))).toEqual(["corrupt t-2", "t-1"]);
    expect(await storage.remove("t", ["t-2"])).toBe(1);
    expect(await idsOf(storage.list({ taskId: "t", order: "newest" }))).toEqual(["t-3", "t-1"]);
  });

  it("is one of a payload without its checkpoint as well", async () => {
    const store = await storeAfter(
      `INSERT INTO waymark_payloads VALUES (${LAST_INTEGER}, 'x'), (-${LAST_INTEGER} - 1, 'y')`,
    );
    await expect(store.manager.save("t", {})).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    const stray = "stray ?: it is the payload of a checkpoint that isn't there";
    expect(await found(store)).toEqual([stray, stray]);
    expect((await store.manager.repair()).steps).toMatchObject([{ action: "quarantined" }, { action: "quarantined" }]);
    expect(await found(store)).toEqual([]);
    expect((await store.manager.save("t", {})).sequence).toBe(4);
  });
});

describe("a sequence that no number can hold", () => {
  it("is reported by reads and verify, makes saves typed errors, and is moved by repair", async () => {
    const store = await storeAfter(
      `UPDATE waymark_checkpoints SET sequence = ${LAST_INTEGER} WHERE id = 't-3'`,
      `UPDATE waymark_checkpoints SET sequence = ${LAST_INTEGER} - 1 WHERE id = 't-2'`,
    );
    const { manager, storage } = store;
    expect(await tasksOf(store)).toEqual(["corrupt t-3", "corrupt t-2", "t: t-1 of 3", "u: u-3 of 3"]);
    expect(await idsOf(storage.list({ taskId: "t", order: "newest" }))).toEqual(["corrupt t-3", "corrupt t-2", "t-1"]);
    // Page by page, where the two can't be told apart.
    expect(await idsOf(storage.read({ taskId: "t", order: "newest" }))).toEqual(["corrupt t-3", "t-1"]);
    await expect(manager.save("t", {})).rejects.toMatchObject({ code: "STORAGE_FAILED" });
    const reason = "its sequence can't be read";
    expect(await found(store)).toEqual([`record t: ${reason}`, `record t: ${reason}`]);
    await manager.repair();
    expect(await found(store)).toEqual([]);
    expect((await manager.save("t", {})).sequence).toBe(2);
  });

  it.each([LAST_INTEGER, "-1"])(
    "as a task's last one is found by verify, and written anew by repair: %s",
    async (given) => {
      const store = await storeAfter(`UPDATE waymark_tasks SET given_sequence = ${given} WHERE task_id = 't'`);
      const { manager } = store;
      if (given === LAST_INTEGER) await expect(manager.save("t", {})).rejects.toMatchObject({ code: "STORAGE_FAILED" });
      expect(await found(store)).toEqual([
        expect.stringMatching(/^numbering t: its last sequence.*which was never given$/),
      ]);
      expect((await manager.repair()).steps).toMatchObject([{ action: "renumbered", lastSequence: 3 }]);
      expect(await found(store)).toEqual([]);
      expect((await manager.save("t", {})).sequence).toBe(4);
    },
  );

  it("is written anew at no other task's cost, where somebody's own index lets no number in twice", async () => {
    const store = await storeAfter(
      "UPDATE waymark_tasks SET given_sequence = 3 WHERE task_id = 'u'",
      "UPDATE waymark_tasks SET given_sequence = -7 WHERE task_id = 't'",
      "CREATE UNIQUE INDEX theirs ON waymark_tasks (given_sequence)",
    );
    await expect(store.manager.repair()).rejects.toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringMatching(/UNIQUE constraint failed.*is intact/),
    });
    const kept = connect(store.path).prepare("SELECT * FROM waymark_tasks").raw().all();
    expect(kept).toEqual([
      ["t", -7],
      ["u", 3],
    ]);
  });
});
