// Tests verify and repair of a database.
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { draft } from "../../../../conformance/drafts.js";
import { event } from "../../../../conformance/records.js";
import type { RepairStep } from "../../../../src/contract/findings.js";
import { collect, connect, idsOf, listed, newStore, openAdapter, spyingDriver } from "./support.js";

const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;

/** Checkpoints 1 to 3 of task `t`, and a hook that runs right before the next writing transaction. */
async function populated() {
  const moments = { beforeWrite: (): void => {} };
  const running = (sql: string) => {
    if (!sql.startsWith("BEGIN IMMEDIATE")) return;
    const happen = moments.beforeWrite;
    moments.beforeWrite = () => {};
    happen();
  };
  const { adapter, path, folder } = await newStore({ driver: spyingDriver({ running }) });
  const manager = new CheckpointManager({ storage: adapter, createId: ({ stage }) => stage ?? "none" });
  onTestFinished(() => manager.close());
  for (const n of [1, 2, 3]) await manager.save("t", { n }, { stage: `i${n}` });
  const found = async () =>
    (await manager.maintenance.verify()).findings.map(({ kind, reason }) => `${kind}: ${reason}`);
  return { adapter, manager, moments, other: connect(path), path, folder, found };
}

describe("a damaged row", () => {
  it("is moved byte for byte, with the reason and its payload", async () => {
    const { adapter, manager, other, path, found } = await populated();
    other.exec("UPDATE waymark_checkpoints SET label = 'damaged' WHERE sequence = 3");
    const before = other.prepare("SELECT * FROM waymark_checkpoints WHERE sequence = 3").get();
    const steps = await collect(adapter.maintenance.repair(REPAIR));
    expect(steps).toMatchObject([
      { action: "quarantined", finding: { id: "i3", sequence: 3 }, to: `${path}, table waymark_quarantine` },
    ]);
    expect(other.prepare("SELECT * FROM waymark_quarantine").get()).toMatchObject({
      ...(before as object),
      reason: "its seal doesn't match its content",
      body: '{"n":3}',
    });
    expect(await found()).toEqual([]);
    expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([{ count: 2, newest: { id: "i2" } }]);
    expect((await manager.save("t", {}, { stage: "next" })).sequence).toBe(4);
  });

  it("is left if it was corrected right before repair had the lock", async () => {
    const { adapter, moments, other } = await populated();
    other.exec("UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 2");
    moments.beforeWrite = () => other.exec("UPDATE waymark_checkpoints SET label = NULL WHERE sequence = 2");
    expect(await collect(adapter.maintenance.repair(REPAIR))).toEqual([]);
    expect(await listed(adapter)).toEqual(["i3", "i2", "i1"]);
  });

  it.each(["9007199254740991", "-1", "0"])(
    "with the sequence %s is reported by reads, moved by repair, and ignored by the numbering",
    async (sequence) => {
      const { adapter, manager, other, found } = await populated();
      other.exec(`UPDATE waymark_checkpoints SET sequence = ${sequence} WHERE id = 'i2'`);
      const seen = await idsOf(adapter.list({ taskId: "t", order: "newest" }));
      expect(seen.toSorted()).toEqual(["corrupt i2", "i1", "i3"]);
      expect((await collect(adapter.read({ taskId: "t", order: "oldest" }))).length).toBe(3);
      await manager.maintenance.repair();
      expect(await found()).toEqual([]);
      expect((await manager.save("t", {}, { stage: "next" })).sequence).toBe(4);
    },
  );
});

describe("a task's row", () => {
  it.each([
    ["DELETE FROM waymark_tasks", /the task's row, which has the numbering, is missing/],
    ["UPDATE waymark_tasks SET count = 5", /its row shows 5 checkpoints.*there are 3/],
    ["DELETE FROM waymark_checkpoints WHERE sequence = 2", /its row shows 3 checkpoints.*there are 2/],
    ["UPDATE waymark_tasks SET newest_sequence = 2", /the newest 2,.*the newest 3,/],
    ["UPDATE waymark_tasks SET last_sequence = 2", /the last sequence 2;/],
    [`UPDATE waymark_tasks SET last_sequence = ${Number.MAX_SAFE_INTEGER} + 1`, /the last sequence 9007199254740992;/],
    ["UPDATE waymark_tasks SET newest_status = 'paused'", /, paused,.*, running$/],
    ["UPDATE waymark_tasks SET newest_created_at = '2026'", /, 2026, running,/],
  ])("that doesn't fit its checkpoints is found by verify and rebuilt by repair: %s", async (sql, reason) => {
    const { adapter, manager, other, found } = await populated();
    other.exec(sql);
    expect(await found()).toEqual([expect.stringMatching(reason)]);
    expect(await collect(adapter.maintenance.repair(REPAIR))).toMatchObject([{ action: "quarantined" }]);
    expect(await found()).toEqual([]);
    expect((await manager.save("t", {}, { stage: "next" })).sequence).toBe(4);
  });

  it.each([
    [
      "paused",
      "UPDATE waymark_tasks SET due_at = '2027'",
      /is due at 2027; by its newest checkpoint, it is due at 2026-/,
    ],
    [
      "running",
      "UPDATE waymark_tasks SET due_at = '2027'",
      /is due at 2027; by its newest checkpoint, it is due at 2026-/,
    ],
    ["running", "UPDATE waymark_tasks SET due_at = NULL", /it isn't due; by its newest checkpoint, it is due at 2026-/],
    ["failed", "UPDATE waymark_tasks SET due_at = '2027'", /is due at 2027; by its newest checkpoint, it isn't due/],
    ["paused", "DELETE FROM waymark_tasks", /the task's row, which has the numbering, is missing/],
  ] as const)("that doesn't tell when a %s task is due is found and rebuilt: %s", async (status, sql, reason) => {
    const { adapter, other, found } = await populated();
    const createdAt = "2026-01-02T03:04:05.678Z";
    const error = status === "failed" ? { error: { message: "no" } } : undefined;
    await adapter.append(draft("t", "c4", { createdAt, dueAt: createdAt, status, ...error }));
    const before = other.prepare("SELECT * FROM waymark_tasks").get();
    expect(before).toMatchObject({ due_at: status === "failed" ? null : createdAt });
    expect(await found()).toEqual([]);
    other.exec(sql);
    expect(await found()).toEqual([expect.stringMatching(reason)]);
    await collect(adapter.maintenance.repair(REPAIR));
    expect(other.prepare("SELECT * FROM waymark_tasks").get()).toEqual(before);
    expect(await found()).toEqual([]);
  });

  it("keeps an earlier time, which an event has set, when it is rebuilt", async () => {
    const { adapter, other } = await populated();
    const [dueAt, later] = ["2026-01-02T03:30:00.000Z", "2026-01-02T04:00:00.000Z"];
    await adapter.append(draft("t", "c4", { status: "paused", dueAt: later }));
    await adapter.log.append("t", [event("e")], {}, { dueAt });
    other.exec("UPDATE waymark_tasks SET count = 1");
    await collect(adapter.maintenance.repair(REPAIR));
    expect(other.prepare("SELECT count, due_at FROM waymark_tasks").get()).toEqual({ count: 4, due_at: dueAt });
  });

  it("tells when the task is due after its damaged newest checkpoint was moved away", async () => {
    const { adapter, other } = await populated();
    const paused = { createdAt: "2026-01-02T03:04:05.678Z", status: "paused" } as const;
    await adapter.append(draft("t", "c4", { ...paused, dueAt: paused.createdAt }));
    await adapter.append(draft("t", "c5"));
    expect(other.prepare("SELECT due_at FROM waymark_tasks").pluck().get()).toBe(null);
    other.exec("UPDATE waymark_checkpoints SET label = 'damaged' WHERE id = 'c5'");
    await collect(adapter.maintenance.repair(REPAIR));
    expect(other.prepare("SELECT due_at FROM waymark_tasks").pluck().get()).toBe(paused.createdAt);
  });

  it.each(["DELETE FROM waymark_tasks", "UPDATE waymark_tasks SET last_sequence = 2"])(
    "that is lost or behind never lets a save reuse a sequence: %s",
    async (sql) => {
      const { manager, other } = await populated();
      other.exec(sql);
      expect((await manager.save("t", { n: 4 }, { stage: "next" })).sequence).toBe(4);
      expect((await manager.latest("t"))?.state).toEqual({ n: 4 });
    },
  );

  it("whose newest checkpoint is missing is reported, with the newest existing one", async () => {
    const { adapter, other } = await populated();
    other.exec("DELETE FROM waymark_checkpoints WHERE sequence = 3");
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([
      { corrupt: true, taskId: "t", sequence: 3 },
      { taskId: "t", newest: { id: "i2" } },
    ]);
  });

  it("is found, and ends verify, if its id isn't text", async () => {
    const { manager, other, found } = await populated();
    await manager.save("u", {}, { stage: "i1" });
    other.exec("UPDATE waymark_tasks SET task_id = CAST(x'f1' AS TEXT) WHERE task_id = 'u'");
    expect((await found()).at(-1)).toMatch(/its id isn't text|the task's row/);
  });
});

it("a dry run changes nothing, and reports the same steps", async () => {
  const { adapter, manager, other } = await populated();
  await manager.save("u", { n: 1 }, { stage: "i1" });
  other.exec(`UPDATE waymark_checkpoints SET label = 'x' WHERE task_id = 't' AND sequence IN (2, 3);
    DELETE FROM waymark_tasks WHERE task_id = 'u'`);
  const tables = ["waymark_tasks", "waymark_checkpoints", "waymark_payloads", "waymark_quarantine"];
  const content = () => tables.map((table) => other.prepare(`SELECT * FROM ${table}`).all());
  const before = content();
  const steps = (dryRun: boolean): Promise<RepairStep[]> => collect(adapter.maintenance.repair({ ...REPAIR, dryRun }));
  const planned = await steps(true);
  expect(planned.map(({ action, finding }) => `${action} ${finding.taskId} ${finding.id}`)).toEqual([
    "quarantined t i2",
    "quarantined t i3",
    "quarantined u undefined",
  ]);
  expect(content()).toEqual(before);
  expect(await steps(false)).toEqual(planned);
});

it("a database that SQLite finds malformed is reported, and repair leaves it with advice", async () => {
  const { adapter, other, path } = await populated();
  await adapter.close();
  other.unsafeMode();
  other.exec(`PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage =
    (SELECT rootpage FROM sqlite_schema WHERE name = 'waymark_tasks_by_recency') WHERE name = 'waymark_checkpoints_by_id'`);
  other.close();
  const again = openAdapter({ path });
  const findings = (await collect(again.maintenance.verify({ quick: false }))).filter(({ kind }) => kind !== "checked");
  expect(findings[0]).toMatchObject({ kind: "damaged", location: path });
  const steps = await collect(again.maintenance.repair(REPAIR));
  expect(steps.length).toBeGreaterThan(0);
  expect(new Set(steps.map(({ action }) => action))).toEqual(new Set(["left"]));
  expect(steps[0]).toMatchObject({ advice: expect.stringContaining(".recover") });
});
