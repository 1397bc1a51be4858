import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type Database from "better-sqlite3";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { CheckpointConflictError, ClosedError } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { SqliteAdapter, type SqliteAdapterOptions } from "waymark/adapters/sqlite";
import { draft, drafts, fullDraft } from "../../../../conformance/drafts.js";
import { compareTaskIds } from "../../../../src/contract/checkpoint.js";
import { errorOfProgram } from "../../../support/error-of-program.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, connect, idsOf, listed, newStore, openAdapter, spyingDriver } from "./support.js";

const KILLED_WRITER = fileURLToPath(new URL("../../../fixtures/sqlite-append-until-killed.mjs", import.meta.url));

describe("options", () => {
  it.each([
    [{ path: "a.db", durabilty: "full" }, TypeError, "durabilty"],
    [{}, TypeError, "path"],
    [{ path: ":memory:" }, TypeError, "the path of a file"],
    [{ path: "a\0.db" }, TypeError, "path"],
    [{ path: "a.db", durability: "fast" }, TypeError, "durability"],
    [{ path: "a.db", busyTimeoutMs: -1 }, RangeError, "busyTimeoutMs"],
    [{ path: "a.db", busyTimeoutMs: 0.5 }, RangeError, "busyTimeoutMs"],
    [{ path: "a.db", driver: {} }, TypeError, "driver"],
    [{ path: "a.db", driver: () => ({}) }, TypeError, "driver"],
    [
      {
        path: "a.db",
        driver: class {
          prepare() {}
        },
      },
      TypeError,
      "driver",
    ],
  ])("refuses %j and names what is wrong", (options, type, named) => {
    const make = () => new SqliteAdapter(options as unknown as SqliteAdapterOptions);
    expect(make).toThrow(type);
    expect(make).toThrow(named);
  });

  it("takes options that are undefined as absent ones", async () => {
    const { adapter } = await newStore({ durability: undefined, busyTimeoutMs: undefined, driver: undefined });
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
  });
});

describe("the file", () => {
  it("is created only by a write that stores something", async () => {
    const { adapter, folder } = await newStore();
    await adapter.get("t", "c1");
    await collect(adapter.read({ taskId: "t", order: "newest" }));
    await collect(adapter.list({ taskId: "t", order: "newest" }));
    await collect(adapter.tasks({ order: "recent" }));
    expect(await adapter.setStatus("t", "c1", { status: "completed" })).toBe(false);
    expect(await adapter.remove("t", "all")).toBe(0);
    await expect(adapter.remove("t", "all", { expectedSequence: 1 })).rejects.toThrow(CheckpointConflictError);
    await expect(adapter.append(draft("t", "c1"), { expectedSequence: 1 })).rejects.toThrow(CheckpointConflictError);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("and its folders are made for their owner alone", async () => {
    const folder = await tempFolder();
    const path = join(folder, "project", ".waymark", "checkpoints.db");
    await openAdapter({ path }).append(draft("t", "c1"));
    const modes = [dirname(dirname(path)), dirname(path), path, `${path}-wal`, `${path}-shm`].map(modeOf);
    expect(modes).toEqual(["700", "700", "600", "600", "600"]);
  });

  it("recreates a removed file instead of writing to the deleted one", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { adapter, folder, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    vi.advanceTimersByTime(100);
    expect(await listed(adapter)).toEqual([]);
    expect(await adapter.append(draft("t", "c2"))).toBe(1);
    expect(await listed(openAdapter({ path }))).toEqual(["c2"]);
  });

  it("takes a path with characters that mean something in a URI", async () => {
    const path = join(await tempFolder(), "file:50%?mode=memory#ü.db");
    await openAdapter({ path }).append(draft("t", "c1"));
    expect(existsSync(path)).toBe(true);
  });

  it("may hold other programs' tables, which stay as they are", async () => {
    const { adapter, path } = await newStore();
    const others = connect(path);
    others.exec(
      "CREATE TABLE checkpoints (id TEXT PRIMARY KEY); CREATE TABLE build_states (build_id TEXT PRIMARY KEY);",
    );
    others.exec("INSERT INTO checkpoints VALUES ('theirs')");
    expect(await listed(adapter)).toEqual([]);
    expect(tableNames(others)).toEqual(["build_states", "checkpoints"]);

    await adapter.append(draft("t", "c1"));
    expect(await listed(adapter)).toEqual(["c1"]);
    expect(others.prepare("SELECT id FROM checkpoints").pluck().all()).toEqual(["theirs"]);
  });
});

describe("a task's numbering", () => {
  it("continues above the last sequence, even if older checkpoints were removed after newer ones", async () => {
    const { adapter, path } = await newStore();
    for (const one of drafts("t", 3)) await adapter.append(one);
    await adapter.remove("t", ["c3"]);
    await adapter.remove("t", ["c2"]);
    expect(await openAdapter({ path }).append(draft("t", "c4"))).toBe(4);
    await adapter.remove("t", ["c1", "c4"]);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toEqual([]);
    expect(await adapter.append(draft("t", "c5"))).toBe(5);
  });

  it("ends with the task, and leaves no row", async () => {
    const { adapter, path } = await newStore();
    for (const one of [...drafts("t", 3), draft("u", "c1")]) await adapter.append(one);
    expect(await adapter.remove("t", "all")).toBe(3);
    expect(await adapter.append(draft("t", "c9"))).toBe(1);
    expect(await adapter.removePrefix("t")).toBe(1);
    const rows = ["waymark_tasks", "waymark_checkpoints", "waymark_payloads"].map((table) =>
      connect(path).prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
    );
    expect(rows).toEqual([1, 1, 1]);
  });
});

describe("tasks", () => {
  const ids = [
    "a",
    "a\0",
    "a\0b",
    "a/b",
    "aa",
    "b",
    "B",
    "é",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\u{10000}",
    "\u{10ffff}",
    "\u{10ffff}z",
  ];

  it("come in code point order, and begin after any id", async () => {
    const { adapter } = await newStore();
    for (const id of ids) await adapter.append(draft(id, "c1"));
    const sorted = ids.toSorted(compareTaskIds);
    expect(await taskIds(adapter, {})).toEqual(sorted);
    for (const [index, id] of sorted.entries())
      expect(await taskIds(adapter, { after: id })).toEqual(sorted.slice(index + 1));
  });

  it("are found by any prefix, and by prefix and start together", async () => {
    const { adapter } = await newStore();
    for (const id of ids) await adapter.append(draft(id, "c1"));
    for (const prefix of ["", "a", "a\0", "\ud7ff", "\uffff", "\u{10ffff}", "\u{10ffff}\u{10ffff}", "%", "_"]) {
      const expected = ids.filter((id) => id.startsWith(prefix)).sort(compareTaskIds);
      expect(await taskIds(adapter, { prefix })).toEqual(expected);
      const after = "a/b";
      expect(await taskIds(adapter, { prefix, after })).toEqual(expected.filter((id) => compareTaskIds(id, after) > 0));
    }
  });

  it("come most recent first, even if there are many and only few are requested", async () => {
    const { adapter } = await newStore({ durability: "normal" });
    const times = Array.from({ length: 600 }, (_, index) => (index * 7919) % 600);
    for (const [index, time] of times.entries()) {
      const createdAt = new Date(Date.UTC(2026, 0, 1) + time).toISOString();
      await adapter.append(
        draft(`task-${index}`, "c1", { createdAt, status: time % 2 === 0 ? "running" : "completed" }),
      );
    }
    const recent = await collect(adapter.tasks({ order: "recent", status: ["running"], limit: 3 }));
    const expected = [598, 596, 594].map((time) => `task-${times.indexOf(time)}`);
    expect(recent.map((task) => (isCorrupt(task) ? "corrupt" : task.taskId))).toEqual(expected);
    expect(await collect(adapter.tasks({ order: "recent" }))).toHaveLength(600);
    expect(await collect(adapter.tasks({ order: "taskId", limit: 0 }))).toEqual([]);
  });
});

describe("long lists", () => {
  it("read small checkpoints in few statements, and large ones within a budget at a time", async () => {
    const bodies: string[] = [];
    const pages: string[] = [];
    const driver = spyingDriver({ running: (sql) => void (sql.includes("LIMIT") && pages.push(sql)) });
    const { adapter } = await newStore({ durability: "normal", driver });
    for (const one of drafts("small", 300)) await adapter.append(one);
    const large = JSON.stringify("x".repeat(200_000));
    for (const id of ["l1", "l2", "l3", "l4", "l5"]) await adapter.append(draft("large", id, { body: large }));
    const pagesOf = async (taskId: string) => {
      pages.length = 0;
      const read = await collect(adapter.read({ taskId, order: "oldest" }));
      bodies.push(...read.map((one) => (isCorrupt(one) ? "corrupt" : one.id)));
      // Each page is read by one statement.
      return pages.length;
    };
    expect(await pagesOf("small")).toBeLessThan(4);
    expect(await pagesOf("large")).toBeGreaterThan(2);
    expect(bodies).toEqual([...drafts("small", 300).map(({ id }) => id), "l1", "l2", "l3", "l4", "l5"]);
  });

  it("are read in parts, without gaps or overlaps, while others write", async () => {
    const { adapter, path } = await newStore({ durability: "normal" });
    for (const one of drafts("t", 700)) await adapter.append(one);
    const writer = openAdapter({ path });
    const seen: string[] = [];
    for await (const item of adapter.list({ taskId: "t", order: "oldest", skip: 10 })) {
      if (!isCorrupt(item)) seen.push(item.id);
      // Between any two items the connection is free: no statement is open while the caller works.
      if (seen.length === 100) await writer.remove("t", ["c500"]);
      if (seen.length === 200) await adapter.append(draft("t", "late"));
    }
    const expected = Array.from({ length: 690 }, (_, index) => `c${index + 11}`).filter((id) => id !== "c500");
    expect(seen).toEqual([...expected, "late"]);
  });

  it("let the event loop run", async () => {
    const { adapter } = await newStore({ durability: "normal" });
    for (const one of drafts("t", 700)) await adapter.append(one);
    let turns = 0;
    const count = () => {
      turns += 1;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    await listed(adapter);
    clearImmediate(immediate);
    expect(turns).toBeGreaterThanOrEqual(2);
  });
});

describe("a row", () => {
  it("has the columns that a person would look for", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(fullDraft("t", "c1"));
    const row = connect(path)
      .prepare(
        `SELECT task_id, sequence, stage, metadata ->> 'attempt' AS attempt, error ->> 'message' AS message, body
        FROM waymark_checkpoints JOIN waymark_payloads USING (number)`,
      )
      .get();
    expect(row).toEqual({
      task_id: "t",
      sequence: 1,
      stage: "validation-gate-2",
      attempt: 2,
      message: "The gate is shut",
      body: fullDraft("t", "c1").payload.body,
    });
  });
});

describe("close", () => {
  it("is idempotent, and later calls are refused", async () => {
    const { adapter } = await newStore();
    for (const one of drafts("t", 3)) await adapter.append(one);
    const list = adapter.list({ taskId: "t", order: "newest" });
    const read = adapter.read({ taskId: "t", order: "newest" });
    await read.next();
    await Promise.all([adapter.close(), adapter.close()]);
    await adapter.close();
    await expect(adapter.append(draft("t", "c4"))).rejects.toThrow(ClosedError);
    await expect(adapter.get("t", "c1")).rejects.toThrow(ClosedError);
    await expect(adapter.setStatus("t", "c1", { status: "paused" })).rejects.toThrow(ClosedError);
    await expect(adapter.remove("t", "all")).rejects.toThrow(ClosedError);
    await expect(list.next()).rejects.toThrow(ClosedError);
    await expect(read.next()).rejects.toThrow(ClosedError);
    await expect(collect(adapter.tasks({ order: "recent", limit: 0 }))).rejects.toThrow(ClosedError);
  });

  it("leaves one file, without log and shared memory", async () => {
    const { adapter, folder } = await newStore();
    await adapter.append(draft("t", "c1"));
    await adapter.close();
    expect(readdirSync(folder)).toEqual(["checkpoints.db"]);
  });
});

describe("a killed process", () => {
  it("loses nothing acknowledged, and leaves an intact database", async () => {
    const { adapter, path } = await newStore();
    const acknowledged: string[] = [];
    for (let time = 0; time < 2; time++) {
      const child = spawn(process.execPath, [KILLED_WRITER, path, `life-${time}`], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      for await (const line of createInterface({ input: child.stdout })) {
        acknowledged.push(line);
        if (acknowledged.length % 40 === 0) child.kill("SIGKILL");
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      expect(child.signalCode).toBe("SIGKILL");
    }
    const stored = await idsOf(adapter.read({ taskId: "t", order: "oldest" }));
    expect(stored.filter((id) => acknowledged.includes(id))).toEqual(acknowledged);
    expect(connect(path).pragma("integrity_check", { simple: true })).toBe("ok");
  });
});

describe("an existing store", () => {
  it("is opened by an instance that has only ever read", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    const other = openAdapter({ path });
    expect(await listed(other)).toEqual(["c1"]);
    expect(await other.append(draft("t", "c2"))).toBe(2);
  });

  it("is read from a copy with its log if its folder isn't writable; a write reports that it is read-only", async () => {
    const folder = await tempFolder();
    const path = join(folder, "checkpoints.db");
    const writer = spawn(process.execPath, [KILLED_WRITER, path, "c"]);
    await once(writer.stdout, "data");
    writer.kill("SIGKILL");
    await once(writer, "exit");
    rmSync(`${path}-shm`);
    const files = readdirSync(folder);
    for (const name of files) chmodSync(join(folder, name), 0o444);
    chmodSync(folder, 0o555);
    const error = errorOfProgram(`
      const { default: Database } = await import("better-sqlite3");
      const { SqliteAdapter } = await import("waymark/adapters/sqlite");
      new Database(":memory:").close();
      // The super-user may write anywhere.
      if (process.getuid() === 0) process.setuid(65534);
      const adapter = new SqliteAdapter({ path: ${JSON.stringify(path)}, driver: Database });
      for await (const item of adapter.maintenance.verify({ quick: false })) if (item.kind !== "checked") throw item;
      for await (const task of adapter.tasks({ order: "taskId" })) {
        if (task.newest.id !== "c-" + task.count) throw new Error("The log is missing: " + JSON.stringify(task));
        await adapter.remove("t", "all");
      }
    `);
    chmodSync(folder, 0o755);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", message: expect.stringContaining("is read-only") });
    expect(readdirSync(folder)).toEqual(files);
  });

  it("is created again if it was removed without its log", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    const writer = spawn(process.execPath, [KILLED_WRITER, path, "c"]);
    await once(writer.stdout, "data");
    writer.kill("SIGKILL");
    await once(writer, "exit");
    rmSync(path);
    expect(readFileSync(`${path}-wal`).length).toBeGreaterThan(0);

    const adapter = openAdapter({ path });
    expect(await listed(adapter)).toEqual([]);
    expect(await adapter.append(draft("t", "new"))).toBe(1);
    expect(await listed(adapter)).toEqual(["new"]);
  });

  it("may be an empty file, which a killed process may leave: reads give nothing and leave it, an append fills it", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    writeFileSync(path, "");
    const adapter = openAdapter({ path });
    expect(await listed(adapter)).toEqual([]);
    expect(await collect(adapter.maintenance.verify({ quick: false }))).toEqual([]);
    expect(readFileSync(path)).toHaveLength(0);
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
    expect(await listed(openAdapter({ path }))).toEqual(["c1"]);
  });

  it("may be a database without tables, which an append fills", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    connect(path).pragma("journal_mode = WAL");
    const adapter = openAdapter({ path });
    expect(await listed(adapter)).toEqual([]);
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
  });
});

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8);
}

function tableNames(database: Database.Database): unknown[] {
  return database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").pluck().all();
}

async function taskIds(adapter: SqliteAdapter, query: { prefix?: string; after?: string }): Promise<string[]> {
  const tasks = await collect(adapter.tasks({ ...query, order: "taskId" }));
  return tasks.map((task) => (isCorrupt(task) ? "corrupt" : task.taskId));
}
