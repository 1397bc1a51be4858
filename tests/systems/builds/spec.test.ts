import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createBuildCheckpoints } from "waymark/builds";
import { tempFolder } from "../../support/temp-folder.js";
import { checkpoint, connect, openBuilds, rowsOf, specProgram } from "./support.js";

const TASKS = [
  { id: "t1", title: "Compile", status: "done", files: ["src/main.ts"], score: 0.5 },
  { id: "t2", title: 'With "quotes", \n and ü', status: "pending", error: null },
];

describe("the spec's requirements", () => {
  it("saves every 30 seconds, and after each task if requested", async () => {
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { saveCheckpoint, startAutoSave, getLatestCheckpoint } = await openBuilds();
    let currentPhase = 1;
    const stopAutoSave = startAutoSave("b", () => ({ buildId: "b", tasks: TASKS, currentPhase }));
    vi.advanceTimersByTime(29_999);
    expect(getLatestCheckpoint("b")).toBeNull();
    vi.advanceTimersByTime(1);
    expect(getLatestCheckpoint("b")).toMatchObject({ currentPhase: 1 });
    saveCheckpoint({ id: "after-t2", buildId: "b", tasks: TASKS, currentPhase: 2 });
    expect(getLatestCheckpoint("b")).toMatchObject({ id: "after-t2" });
    stopAutoSave();
    currentPhase = 3;
    vi.advanceTimersByTime(60_000);
    expect(getLatestCheckpoint("b")).toMatchObject({ id: "after-t2" });
  });

  it("resumes after a restart from the latest checkpoint", async () => {
    const { saveCheckpoint, path, close } = await openBuilds();
    saveCheckpoint({ id: "c1", buildId: "b", tasks: TASKS, currentPhase: 1, metadata: { prdFile: "prd.md" } });
    saveCheckpoint({ id: "c2", buildId: "b", tasks: TASKS, currentPhase: 2, metadata: { prdFile: "prd.md" } });
    saveCheckpoint({ id: "other", buildId: "b2", tasks: [], currentPhase: 9 });
    close();

    const { getLatestCheckpoint } = await openBuilds({ path });
    expect(getLatestCheckpoint("b")).toEqual({
      id: "c2",
      buildId: "b",
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/),
      tasks: TASKS,
      currentPhase: 2,
      metadata: { prdFile: "prd.md" },
    });
  });

  it("keeps the last 50 checkpoints per build", async () => {
    const { saveCheckpoint, path } = await openBuilds();
    for (let n = 1; n <= 53; n++) saveCheckpoint(checkpoint(`c${n}`));
    for (let n = 1; n <= 3; n++) saveCheckpoint(checkpoint(`d${n}`, { buildId: "b2" }));

    const kept = rowsOf(connect(path), "b").map(({ id }) => id);
    expect(kept).toEqual(Array.from({ length: 50 }, (_, i) => `c${i + 4}`));
    expect(rowsOf(connect(path), "b2")).toHaveLength(3);
  });

  it("runs the spec's usage as it is written there", async () => {
    const path = join(await tempFolder(), "builds.db");
    const { startAutoSave, getLatestCheckpoint, saveBuildState, listSavedBuilds, saveCheckpoint, close } =
      createBuildCheckpoints({ path });
    const prd: { tasks: unknown[] } = { tasks: TASKS };
    const [buildId, prdPath, currentPhase] = ["build-1", "prd.md", 2];

    const stopAutoSave = startAutoSave(buildId, () => ({
      buildId,
      tasks: prd.tasks,
      currentPhase: currentPhase,
      metadata: { prdFile: prdPath },
    }));
    // In the form of the spec's anti-patterns: with the build's id, and awaited.
    const returned: unknown = saveCheckpoint(buildId, { tasks: prd.tasks, currentPhase });
    await returned;
    const found = getLatestCheckpoint(buildId);
    if (found) prd.tasks = found.tasks;
    expect(prd.tasks).toEqual(TASKS);
    saveBuildState({
      buildId,
      prdFile: prdPath,
      startTime: "2026-11-22T01:02:03.000Z",
      tasks: prd.tasks,
      completedTasks: ["t1"],
      failedTasks: [],
      currentPhase,
      logs: ["began"],
    });
    expect(listSavedBuilds()).toEqual([
      { buildId, prdFile: prdPath, startTime: "2026-11-22T01:02:03.000Z", updatedAt: expect.any(String) },
    ]);
    stopAutoSave();
    close();
  });

  it("finds the newest checkpoint when twenty are saved within one second", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 10, 22, 1, 2, 3, 400) });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    for (let n = 1; n <= 20; n++) {
      saveCheckpoint(checkpoint(`c${n}`));
      expect(getLatestCheckpoint("b")?.id).toBe(`c${n}`);
    }
    expect(getLatestCheckpoint("b")?.timestamp).toBe("2026-11-22 01:02:03");
  });
});

describe("a database made by the spec's own statements", () => {
  it("is opened, read and saved to", async () => {
    const path = join(await tempFolder(), "nova.db");
    const spec = specProgram(path);
    spec.saveCheckpoint({ id: "s1", buildId: "b", tasks: TASKS, currentPhase: 3, metadata: { prdFile: "prd.md" } });
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds({ path });

    const { timestamp } = spec.getLatestCheckpoint("b")!;
    expect(timestamp).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    expect(getLatestCheckpoint("b")).toEqual({
      id: "s1",
      buildId: "b",
      timestamp,
      tasks: TASKS,
      currentPhase: 3,
      metadata: { prdFile: "prd.md" },
    });
    saveCheckpoint(checkpoint("w1"));
    expect(getLatestCheckpoint("b")?.id).toBe("w1");
  });

  it("may stay open in the spec's program, and stays the spec's", async () => {
    const path = join(await tempFolder(), "nova.db");
    const spec = specProgram(path);
    spec.saveCheckpoint(checkpoint("s1"));
    // The spec's query may return any of the rows of one second.
    spec.db.prepare("UPDATE checkpoints SET timestamp = datetime(timestamp, '-1 hour')").run();
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds({ path });
    saveCheckpoint({ id: "w1", buildId: "b", tasks: TASKS, currentPhase: 3, metadata: { prdFile: "prd.md" } });

    const row = spec.getLatestCheckpoint("b")!;
    expect(row).toMatchObject({ id: "w1", build_id: "b", current_phase: 3 });
    expect(JSON.parse(row.tasks)).toEqual(TASKS);
    expect(JSON.parse(row.metadata ?? "{}")).toEqual({ prdFile: "prd.md" });
    expect(row.created_at).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    spec.saveCheckpoint(checkpoint("s2", { buildId: "b2" }));
    expect(getLatestCheckpoint("b2")?.id).toBe("s2");
  });

  it("is read if its rows have no metadata, with twenty rows of one second in insertion order", async () => {
    const path = join(await tempFolder(), "nova.db");
    const { db } = specProgram(path);
    const insert = db.prepare(
      "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,?,?)",
    );
    for (let n = 1; n <= 20; n++) insert.run(`s${n}`, "b", "2026-11-22 01:02:03", "[]", n);

    const { getLatestCheckpoint } = await openBuilds({ path });
    expect(getLatestCheckpoint("b")).toEqual({
      id: "s20",
      buildId: "b",
      timestamp: "2026-11-22 01:02:03",
      tasks: [],
      currentPhase: 20,
      metadata: {},
    });
  });

  it("finds the newest by the timestamps, whatever the order of the rows", async () => {
    const path = join(await tempFolder(), "nova.db");
    const { db, getLatestCheckpoint } = specProgram(path);
    const insert = db.prepare(
      "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,?,?)",
    );
    insert.run("newest", "b", "2026-11-22 01:02:05", "[]", 1);
    insert.run("older", "b", "2026-11-22 01:02:03", "[]", 1);
    const waymark = await openBuilds({ path });

    expect(getLatestCheckpoint("b")?.id).toBe("newest");
    expect(waymark.getLatestCheckpoint("b")?.id).toBe("newest");
    waymark.cleanupOldCheckpoints("b", 1);
    expect(rowsOf(db, "b").map(({ id }) => id)).toEqual(["newest"]);
  });

  it("is cleaned up after it has grown for long", async () => {
    const path = join(await tempFolder(), "nova.db");
    const spec = specProgram(path);
    for (let n = 1; n <= 300; n++) spec.saveCheckpoint(checkpoint(`s${n}`));
    const { saveCheckpoint } = await openBuilds({ path });
    saveCheckpoint(checkpoint("w1"));

    const ids = rowsOf(spec.db, "b").map(({ id }) => id);
    expect(ids).toHaveLength(50);
    expect(ids.slice(-2)).toEqual(["s300", "w1"]);
  });

  it("lists the builds that its program has saved", async () => {
    const path = join(await tempFolder(), "nova.db");
    const { db } = specProgram(path);
    db.exec(`
      INSERT OR REPLACE INTO build_states (build_id, prd_file, start_time, tasks, completed_tasks, failed_tasks, current_phase, logs, updated_at)
      VALUES ('b1', 'one.md', '2026-11-21T10:00:00.000Z', '[{"id":"t1"}]', '["t1"]', '[]', 4, '["began"]', '2026-11-21 10:00:00'),
             ('b2', 'two.md', '2026-11-20T10:00:00.000Z', '[]', '[]', '[]', 1, '[]', '2026-11-22 10:00:00')`);
    const { listSavedBuilds, getBuildState } = await openBuilds({ path });

    expect(listSavedBuilds()).toEqual([
      { buildId: "b2", prdFile: "two.md", startTime: "2026-11-20T10:00:00.000Z", updatedAt: "2026-11-22 10:00:00" },
      { buildId: "b1", prdFile: "one.md", startTime: "2026-11-21T10:00:00.000Z", updatedAt: "2026-11-21 10:00:00" },
    ]);
    expect(getBuildState("b1")).toEqual({
      buildId: "b1",
      prdFile: "one.md",
      startTime: "2026-11-21T10:00:00.000Z",
      tasks: [{ id: "t1" }],
      completedTasks: ["t1"],
      failedTasks: [],
      currentPhase: 4,
      logs: ["began"],
    });
  });
});

describe("a database that Waymark has made", () => {
  it("has the spec's two tables and its index, column for column", async () => {
    const { saveCheckpoint, path } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    const spec = specProgram(join(await tempFolder(), "spec.db")).db;
    const describeTables = (db: Database.Database) =>
      ["checkpoints", "build_states"].map((table) => [
        db.pragma(`table_info(${table})`),
        db.pragma(`index_list(${table})`),
        db.pragma(`index_info(idx_build_id)`),
      ]);

    expect(describeTables(connect(path))).toEqual(describeTables(spec));
    const tables = (db: Database.Database) => db.prepare("SELECT name FROM sqlite_schema ORDER BY name").pluck().all();
    expect(tables(connect(path))).toEqual(tables(spec));
  });

  it("can be read and written by the spec's program", async () => {
    const { saveCheckpoint, path, close } = await openBuilds();
    saveCheckpoint(checkpoint("w1", { tasks: TASKS }));
    close();
    const spec = specProgram(path);
    expect(JSON.parse(spec.getLatestCheckpoint("b")!.tasks)).toEqual(TASKS);
    spec.db.prepare("UPDATE checkpoints SET timestamp = datetime(timestamp, '-1 hour')").run();
    spec.saveCheckpoint(checkpoint("s1"));
    expect(spec.getLatestCheckpoint("b")?.id).toBe("s1");
    const again = await openBuilds({ path });
    expect(again.getLatestCheckpoint("b")?.id).toBe("s1");
  });

  it("writes ahead, and syncs each save", async () => {
    const connections: Database.Database[] = [];
    class Spied extends Database {
      constructor(path?: string | Buffer, options?: Database.Options) {
        super(path, options);
        connections.push(this);
      }
    }
    const { saveCheckpoint } = await openBuilds({ driver: Spied, busyTimeoutMs: 1234 });
    saveCheckpoint(checkpoint("c1"));
    const connection = connections.at(-1)!;

    expect(connection.pragma("journal_mode", { simple: true })).toBe("wal");
    expect(connection.pragma("synchronous", { simple: true })).toBe(2);
    expect(connection.pragma("busy_timeout", { simple: true })).toBe(1234);
  });
});
