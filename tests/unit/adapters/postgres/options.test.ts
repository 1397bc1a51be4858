import { setImmediate as nextTurn } from "node:timers/promises";
import { inspect } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { PostgresAdapter, type PostgresAdapterOptions } from "waymark/adapters/postgres";
import { draft } from "../../../../conformance/drafts.js";
import {
  administer,
  collect,
  newPool,
  newSchema,
  newStore,
  openAdapter,
  serverUrl,
} from "../../../support/postgres.js";

const LOCAL = "postgres://me:hunter2@127.0.0.1:1/app";

describe("the options of PostgresAdapter", () => {
  it.each([
    [{}, /needs a `pool` or a `url`/],
    [{ url: LOCAL, pool: {} }, /needs a `pool` or a `url`/],
    [{ url: "mysql://me:hunter2@host/app" }, /url must be like/],
    [{ url: "postgres://me:hunter2@ho st/app" }, /url must be like/],
    [{ pool: {} }, /pool must be pg's Pool/],
    [{ url: LOCAL, schema: "" }, /schema must be/],
    [{ url: LOCAL, schema: "x".repeat(64) }, /schema must be/],
    [{ url: LOCAL, migrate: "no" }, /migrate must be/],
    [{ url: LOCAL, prepare: 1 }, /prepare must be/],
    [{ url: LOCAL, retryForMs: -1 }, /retryForMs must be/],
    [{ url: LOCAL, shema: "x" }, /has no "shema"/],
  ])("refuses %j without showing the password", (options, message) => {
    // A program without types may pass anything.
    const making = () => new PostgresAdapter(options as unknown as PostgresAdapterOptions);
    expect(making).toThrow(message);
    expect(making).not.toThrow(/hunter2/);
  });

  it("take the schema from the URL if none is given", async () => {
    const { url, schema } = await newSchema();
    await openAdapter({ url: `${url}?schema=${schema}` }).append(draft("t", "c1"));
    expect(await openAdapter({ url, schema }).get("t", "c1")).toMatchObject({ id: "c1" });
    expect(() => new PostgresAdapter({ url: `${url}?schema=` })).toThrow(/schema must be/);
  });

  it("connects at the first use, not before", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url);
    const adapter = openAdapter({ pool, schema });
    await nextTurn();
    expect(pool.totalCount).toBe(0);
    await adapter.get("t", "c1");
    expect(pool.totalCount).toBeGreaterThan(0);
  });

  it("accepts a user's pool, and leaves it open", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url);
    const before = pool.listenerCount("error");
    const manager = new CheckpointManager({ storage: new PostgresAdapter({ pool, schema }) });
    await manager.save("t", { n: 1 });
    await manager.close();
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    expect(pool.listenerCount("error")).toBe(before);
  });

  it("many adapters share a user's pool without a warning of too many listeners", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url);
    const before = pool.listenerCount("error");
    const warnings: Error[] = [];
    const warn = (warning: Error) => void warnings.push(warning);
    process.on("warning", warn);
    onTestFinished(() => void process.off("warning", warn));
    const adapters = Array.from({ length: 11 }, () => new PostgresAdapter({ pool, schema }));
    for (const adapter of adapters) expect(await adapter.get("t", "c1")).toBeUndefined();
    expect(warnings).toEqual([]);
    for (const adapter of adapters.splice(1)) await adapter.close();
    expect(pool.listenerCount("error")).toBe(before + 1);
    await adapters[0]?.close();
    expect(pool.listenerCount("error")).toBe(before);
  });

  it("takes any name for a schema", async () => {
    const { url, schema } = await newSchema();
    const adapter = openAdapter({ url, schema: `${schema.slice(0, 20)}"; é` });
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
    await administer(url, `DROP SCHEMA "${schema.slice(0, 20)}""; é" CASCADE`);
  });

  it("prepares statements under names with `prepare`", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url, { max: 1 });
    const adapter = openAdapter({ pool, schema, prepare: true });
    for (const id of ["c1", "c2"]) await adapter.append(draft("t", id));
    expect(await collect(adapter.list({ taskId: "t", order: "newest" }))).toHaveLength(2);
    const { rows } = await pool.query("SELECT name FROM pg_prepared_statements WHERE name LIKE 'waymark_%'");
    expect(rows.length).toBeGreaterThan(2);
  });

  it("prepares nothing without it", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url, { max: 1 });
    const adapter = openAdapter({ pool, schema });
    await adapter.append(draft("t", "c1"));
    expect((await pool.query("SELECT name FROM pg_prepared_statements")).rows).toEqual([]);
  });
});

describe("errors", () => {
  it("of a missing server come at once, and are retryable", async () => {
    const error = await openAdapter({ url: LOCAL })
      .append(draft("t", "c1"))
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect(String(error)).toMatch(/at 127\.0\.0\.1:1, schema "waymark" can't be reached/);
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("hunter2");
  });

  it.each([
    ["postgres:///app?host=/nowhere", /PostgreSQL at \/nowhere, schema/],
    ["postgres:///app?port=1", /PostgreSQL, schema/],
  ])("name the server that the URL %s leads to", async (url, named) => {
    await expect(openAdapter({ url, retryForMs: 0 }).get("t", "c1")).rejects.toThrow(named);
  });

  it("of a refused password don't show it", async () => {
    const url = new URL(await serverUrl());
    url.username = "nobody";
    url.password = "hunter2";
    const error = await openAdapter({ url: url.href })
      .get("t", "c1")
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: false });
    expect(String(error)).toMatch(/refuses the connection/);
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("hunter2");
  });

  it("say what to do if the tables are gone, and the next call makes them again", async () => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    await administer(url, `DROP SCHEMA "${schema}" CASCADE`);
    await expect(adapter.append(draft("t", "c2"))).rejects.toThrow(/The tables were removed or changed/);
    expect(await adapter.append(draft("t", "c3"))).toBe(1);
  });
});
