import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { CheckpointCorruptError, CheckpointManager, StorageError, UnsupportedFormatError } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { type BuildCheckpointsOptions, createBuildCheckpoints } from "waymark/builds";
import { tempFolder } from "../../support/temp-folder.js";
import { checkpoint, connect, type OpenBuilds, openBuilds, rowsOf, specProgram } from "./support.js";

/** Every function, with its call. */
function callsOf({ saveCheckpoint, getLatestCheckpoint, cleanupOldCheckpoints, listSavedBuilds }: OpenBuilds) {
  return [
    () => getLatestCheckpoint("b"),
    () => saveCheckpoint(checkpoint("c1")),
    () => cleanupOldCheckpoints(3),
    () => listSavedBuilds(),
  ];
}

describe("the options", () => {
  it.each<[object, typeof TypeError | typeof RangeError, string]>([
    [{}, TypeError, "path"],
    [{ path: "" }, TypeError, "path"],
    [{ path: ":memory:" }, TypeError, "temporary"],
    [{ path: "b.db", pth: 1 }, TypeError, '"pth"'],
    [{ path: "b.db", retention: {} }, TypeError, "retention"],
    [{ path: "b.db", retention: { keepLst: 1 } }, TypeError, '"keepLst"'],
    [{ path: "b.db", retention: { keepLast: 0 } }, RangeError, "keepLast"],
    [{ path: "b.db", taskSchema: {} }, TypeError, "taskSchema"],
    [{ path: "b.db", taskSchema: null }, TypeError, "taskSchema"],
    [{ path: "b.db", maxPayloadBytes: 0 }, RangeError, "maxPayloadBytes"],
    [{ path: "b.db", busyTimeoutMs: 2 ** 31 }, RangeError, "busyTimeoutMs"],
    [{ path: "b.db", busyTimeoutMs: "5" }, TypeError, "busyTimeoutMs"],
    [{ path: "b.db", onCorrupt: "log" }, TypeError, "onCorrupt"],
    [{ path: "b.db", logger: { warn() {} } }, TypeError, "BuildCheckpointsOptions.logger"],
    [{ path: "b.db", driver: {} }, TypeError, "driver"],
  ])("refuse %j, and name the wrong part", (options, type, named) => {
    const create = () => createBuildCheckpoints(options as BuildCheckpointsOptions & { taskSchema?: undefined });
    expect(create).toThrow(type);
    expect(create).toThrow(named);
  });

  it("may be changed after the call", async () => {
    const retention = { keepLast: 1 };
    const { saveCheckpoint, path } = await openBuilds({ retention });
    retention.keepLast = 9;
    for (const id of ["c1", "c2"]) saveCheckpoint(checkpoint(id));
    expect(rowsOf(connect(path), "b")).toHaveLength(1);
  });
});

describe("the file", () => {
  it("and its folders are created by the first save, for their owner alone; reading creates nothing", async () => {
    const path = join(await tempFolder(), "project", ".waymark", "builds.db");
    const {
      getLatestCheckpoint,
      listSavedBuilds,
      getBuildState,
      cleanupOldCheckpoints,
      startAutoSave,
      saveCheckpoint,
    } = await openBuilds({ path });
    expect([getLatestCheckpoint("b"), getBuildState("b"), listSavedBuilds()]).toEqual([null, null, []]);
    cleanupOldCheckpoints();
    startAutoSave("b", () => undefined)();
    expect(() => saveCheckpoint(checkpoint("c1", { tasks: [1n] }))).toThrow();
    expect(existsSync(dirname(dirname(path)))).toBe(false);

    saveCheckpoint(checkpoint("c1"));
    const modes = [dirname(dirname(path)), dirname(path), path, `${path}-wal`].map((each) =>
      (statSync(each).mode & 0o777).toString(8),
    );
    expect(modes).toEqual(["700", "700", "600", "600"]);
  });

  it("recreates a removed file instead of writing to the deleted one", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { saveCheckpoint, getLatestCheckpoint, path } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    for (const name of readdirSync(dirname(path))) rmSync(join(dirname(path), name));
    vi.advanceTimersByTime(100);
    expect(getLatestCheckpoint("b")).toBeNull();
    saveCheckpoint(checkpoint("c2"));
    expect(rowsOf(connect(path), "b").map(({ id }) => id)).toEqual(["c2"]);
  });

  it("may be empty, as the spec's program leaves it before its first write; reading leaves it empty", async () => {
    const path = join(await tempFolder(), "nova.db");
    connect(path);
    const { getLatestCheckpoint, listSavedBuilds, cleanupOldCheckpoints, saveCheckpoint } = await openBuilds({ path });
    expect([getLatestCheckpoint("b"), listSavedBuilds(), cleanupOldCheckpoints()]).toEqual([null, [], 0]);
    expect(readdirSync(dirname(path))).toEqual(["nova.db"]);
    expect(statSync(path).size).toBe(0);

    saveCheckpoint(checkpoint("c1"));
    expect(specProgram(path).getLatestCheckpoint("b")?.id).toBe("c1");
    expect(getLatestCheckpoint("b")?.id).toBe("c1");
  });

  it("may hold other tables, even those of the SqliteAdapter", async () => {
    for (const isAdapterFirst of [true, false]) {
      const { path, saveCheckpoint, getLatestCheckpoint } = await openBuilds();
      const manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
      onTestFinished(() => manager.close());
      if (isAdapterFirst) await manager.save("t", 1);
      saveCheckpoint(checkpoint("c1"));
      await manager.save("t", 2);
      expect((await manager.latest("t"))?.state).toBe(2);
      expect(getLatestCheckpoint("b")?.id).toBe("c1");
    }
  });

  it("gets a missing table, and keeps additional columns", async () => {
    const { path, saveBuildState, listSavedBuilds, saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    connect(path).exec("DROP TABLE build_states; ALTER TABLE checkpoints ADD COLUMN note TEXT DEFAULT 'none'");
    const again = await openBuilds({ path });
    expect(again.listSavedBuilds()).toEqual([]);
    again.saveCheckpoint(checkpoint("c2"));
    expect(getLatestCheckpoint("b")).toEqual(again.getLatestCheckpoint("b"));
    expect(Object.keys(getLatestCheckpoint("b") ?? {})).not.toContain("note");
    const state = { buildId: "b", prdFile: "p", startTime: "s", tasks: [], completedTasks: [], failedTasks: [] };
    saveBuildState({ ...state, currentPhase: 1, logs: [] });
    expect(listSavedBuilds()).toHaveLength(1);
  });
});

describe("a file that we must not write to", () => {
  it.each<[string, string, RegExp]>([
    [
      "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, state TEXT)",
      "a table named checkpoints",
      /no column build_id, timestamp/,
    ],
    ["CREATE TABLE Build_States (build_id TEXT PRIMARY KEY)", "a table named build_states", /no column prd_file/],
    ["CREATE VIEW checkpoints AS SELECT 1 AS id", "a view named checkpoints", /has no column/],
    ["CREATE TABLE theirs (a); PRAGMA application_id = 42", "another program", /application_id 42/],
  ])("is left untouched: %s", async (sql, what, message) => {
    const path = join(await tempFolder(), "theirs.db");
    const theirs = new Database(path);
    theirs.exec(sql);
    theirs.close();
    const before = readFileSync(path);
    for (const call of callsOf(await openBuilds({ path }))) {
      expect(call).toThrow(UnsupportedFormatError);
      expect(call).toThrow(what);
      expect(call).toThrow(message);
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is left untouched if it isn't a database", async () => {
    const path = join(await tempFolder(), "notes.txt");
    const text = "Not a database. ".repeat(100);
    writeFileSync(path, text);
    for (const call of callsOf(await openBuilds({ path }))) {
      expect(call).toThrow(CheckpointCorruptError);
      expect(call).toThrow(/not an SQLite database/);
    }
    expect(readFileSync(path, "utf8")).toBe(text);
  });
});

describe("a failing disk or folder", () => {
  it("is named if the folder is a file, or the file a folder", async () => {
    const folder = await tempFolder();
    writeFileSync(join(folder, "file"), "");
    mkdirSync(join(folder, "folder"));
    for (const path of [join(folder, "file", "builds.db"), join(folder, "folder")]) {
      const { saveCheckpoint } = await openBuilds({ path });
      expect(() => saveCheckpoint(checkpoint("c1"))).toThrow(StorageError);
      expect(() => saveCheckpoint(checkpoint("c1"))).toThrow(/can't be opened/);
    }
  });

  it("is named if the database is read-only, which can still be read", async () => {
    class ReadOnly extends Database {
      constructor(path?: string | Buffer, options?: Database.Options) {
        super(path, { ...options, readonly: true });
      }
    }
    const { path, saveCheckpoint } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    const reader = await openBuilds({ path, driver: ReadOnly });
    expect(reader.getLatestCheckpoint("b")?.id).toBe("c1");
    expect(() => reader.saveCheckpoint(checkpoint("c2"))).toThrow(StorageError);
    expect(() => reader.saveCheckpoint(checkpoint("c2"))).toThrow(/is read-only.*earlier checkpoints are intact/);
  });

  it("is named if the disk is full, and earlier saves are intact", async () => {
    class SmallDisk extends Database {
      constructor(path?: string | Buffer, options?: Database.Options) {
        super(path, options);
        this.pragma("max_page_count = 40");
      }
    }
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds({ driver: SmallDisk });
    saveCheckpoint(checkpoint("c1"));
    const large = checkpoint("c2", { tasks: ["x".repeat(400_000)] });
    expect(() => saveCheckpoint(large)).toThrow(/no space left.*changed nothing/i);
    expect(() => saveCheckpoint(large)).toThrow(expect.objectContaining({ code: "STORAGE_FAILED", retryable: true }));
    expect(getLatestCheckpoint("b")?.id).toBe("c1");
    saveCheckpoint(checkpoint("c3"));
    expect(getLatestCheckpoint("b")?.id).toBe("c3");
  });
});
