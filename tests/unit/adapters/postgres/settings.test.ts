import type pg from "pg";
import { types } from "pg";
import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import type { PostgresPool, PostgresQuery } from "waymark/adapters/postgres";
import { draft } from "../../../../conformance/drafts.js";
import { collect, newPool, newSchema, openAdapter } from "../../../support/postgres.js";

const [BYTEA, BIGINT] = [17, 20];

/** The application's own parsers for some types, by default for all types. */
function parsing(oids?: readonly number[]): pg.CustomTypesConfig {
  const parsed = (text: string) => ({ text });
  return { getTypeParser: (oid) => (oids?.includes(oid) === false ? types.getTypeParser(oid) : parsed) };
}

/** Settings of a session that change how the server writes values, or how a transaction begins. */
const SETTINGS = {
  bytea_output: "escape",
  datestyle: "German",
  intervalstyle: "sql_standard",
  timezone: "Asia/Kathmandu",
  extra_float_digits: "-15",
  standard_conforming_strings: "off",
  escape_string_warning: "off",
  default_transaction_isolation: "serializable",
  search_path: "''",
};

const WAYS: [string, pg.PoolConfig][] = [
  ["parses every type its own way", { types: parsing() }],
  ["parses bytes and integers its own way", { types: parsing([BYTEA, BIGINT]) }],
  [
    "has other settings of the session",
    {
      options: Object.entries(SETTINGS)
        .map(([name, value]) => `-c ${name}=${value}`)
        .join(" "),
    },
  ],
];

it.each(WAYS)("finds every row intact over a pool that %s", async (_way, config) => {
  const { url, schema } = await newSchema();
  const writer = new CheckpointManager({ storage: openAdapter({ url, schema }) });
  const text = `a\\b\u0000\u0001'é${"long".repeat(500)}`;
  for (let n = 1; n <= 5; n++) await writer.save("t", { n, text }, { metadata: { when: "2026-01-01" } });
  await writer.save("small", { n: 1 });

  const storage = openAdapter({ pool: newPool(url, config), schema });
  const manager = new CheckpointManager({ storage });
  expect(await manager.maintenance.verify()).toMatchObject({ tasks: 2, checkpoints: 6, findings: [] });
  expect(await manager.maintenance.repair()).toMatchObject({ steps: [] });
  expect((await manager.latest("t"))?.state).toEqual({ n: 5, text });
  expect(await manager.list("t")).toEqual(await writer.list("t"));
  expect(await manager.tasks()).toEqual(await writer.tasks());
  expect((await collect(manager.history("t", { order: "oldest" }))).map(({ sequence }) => sequence)).toEqual([
    1, 2, 3, 4, 5,
  ]);
});

it.each(WAYS)("saves, claims and removes over a pool that %s", async (_way, config) => {
  const { url, schema } = await newSchema();
  const storage = openAdapter({ pool: newPool(url, config), schema });
  const manager = new CheckpointManager({ storage });
  const reader = new CheckpointManager({ storage: openAdapter({ url, schema }) });
  const text = "long".repeat(500);
  await Promise.all(Array.from({ length: 70 }, (_, n) => manager.save("t", { n: n + 1, text })));
  const bytes = draft("bytes", "b1", { body: new Uint8Array([0, 0xff, 0x5c, 0x27, 0x80, 0x0a]) });
  await storage.append(bytes);
  expect(await storage.get("bytes", "b1")).toMatchObject({ payload: bytes.payload });

  const lease = await manager.lease("t");
  expect(await manager.leaseOf("t")).toMatchObject({ holder: lease.holder });
  await manager.save("t", { n: 71, text }, { lease });
  await lease.release();
  await manager.enqueue("queued", { n: 1 });
  const due = { prefix: "queued", dueBy: "9999-01-01T00:00:00.000Z" };
  expect(await storage.queue.count(due)).toMatchObject({ tasks: 1 });
  expect(await storage.queue.claimNext(due, "me", 10_000, 1)).toEqual([{ taskId: "queued", token: 1 }]);

  const [newest, second] = await manager.list("t", { limit: 2 });
  await manager.remove("t", second?.id ?? "");
  await manager.fail("t", new Error("on purpose"));
  await manager.removeTask("bytes");
  expect(await reader.latest("t")).toMatchObject({ id: newest?.id, status: "failed", state: { n: 71, text } });
  expect(await reader.maintenance.verify()).toMatchObject({ tasks: 2, checkpoints: 71, findings: [] });
  expect(await manager.maintenance.repair()).toMatchObject({ steps: [] });
});

/** A pool that changes each query before it sends it. */
function changing(pool: pg.Pool, changed: (query: PostgresQuery) => object): PostgresPool {
  const query = (asked: PostgresQuery) => pool.query(changed(asked) as PostgresQuery);
  return Object.assign(Object.create(pool), { query });
}

const withoutTypes = ({ types: _, ...query }: PostgresQuery) => query;
const toLatin1 = (client: pg.ClientBase) => client.query("SET client_encoding = 'LATIN1'");

it.each<[string, object, (query: PostgresQuery) => object]>([
  ["reads results in the binary format", { binary: true }, (query) => query],
  ["has another text encoding", { onConnect: toLatin1 }, (query) => query],
  ["ignores a query's parsers and has its own", { types: parsing([BYTEA]) }, withoutTypes],
  ["returns rows as objects", {}, ({ rowMode: _, ...query }) => query],
])("refuses a pool that %s, before anything is read or written", async (_way, config, changed) => {
  const { url, schema } = await newSchema();
  const adapter = openAdapter({ pool: changing(newPool(url, config), changed), schema });
  const message = expect.stringMatching(/`binary`.*`client_encoding`.*`types`/);
  const refused = { code: "STORAGE_FAILED", retryable: false, message };
  await expect(adapter.append(draft("t", "c1"))).rejects.toMatchObject(refused);
  await openAdapter({ url, schema }).append(draft("t", "c1"));
  await expect(adapter.get("t", "c1")).rejects.toMatchObject(refused);
  await expect(new CheckpointManager({ storage: adapter }).maintenance.repair()).rejects.toMatchObject(refused);
});

it("reads over a pool that ignores a query's parsers and has pg's own", async () => {
  const { url, schema } = await newSchema();
  const adapter = openAdapter({ pool: changing(newPool(url), withoutTypes), schema });
  await adapter.append(draft("t", "c1"));
  expect(await adapter.get("t", "c1")).toMatchObject({ sequence: 1 });
});
