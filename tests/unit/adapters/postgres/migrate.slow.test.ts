import { randomUUID } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { postgresDdl } from "waymark/adapters/postgres";
import { FOLD, FORM } from "../../../../adapters/sql/history.js";
import { draft } from "../../../../conformance/drafts.js";
import { event } from "../../../../conformance/records.js";
import { bodyOf, saveTurns } from "../../../support/histories.js";
import { administer, collect, newPool, newSchema, newStore, openAdapter } from "../../../support/postgres.js";

describe("the tables", () => {
  it("are made once, even if fifty programs save at once into an empty database", async () => {
    const place = await newSchema();
    const adapters = Array.from({ length: 50 }, () => openAdapter({ ...place, retryForMs: 60_000 }));
    const sequences = await Promise.all(adapters.map((adapter, index) => adapter.append(draft("t", `c${index}`))));
    expect(new Set(sequences).size).toBe(50);
  });

  it("are made once, even if another program makes them while this one waits to do so", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url, { application_name: schema, max: 1 });
    // A connection that has made tables before, such as a pooler's, remembers that it didn't find them.
    await openAdapter({ pool, schema: (await newSchema()).schema }).append(draft("t", "c1"));
    const other = await newPool(url).connect();
    await other.query(`BEGIN; SELECT pg_advisory_xact_lock(${0x57594d4b})`);
    const saving = openAdapter({ pool, schema }).append(draft("t", "c1"));
    const waiting = "SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'advisory'";
    while ((await administer(url, waiting, [schema])).length === 0);
    await other.query(postgresDdl(schema));
    await other.query("COMMIT");
    other.release();
    expect(await saving).toBe(1);
  });

  it("are not made with `migrate: false`, and can be made by hand, more than once", async () => {
    const { url, schema, adapter } = await newStore({ migrate: false });
    expect(await collect(adapter.tasks({ order: "taskId" }))).toEqual([]);
    await expect(adapter.append(draft("t", "c1"))).rejects.toThrow(/no tables.*waymark postgres ddl/);
    for (let time = 0; time < 2; time++) await administer(url, postgresDdl(schema));
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
  });

  it("of a newer program are left alone", async () => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    await administer(url, `COMMENT ON TABLE "${schema}".tasks IS 'Waymark''s checkpoints, version 2'`);
    const older = openAdapter({ url, schema });
    await expect(older.get("t", "c1")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
    await expect(older.append(draft("t", "c2"))).rejects.toThrow(
      /version 2 of the tables; this program knows versions up to 1\./,
    );
  });

  it.each(["tasks", "checkpoints", "pieces", "leases"])("of another program are left alone: %s", async (table) => {
    const { url, schema, adapter } = await newStore();
    await administer(url, `CREATE SCHEMA "${schema}"`);
    await administer(url, `CREATE TABLE "${schema}".${table} (name text)`);
    await expect(adapter.append(draft("t", "c1"))).rejects.toThrow(`has a table "${table}" of another program`);
    await expect(adapter.get("t", "c1")).rejects.toThrow(`has a table "${table}" of another program`);
  });

  it("are enough for a role that may only read and append: save, latest and lists", async () => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    const role = `role_${randomUUID()}`;
    for (const sql of [
      `CREATE ROLE "${role}" LOGIN PASSWORD 'secret'`,
      `GRANT USAGE ON SCHEMA "${schema}" TO "${role}"`,
      `GRANT SELECT, INSERT ON "${schema}".checkpoints, "${schema}".pieces, "${schema}".records TO "${role}"`,
      `GRANT SELECT, INSERT, UPDATE ON "${schema}".tasks TO "${role}"`,
      `GRANT SELECT ON "${schema}".leases TO "${role}"`,
    ]) {
      await administer(url, sql);
    }
    onTestFinished(async () => {
      await administer(url, `DROP OWNED BY "${role}"`);
      await administer(url, `DROP ROLE "${role}"`);
    });
    const as = new URL(url);
    as.username = role;
    as.password = "secret";
    const limited = openAdapter({ url: as.href, schema });
    const manager = new CheckpointManager({ storage: limited });
    await manager.save("u", { n: 1 });
    expect((await manager.latest("u"))?.state).toEqual({ n: 1 });
    expect(await manager.tasks()).toHaveLength(2);
    expect(await limited.log.append("u", [event("e")])).toBe(2);
    // Histories are saved too, but without bundles.
    await adapter.remove("t", "all");
    const bodies = await saveTurns(limited, 2 * FOLD);
    expect(await bodyOf(adapter, "t", `c${bodies.length}`)).toBe(bodies.at(-1));
    expect(await administer(url, `SELECT FROM "${schema}".pieces WHERE form = ${FORM.bundle}`)).toEqual([]);
    await expect(limited.remove("t", ["c1"])).rejects.toThrow(/permission denied.*docs\/postgres\.md/);
    expect(await limited.get("t", "c1")).toMatchObject({ id: "c1" });
    await expect(limited.leases.claim("t", "limited", 1000)).rejects.toThrow(/permission denied.*docs\/postgres\.md/);
    await administer(url, `GRANT SELECT, INSERT, UPDATE ON "${schema}".leases TO "${role}"`);
    await using lease = await manager.lease("u");
    await manager.save("u", { n: 2 }, { lease });
    await limited.append(draft("paused", "c1", { status: "paused", dueAt: "2026-01-02T03:04:05.678Z" }));
    const query = { prefix: "", dueBy: "2027-01-01T00:00:00.000Z" };
    expect(await limited.queue.count(query)).toMatchObject({ tasks: 1 });
    expect(await limited.queue.claimNext(query, "limited", 1000, 1)).toEqual([{ taskId: "paused", token: 1 }]);
  });
});
