import { copyFileSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type CorruptRecord } from "waymark";
import { recordingLogger } from "../../../support/recording-logger.js";
import { collect, draft, idsOf } from "./drafts.js";
import { filesIn, newJsonStore, newTaskStore } from "./stores.js";

const OF_B = { taskId: "b", order: "newest" } as const;
const OF_A = 'it belongs to task "a", whose folder this isn\'t';
const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;

describe("json-file: a record of task a in the folder of task b", () => {
  const NAME = "000000000004-a4.json";

  async function copied() {
    const { adapter, root, open } = await newJsonStore();
    for (const n of [1, 2, 3, 4]) await adapter.append(draft("a", `a${n}`));
    for (const n of [1, 2]) await adapter.append(draft("b", `b${n}`));
    const path = join(root, "b", NAME);
    copyFileSync(join(root, "a", NAME), path);
    return { adapter, root, open, path };
  }

  it("is damage of that record alone: the others are given, and `corrupt` tells of it", async () => {
    const { adapter, path } = await copied();
    const manager = new CheckpointManager({ storage: adapter, logger: recordingLogger() });
    onTestFinished(() => manager.close());
    const corrupt: CorruptRecord[] = [];
    manager.on("corrupt", (record) => corrupt.push(record));

    expect((await manager.list("b")).map(({ id }) => id)).toEqual(["b2", "b1"]);
    expect((await manager.latest("b"))?.id).toBe("b2");
    expect((await manager.tasks()).map(({ taskId, newest }) => [taskId, newest.id])).toEqual([
      ["a", "a4"],
      ["b", "b2"],
    ]);
    await expect(manager.restore("b", "a4")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    const told = { location: path, taskId: "b", id: "a4", reason: OF_A };
    expect(corrupt).toMatchObject([told, told, told, told]);
  });

  it("is found by verify, and moved by repair with the reason beside it", async () => {
    const { adapter, root, path } = await copied();
    const bytes = readFileSync(path);
    const findings = (await collect(adapter.verify({ quick: false }))).filter(({ kind }) => kind !== "checked");
    expect(findings).toMatchObject([{ kind: "record", location: path, taskId: "b", id: "a4", sequence: 4 }]);

    const to = join(root, ".quarantine", "b", NAME);
    expect(await collect(adapter.repair(REPAIR))).toMatchObject([{ action: "quarantined", to }]);
    expect(readFileSync(to).equals(bytes)).toBe(true);
    expect(JSON.parse(readFileSync(`${to}.reason.json`, "utf8"))).toMatchObject({
      reason: OF_A,
    });
    expect((await collect(adapter.verify({ quick: false }))).map(({ kind }) => kind)).toEqual(Array(6).fill("checked"));
    expect(await idsOf(adapter.list(OF_B))).toEqual(["b2", "b1"]);
    expect(await adapter.append(draft("b", "b5"))).toBe(5);
  });

  it("is in no write's way, and its sequence isn't taken", async () => {
    const { adapter, open } = await copied();
    for (const one of [adapter, open()]) {
      expect(await one.append(draft("b", `c${one === adapter}`))).toBe(one === adapter ? 5 : 6);
    }
    expect(await adapter.setStatus("b", "b1", { status: "paused" })).toBe(true);
    expect(await adapter.remove("b", ["b2"])).toBe(1);
    expect(await idsOf(adapter.list(OF_B))).toEqual(["cfalse", "ctrue", "!a4", "b1"]);
  });

  it("can't be changed as if it were b's", async () => {
    const { adapter, path } = await copied();
    const bytes = readFileSync(path);
    for (const write of [
      () => adapter.setStatus("b", "a4", { status: "paused" }),
      () => adapter.append(draft("b", "a4")),
    ]) {
      await expect(write()).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    }
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  it("doesn't make a stray of b's own one that has its sequence", async () => {
    const { adapter, root } = await newJsonStore();
    for (const task of ["a", "b"]) await adapter.append(draft(task, `${task}1`));
    copyFileSync(join(root, "a", "000000000001-a1.json"), join(root, "b", "000000000001-a1.json"));
    const steps = await collect(adapter.repair(REPAIR));
    expect(steps).toMatchObject([{ action: "quarantined", finding: { id: "a1" } }]);
    expect(await idsOf(adapter.list(OF_B))).toEqual(["b1"]);
  });
});

it("json-file: a copy of a whole task's folder isn't written to or removed, until repair has emptied it", async () => {
  const { adapter, root } = await newJsonStore();
  for (const n of [1, 2]) await adapter.append(draft("a", `a${n}`));
  await adapter.remove("a", ["a2"]);
  cpSync(join(root, "a"), join(root, "b"), { recursive: true });
  expect(await idsOf(adapter.list(OF_B))).toEqual(["!a1"]);
  for (const write of [() => adapter.append(draft("b", "b1")), () => adapter.remove("b", "all")]) {
    await expect(write()).rejects.toThrow('belongs to task "a", not to "b"');
  }
  const steps = await collect(adapter.repair(REPAIR));
  expect(steps.map(({ action }) => action)).toEqual(["quarantined", "renumbered"]);
  expect(filesIn(join(root, "b"))).toEqual(["numbering.json"]);
  expect(await adapter.append(draft("b", "b1"))).toBeGreaterThan(2);
  expect(await idsOf(adapter.list({ taskId: "a", order: "newest" }))).toEqual(["a1"]);
});

describe("task-file: a line of task a in the file of task b", () => {
  async function copied() {
    const { adapter, root, pathOf } = await newTaskStore();
    for (const n of [1, 2, 3, 4]) await adapter.append(draft("a", `a${n}`));
    for (const n of [1, 2]) await adapter.append(draft("b", `b${n}`));
    const [line] = /^\{"id":"a4".*$/m.exec(readFileSync(pathOf("a"), "utf8")) ?? [""];
    const lines = readFileSync(pathOf("b"), "utf8").split("\n");
    writeFileSync(pathOf("b"), lines.toSpliced(2, 0, `${line},`).join("\n"));
    return { adapter, root, line, path: pathOf("b") };
  }

  it("is damage of that line alone: the others are given, and saves go on", async () => {
    const { adapter, path } = await copied();
    const lost = { corrupt: true, location: `${path} (line 3)`, reason: OF_A };
    expect(await collect(adapter.list(OF_B))).toMatchObject([{ id: "b2" }, lost, { id: "b1" }]);
    expect(await adapter.get("b", "a4")).toMatchObject(lost);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([
      { taskId: "a" },
      { newest: { id: "b2" } },
    ]);
    expect(await adapter.append(draft("b", "b3"))).toBe(3);
    expect(await adapter.setStatus("b", "b1", { status: "paused" })).toBe(true);
    expect(await idsOf(adapter.list(OF_B))).toEqual(["b3", "b2", "!a4", "b1"]);
  });

  it("is found by verify, and moved by repair with the reason beside it", async () => {
    const { adapter, root, line, path } = await copied();
    const findings = (await collect(adapter.verify({ quick: false }))).filter(({ kind }) => kind !== "checked");
    expect(findings).toMatchObject([{ kind: "record", location: `${path} (line 3)`, taskId: "b", reason: OF_A }]);

    const to = join(root, ".quarantine", "b", "line-3.json");
    expect(await collect(adapter.repair(REPAIR))).toMatchObject([{ action: "quarantined", to }]);
    expect(readFileSync(to, "utf8")).toBe(line);
    expect(JSON.parse(readFileSync(`${to}.reason.json`, "utf8"))).toMatchObject({ reason: OF_A });
    expect((await collect(adapter.verify({ quick: false }))).map(({ kind }) => kind)).toEqual(Array(6).fill("checked"));
    expect(await adapter.append(draft("b", "b3"))).toBe(3);
  });

  it("is damage also where another program has written it", async () => {
    const { adapter, path } = await copied();
    const foreign = { id: "x", taskId: "a", createdAt: "2027-01-01T00:00:00.000Z", state: {} };
    writeFileSync(
      path,
      JSON.stringify({ version: "1.0", checkpoints: [foreign, { ...foreign, id: "y", taskId: "b" }] }),
    );
    expect(await idsOf(adapter.list(OF_B))).toEqual(["y", "!x"]);
  });
});

it("task-file: a copy of a whole task's file is damage to reads, isn't written, and is moved by repair", async () => {
  const { adapter, root, pathOf } = await newTaskStore();
  for (const n of [1, 2]) await adapter.append(draft("a", `a${n}`));
  cpSync(join(root, "a"), join(root, "b"), { recursive: true });
  const bytes = readFileSync(pathOf("b"));
  const found = await collect(adapter.list(OF_B));
  expect(found).toMatchObject(Array(3).fill({ corrupt: true, taskId: "b", reason: OF_A }));
  expect(await collect(adapter.tasks({ order: "taskId", prefix: "b" }))).toMatchObject(found);
  for (const write of [
    () => adapter.append(draft("b", "b1")),
    () => adapter.setStatus("b", "a1", { status: "paused" }),
    () => adapter.remove("b", ["a1"]),
    () => adapter.remove("b", "all"),
    () => adapter.setAside("b"),
  ]) {
    await expect(write()).rejects.toThrow('belongs to task "a", not to "b"');
  }
  expect(readFileSync(pathOf("b")).equals(bytes)).toBe(true);

  const steps = await collect(adapter.repair(REPAIR));
  expect(steps.map(({ action }) => action)).toEqual(["quarantined", "quarantined", "renumbered"]);
  expect(readFileSync(join(root, ".quarantine", "b", "checkpoints.json")).equals(bytes)).toBe(true);
  expect(await adapter.append(draft("b", "b1"))).toBeGreaterThan(2);
  expect(await idsOf(adapter.list(OF_B))).toEqual(["b1"]);
});
