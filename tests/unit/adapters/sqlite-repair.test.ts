// What a repair of SQLite leaves as it is: what was put right before it had the lock, and, of a dry run, everything.
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { draft } from "../../../src/conformance/drafts.js";
import { collect, connect, listed, newStore, spyingDriver } from "./sqlite-support.js";

const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;

/** Checkpoints 1 to 3 of task `t`, and what happens right before the next transaction that writes. */
async function populated() {
  const moments = { beforeWrite: (): void => {} };
  const running = (sql: string) => {
    if (!sql.startsWith("BEGIN IMMEDIATE")) return;
    const happen = moments.beforeWrite;
    moments.beforeWrite = () => {};
    happen();
  };
  const { adapter, path } = await newStore({ database: spyingDriver({ running }) });
  const manager = new CheckpointManager({ storage: adapter, createId: ({ stage }) => stage ?? "none" });
  onTestFinished(() => manager.close());
  for (const n of [1, 2, 3]) await manager.save("t", { n }, { stage: `i${n}` });
  return { adapter, manager, moments, other: connect(path) };
}

const TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";

describe("repair of sqlite", () => {
  it("moves no row that was put right before it had the lock", async () => {
    const { adapter, moments, other } = await populated();
    other.exec("UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 2");
    moments.beforeWrite = () => other.exec("UPDATE waymark_checkpoints SET label = NULL WHERE sequence = 2");
    expect(await collect(adapter.repair(REPAIR))).toEqual([]);
    expect(await listed(adapter)).toEqual(["i3", "i2", "i1"]);
  });

  it("moves no payload whose checkpoint was put back before it had the lock", async () => {
    const { adapter, manager, moments, other } = await populated();
    other.exec(`CREATE TABLE away AS SELECT * FROM waymark_checkpoints WHERE sequence = 2;
      DELETE FROM waymark_checkpoints WHERE sequence = 2`);
    moments.beforeWrite = () => other.exec("INSERT INTO waymark_checkpoints SELECT * FROM away");
    await collect(adapter.repair(REPAIR));
    expect((await manager.restore("t", "i2")).state).toEqual({ n: 2 });
  });

  it("moves a row whose sequence no number can hold, and doesn't go on after it", async () => {
    const { adapter, manager, other } = await populated();
    other.exec("UPDATE waymark_checkpoints SET sequence = 9223372036854775807 WHERE sequence = 3");
    expect(await collect(adapter.repair(REPAIR))).toMatchObject([{ action: "quarantined" }]);
    expect((await manager.save("t", { n: 4 }, { stage: "i4" })).sequence).toBeLessThan(10);
  });

  it.each<[string, string, number]>([
    ["the last that there is", "sequence = 9007199254740991 WHERE sequence = 3", 3],
    [
      "the last that there is, after another damaged one",
      "sequence = CASE sequence WHEN 3 THEN 9007199254740991 ELSE sequence END, label = 'x' WHERE sequence > 1",
      3,
    ],
    ["more than twelve digits long", "sequence = 1000000000000 WHERE sequence = 3", 3],
    ["far above the others, as after a gap", "sequence = 999999999999 WHERE sequence = 3", 1_000_000_000_000],
    ["above no other", "label = 'x'", 4],
  ])("goes on after a damaged row whose sequence is %s", async (_what, change, next) => {
    const { manager, other } = await populated();
    other.exec(`UPDATE waymark_checkpoints SET ${change}`);
    await manager.repair();
    expect((await manager.verify()).findings).toEqual([]);
    expect((await manager.save("t", {}, { stage: "next" })).sequence).toBe(next);
  });

  it("goes on after what was kept of the numbering, and after a sequence that its seal vouches for", async () => {
    const { adapter, manager, other } = await populated();
    await adapter.append(draft("t", "far"), { sequence: 3_000_000 });
    await manager.remove("t", "far");
    other.exec("UPDATE waymark_checkpoints SET sequence = 4000000 WHERE sequence = 3");
    await manager.repair();
    await adapter.append(draft("t", "next"));
    await adapter.append(draft("t", "damaged"), { sequence: 8_000_000 });
    other.exec("UPDATE waymark_payloads SET body = 'x' WHERE number = (SELECT max(number) FROM waymark_payloads)");
    await manager.repair();
    expect((await manager.save("t", {}, { stage: "last" })).sequence).toBe(8_000_001);
    const kept = other.prepare("SELECT id, sequence FROM waymark_checkpoints WHERE sequence > 3").raw().all();
    expect(kept).toEqual([
      ["next", 4_000_001],
      ["last", 8_000_001],
    ]);
  });

  it("goes on after what it moves also where the task's last sequence is damaged too", async () => {
    const { manager, other } = await populated();
    other.exec(`UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 3;
      UPDATE waymark_tasks SET given_sequence = 9223372036854775807`);
    await manager.repair();
    expect((await manager.verify()).findings).toEqual([]);
    expect((await manager.save("t", {}, { stage: "next" })).sequence).toBe(4);
  });

  it("changes nothing in a dry run, and tells the same steps", async () => {
    const { adapter, manager, other } = await populated();
    await manager.save("u", { n: 1 }, { stage: "i1" });
    other.exec(`UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 2;
      DELETE FROM waymark_tasks WHERE task_id = 'u'; INSERT INTO waymark_payloads VALUES (99, 'lost')`);
    const content = () => ({
      tables: other.prepare(TABLES).all(),
      checkpoints: other.prepare("SELECT * FROM waymark_checkpoints").all(),
      payloads: other.prepare("SELECT * FROM waymark_payloads").all(),
      tasks: other.prepare("SELECT * FROM waymark_tasks").all(),
    });
    const before = content();
    const planned = await collect(adapter.repair({ ...REPAIR, dryRun: true }));
    expect(planned.map(({ action }) => action)).toEqual(["quarantined", "renumbered", "quarantined"]);
    expect(content()).toEqual(before);
    expect(await collect(adapter.repair(REPAIR))).toEqual(planned);
  });
});
