import { randomBytes } from "node:crypto";
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointCorruptError, StorageError, UnsupportedFormatError } from "waymark";
import type { SqliteAdapter, SqliteDriver } from "waymark/adapters/sqlite";
import { builtInDriver } from "../../../../adapters/sqlite/built-in-drivers.js";
import { draft } from "../../../../conformance/drafts.js";
import { errorOfProgram } from "../../../support/error-of-program.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, connect, listed, newStore, openAdapter } from "./support.js";

describe("a database that we must not write to", () => {
  it("is refused if a newer program made it, naming both versions", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    await adapter.close();
    connect(path).pragma("user_version = 7");

    await expectUntouched(path, UnsupportedFormatError, /version 7;.*up to 1\./);
  });

  it.each([
    ["PRAGMA application_id = 42", /application_id is 42/],
    ["PRAGMA user_version = 1", /user_version 1/],
    ["CREATE TABLE waymark_checkpoints (id TEXT)", /1 tables and indexes named waymark_/],
    ["PRAGMA encoding = 'UTF-16le'", /the encoding UTF-16le/],
  ])("is refused if another program made it: %s", async (sql, message) => {
    const path = join(await tempFolder(), "theirs.db");
    connect(path).exec(`${sql}; CREATE TABLE theirs (a)`);
    await expectUntouched(path, UnsupportedFormatError, message);
  });

  it("is refused if it isn't a database at all", async () => {
    const path = join(await tempFolder(), "notes.txt");
    writeFileSync(path, "Not a database. ".repeat(100));
    await expectUntouched(path, CheckpointCorruptError, /is not an SQLite database, or its header is damaged/);
  });

  it.each([0, -16_777_215])("doesn't count as an empty store if its version was damaged to %i", async (version) => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    await adapter.close();
    connect(path).pragma(`user_version = ${version}`);
    await expectUntouched(path, CheckpointCorruptError, /its version is .*, and its tables are complete/);
  });

  it.each([
    ["ALTER TABLE waymark_checkpoints ADD COLUMN more TEXT", "waymark_checkpoints"],
    ["DROP INDEX waymark_checkpoints_by_id", "waymark_checkpoints_by_id"],
  ])("is refused if a table or index is missing or changed: %s", async (sql, name) => {
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    await adapter.close();
    connect(path).exec(sql);
    await expectUntouched(path, CheckpointCorruptError, new RegExp(`${name} is missing or changed`));
  });

  it("doesn't count as an empty store if only its first bytes are left", async () => {
    const path = join(await tempFolder(), "cut.db");
    writeFileSync(path, "SQLite format 3");
    await expectUntouched(path, CheckpointCorruptError, /is not an SQLite database, or its header is damaged/);
  });

  async function expectUntouched(
    path: string,
    type: typeof UnsupportedFormatError | typeof CheckpointCorruptError,
    message: RegExp,
  ) {
    const before = readFileSync(path);
    const adapter = openAdapter({ path });
    for (const call of [
      () => listed(adapter),
      () => adapter.append(draft("t", "x")),
      () => adapter.remove("t", "all"),
    ]) {
      await expect(call()).rejects.toThrow(type);
      await expect(call()).rejects.toThrow(message);
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  }
});

describe("a failing disk or folder", () => {
  it("is named if the disk is full, and earlier saves are intact", async () => {
    // A page limit makes SQLite fail as on a full disk.
    class SmallDisk extends Database {
      constructor(path?: string | Buffer, options?: Database.Options) {
        super(path, options);
        this.pragma("max_page_count = 40");
      }
    }
    const { adapter } = await newStore({ driver: SmallDisk });
    await adapter.append(draft("t", "c1"));
    const large = draft("t", "c2", { body: JSON.stringify(randomBytes(200_000).toString("hex")) });
    await expect(adapter.append(large)).rejects.toThrow(/no space left.*changed nothing.*Free some space/i);
    await expect(adapter.append(large)).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect(await adapter.append(draft("t", "c3"))).toBe(2);
    expect(await listed(adapter)).toEqual(["c3", "c1"]);
  });

  it("is named if the database is read-only", async () => {
    class ReadOnly extends Database {
      constructor(path?: string | Buffer, options?: Database.Options) {
        super(path, { ...options, readonly: true });
      }
    }
    const { adapter, path } = await newStore();
    await adapter.append(draft("t", "c1"));
    const reader = openAdapter({ path, driver: ReadOnly });
    expect(await listed(reader)).toEqual(["c1"]);
    await expect(reader.append(draft("t", "c2"))).rejects.toThrow(/is read-only/);
    await expect(reader.append(draft("t", "c2"))).rejects.toThrow(StorageError);
  });

  it("is named if the folder is a file", async () => {
    const folder = await tempFolder();
    writeFileSync(join(folder, "file"), "");
    const adapter = openAdapter({ path: join(folder, "file", "checkpoints.db") });
    await expect(listed(adapter)).rejects.toThrow(/can't be opened.*Check that its parent is a folder/);
    await expect(adapter.append(draft("t", "c1"))).rejects.toThrow(StorageError);
    await expect(adapter.append(draft("t", "c1"))).rejects.toThrow(
      /can't be opened.*Check that its parent is a folder/,
    );
  });

  it("is named by the first call of any kind if the database doesn't exist and can't be created", async () => {
    const folder = await tempFolder();
    chmodSync(folder, 0o555);
    const error = errorOfProgram(`
      const { default: Database } = await import("better-sqlite3");
      const { SqliteAdapter } = await import("waymark/adapters/sqlite");
      new Database(":memory:").close();
      // The super-user may write anywhere.
      if (process.getuid() === 0) process.setuid(65534);
      const path = ${JSON.stringify(join(folder, "new", "checkpoints.db"))};
      await new SqliteAdapter({ path, driver: Database }).get("t", "c1");
    `);
    expect(error).toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringMatching(/can't be opened.*EACCES.*writable/),
    });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("is named if the database is a folder", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    mkdirSync(path);
    await expect(openAdapter({ path }).append(draft("t", "c1"))).rejects.toThrow(/can't be opened/);
  });
});

describe("the driver", () => {
  it("that isn't installed makes the first call fail with an error that says how to install it", async () => {
    hideFromRequire("better-sqlite3");
    const { adapter } = await newStore({ driver: "better-sqlite3" });
    for (const call of firstCalls(adapter)) {
      await expect(call()).rejects.toThrow(StorageError);
      await expect(call()).rejects.toThrow(/Cannot find module 'better-sqlite3'.*npm install better-sqlite3/);
    }
  });

  it("whose native build is missing makes the first call fail with an error that says how to rebuild it", async () => {
    const { adapter, folder } = await newStore({ driver: await unbuiltDriver() });
    for (const call of firstCalls(adapter)) {
      await expect(call()).rejects.toThrow(StorageError);
      await expect(call()).rejects.toThrow(/can't be loaded.*bindings file\. Nothing was read .*npm rebuild/);
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it("that isn't installed is replaced by the SQLite of Node, if this Node has one", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    const error = errorOfProgram(`
      const { Module } = await import("node:module");
      const resolve = Module._resolveFilename;
      Module._resolveFilename = (name, ...rest) => resolve(name === "better-sqlite3" ? "no-such-package" : name, ...rest);
      const { CheckpointManager } = await import("waymark");
      const { SqliteAdapter } = await import("waymark/adapters/sqlite");
      const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: ${JSON.stringify(path)} }) });
      await manager.save("t", { n: 1 });
      await manager.close();
    `);
    const isMissing = builtInDriver("node:sqlite") === undefined;
    expect(error).toEqual(isMissing ? expect.objectContaining({ code: "STORAGE_FAILED" }) : undefined);
    expect(existsSync(path)).toBe(!isMissing);
  });

  it("may be a class of your own", async () => {
    class Mine extends Database {}
    const { adapter } = await newStore({ driver: Mine });
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
  });
});

describe("a new database", () => {
  it("that can't be filled stays without tables, and the next append fills it", async () => {
    let fails = true;
    class Failing extends Database {
      override pragma(sql: string, options?: Database.PragmaOptions): unknown {
        if (fails && sql.startsWith("user_version =")) throw new Database.SqliteError("disk full", "SQLITE_FULL");
        return super.pragma(sql, options);
      }
    }
    const { adapter } = await newStore({ driver: Failing });
    await expect(adapter.append(draft("t", "c1"))).rejects.toThrow(/no space left.*Free some space/);
    expect(await listed(adapter)).toEqual([]);
    fails = false;
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
    expect(await listed(adapter)).toEqual(["c1"]);
  });

  it("is filled by both of two processes that switch it to the log at the same moment", async () => {
    const { adapter, path } = await newStore({ busyTimeoutMs: 60_000 });
    const other = connect(path);
    // This is the lock that the other process holds in the middle of the switch.
    other.exec("BEGIN IMMEDIATE");
    const appended = adapter.append(draft("t", "c1"));
    other.exec("COMMIT");
    other.pragma("journal_mode = WAL");
    expect(await appended).toBe(1);
    expect(await listed(adapter)).toEqual(["c1"]);
  });
});

/** The calls that may be a program's first. */
function firstCalls(adapter: SqliteAdapter): readonly (() => Promise<unknown>)[] {
  return [
    () => adapter.get("t", "c1"),
    () => listed(adapter),
    () => collect(adapter.tasks({ order: "taskId" })),
    () => collect(adapter.maintenance.verify({ quick: true })),
    () => adapter.leases.current("t"),
    () => adapter.setStatus("t", "c1", { status: "paused" }),
    () => adapter.remove("t", "all"),
    () => adapter.append(draft("t", "c1")),
  ];
}

/** Hides the package, as if it weren't installed, until the test is over. */
function hideFromRequire(name: string): void {
  // Every require goes through this function. There is no public way to remove a package from a running process.
  const internals = Module as unknown as { _resolveFilename(request: string, ...rest: unknown[]): string };
  const original = internals._resolveFilename;
  onTestFinished(() => {
    internals._resolveFilename = original;
  });
  internals._resolveFilename = function (request, ...rest) {
    const shown = request === name ? `${name}-hidden` : request;
    try {
      return original.call(this, shown, ...rest);
    } catch (error) {
      if (error instanceof Error) error.message = error.message.replaceAll(shown, request);
      throw error;
    }
  };
}

/** Makes the package lack its native build, as after an npm install without install scripts. */
async function unbuiltDriver(): Promise<SqliteDriver> {
  const packages = join(await tempFolder(), "node_modules");
  const installed = join(createRequire(import.meta.url).resolve("better-sqlite3/package.json"), "..", "..");
  for (const name of ["better-sqlite3/package.json", "better-sqlite3/lib", "bindings", "file-uri-to-path"]) {
    cpSync(join(installed, name), join(packages, name), { recursive: true });
  }
  return createRequire(join(packages, "here.js"))("better-sqlite3");
}
