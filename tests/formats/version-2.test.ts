import { readFile } from "node:fs/promises";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import type { StorageAdapter } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { postgresDdl } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { draft } from "../../src/conformance/drafts.js";
import { administer, newSchema, openAdapter } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";

/**
 * Version 2 of the databases, as SQL. Each has five tasks: `plain`, and runs that are `done`, `paused`, `failed`, and
 * `killed` in their second step. The fixtures are never edited.
 */
const FIXTURE = join(import.meta.dirname, "../fixtures/formats/version-2");
/** The tasks that a worker may go on with. `paused` and `killed` were saved by runs. */
const DUE = ["killed", "paused"];
const QUERY = { prefix: "", dueBy: "2026-12-31T00:00:00.000Z" };

const STORES: Readonly<Record<string, () => Promise<() => StorageAdapter>>> = {
  sqlite: async () => {
    const path = await newSqlite();
    return () => openStorage(`sqlite:${path}`);
  },
  postgres: async () => {
    const place = await newPostgres();
    return () => openAdapter(place);
  },
};

async function newSqlite(): Promise<string> {
  const path = join(await tempFolder(), "checkpoints.db");
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.exec(await readFile(join(FIXTURE, "sqlite.sql"), "utf8"));
  database.close();
  return path;
}

async function newPostgres() {
  const place = await newSchema();
  const text = await readFile(join(FIXTURE, "postgres.sql"), "utf8");
  await administer(place.url, text.replaceAll('"version_2"', `"${place.schema}"`));
  return place;
}

describe.each(Object.keys(STORES))("a store of version 2, %s", (name) => {
  it("is intact before and after its first change, and gives workers a task once a newer program has saved it", async () => {
    const open = await STORES[name]!();
    const manager = new CheckpointManager({ storage: open() });
    expect((await manager.verify()).findings).toEqual([]);
    await manager.save("plain", { n: 2 });
    expect((await manager.verify()).findings).toEqual([]);
    const { queue, leases } = open();
    expect(await queue?.count(QUERY)).toEqual({ tasks: 0, oldestDueAt: undefined });

    const storage = open();
    for (const taskId of DUE) {
      const [newest] = await manager.list(taskId, { limit: 1 });
      await storage.setStatus(taskId, newest!.id, { status: "paused" });
    }
    expect(await queue?.count(QUERY)).toMatchObject({ tasks: 2 });
    const claims = await queue?.claimNext(QUERY, "worker", 60_000, 3);
    // Both tasks had a lease before.
    expect(claims).toEqual(DUE.map((taskId) => ({ taskId, token: 2 })));
    expect(await leases?.current("killed")).toMatchObject({ holder: "worker" });
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  it("continues its runs", async () => {
    const open = await STORES[name]!();
    const manager = new CheckpointManager({ storage: open() });
    for (const taskId of DUE) {
      const result = await manager.run(taskId, async (run) => [
        await run.step("a", () => "again"),
        await run.step("b", () => "second"),
      ]);
      expect(result).toEqual(["first", "second"]);
    }
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });
});

describe("tables of version 2", () => {
  it("become like new ones when they are opened: SQLite", async () => {
    const paths = [await newSqlite(), join(await tempFolder(), "new.db")];
    const found = [];
    for (const path of paths) {
      const manager = new CheckpointManager({ storage: openStorage(`sqlite:${path}`) });
      await manager.save("t", {});
      await manager.close();
      const database = new Database(path, { readonly: true });
      found.push([
        database.pragma("user_version", { simple: true }),
        database.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").all(),
      ]);
      database.close();
    }
    expect(found[0]).toEqual(found[1]);
    expect(found[0]?.[0]).toBe(3);
  });

  it("become like new ones at the first change: PostgreSQL", async () => {
    const [old, made] = [await newPostgres(), await newSchema()];
    const found = [];
    for (const { url, schema } of [old, made]) {
      await openAdapter({ url, schema }).append(draft("t", "c1"));
      const columns = `SELECT table_name, column_name, ordinal_position, data_type, collation_name, is_nullable
        FROM information_schema.columns WHERE table_schema = $1 ORDER BY 1, 3`;
      const indexes =
        "SELECT indexname, replace(indexdef, $1, '') AS sql FROM pg_indexes WHERE schemaname = $1 ORDER BY 1";
      const version = "SELECT obj_description(($1::text || '.tasks')::regclass) AS note";
      found.push([
        await administer(url, columns, [schema]),
        await administer(url, indexes, [schema]),
        await administer(url, version, [`"${schema}"`]),
      ]);
    }
    expect(found[0]).toEqual(found[1]);
    expect(found[0]?.[2]).toEqual([{ note: "Waymark's checkpoints, version 3" }]);
  });

  it("can be read and verified unchanged if nobody may write them: SQLite", async () => {
    const path = await newSqlite();
    class ReadOnly extends Database {
      constructor(file?: string | Buffer, options?: Database.Options) {
        super(file, { ...options, readonly: true });
      }
    }
    const storage = new SqliteAdapter({ path, driver: ReadOnly });
    const manager = new CheckpointManager({ storage });
    expect(await manager.tasks()).toHaveLength(5);
    expect((await manager.verify()).findings).toEqual([]);
    expect(await storage.queue.count(QUERY)).toEqual({ tasks: 0, oldestDueAt: undefined });
    expect(await storage.queue.claimNext(QUERY, "worker", 1000, 1)).toEqual([]);
    await expect(manager.save("t", {})).rejects.toThrow(/is read-only/);
    await manager.close();
    const database = new Database(path, { readonly: true });
    expect(database.pragma("user_version", { simple: true })).toBe(2);
    database.close();
  });

  it("can be read and verified unchanged, and refuse changes without the right to migrate them: PostgreSQL", async () => {
    const place = await newPostgres();
    const storage = openAdapter({ ...place, migrate: false });
    const manager = new CheckpointManager({ storage });
    expect(await manager.tasks()).toHaveLength(5);
    expect((await manager.verify()).findings).toEqual([]);
    expect(await storage.queue.count(QUERY)).toEqual({ tasks: 0, oldestDueAt: undefined });
    const newest = (await manager.list("paused"))[0]!;
    for (const change of [
      () => manager.save("plain", {}),
      () => storage.setStatus("paused", newest.id, { status: "running" }),
      () => storage.remove("paused", [newest.id]),
      () => storage.queue.claimNext(QUERY, "worker", 1000, 1),
    ]) {
      await expect(change()).rejects.toThrow(/tables of an older version.*waymark postgres ddl/);
    }
    // An open adapter finds the tables that an administrator has migrated.
    await administer(place.url, postgresDdl(place.schema));
    expect(await storage.setStatus("paused", newest.id, { status: "running" })).toBe(true);
    expect(await storage.queue.count(QUERY)).toMatchObject({ tasks: 1 });
    await manager.close();
  });
});
