import { expect, it } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import { event, record } from "../../../../conformance/records.js";
import {
  administer,
  collect,
  newPool,
  newSchema,
  newStore,
  openAdapter,
  spyingPool,
} from "../../../support/postgres.js";

/** A store whose table `commits` gets the setting `synchronous_commit` as it is when a record's append commits. */
async function storeWithCommits() {
  const { url, schema, adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  for (const sql of [
    `CREATE TABLE "${schema}".commits (name text, setting text)`,
    `CREATE FUNCTION "${schema}".note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       INSERT INTO "${schema}".commits VALUES (NEW.name, current_setting('synchronous_commit')); RETURN NULL; END $$`,
    // A deferred trigger runs last before the commit.
    `CREATE CONSTRAINT TRIGGER note AFTER INSERT ON "${schema}".records DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION "${schema}".note()`,
  ]) {
    await administer(url, sql);
  }
  const commits = async () => {
    const rows = await administer(url, `SELECT name, setting FROM "${schema}".commits`);
    return Object.fromEntries(rows.map(({ name, setting }) => [String(name), setting]));
  };
  return { url, schema, adapter, commits };
}

it("a commit isn't synced if all its appends are lazy", async () => {
  const { adapter, commits } = await storeWithCommits();
  const append = (taskId: string, name: string, lazy: boolean) =>
    adapter.log.append(taskId, [record(name)], {}, { lazy });
  await append("t", "lazy", true);
  await append("t", "durable", false);
  // The first append has its own statement, and the others share one.
  await Promise.all([append("a", "first", true), append("b", "both lazy", true), append("c", "both lazy", true)]);
  await Promise.all([append("a", "second", true), append("b", "with a durable one", true), append("c", "x", false)]);
  const settings = await commits();
  expect(settings).toMatchObject({
    lazy: "off",
    durable: "on",
    "both lazy": "off",
    "with a durable one": "on",
    x: "on",
  });
});

it("a read of durable records syncs what was committed without a sync, once", async () => {
  const { url, schema, adapter } = await newStore();
  const read = () => collect(adapter.log.read({ taskId: "t", order: "oldest", durableOnly: true }));
  const unsynced = async () => {
    const [row] = await administer(
      url,
      `SELECT lazy_sequence, pg_current_wal_insert_lsn() AS end FROM "${schema}".tasks`,
    );
    return row;
  };
  await adapter.log.append("t", [record("m"), record("n")], {}, { lazy: true });
  const before = await unsynced();
  expect(before?.["lazy_sequence"]).toBe("2");
  expect(await read()).toHaveLength(2);
  expect((await unsynced())?.["lazy_sequence"]).toBe(null);
  const [flushed] = await administer(url, "SELECT pg_current_wal_flush_lsn() >= $1 AS yes", [before?.["end"]]);
  expect(flushed).toEqual({ yes: true });
  const row = () => administer(url, `SELECT xmin FROM "${schema}".tasks`);
  const written = await row();
  await read();
  expect(await row()).toEqual(written);
});

it("an append and a read of the log are one round trip each, also with a checkpoint", async () => {
  const { url, schema } = await newSchema();
  let count = 0;
  const pool = spyingPool(newPool(url), { before: () => void count++ });
  const adapter = openAdapter({ pool, schema });
  await adapter.append(draft("t", "c1"));
  const roundTrips = async (call: () => Promise<unknown>) => {
    count = 0;
    await call();
    return count;
  };
  expect(await roundTrips(() => adapter.log.append("t", [record("a"), event("e")], { expectedSequence: 1 }))).toBe(1);
  expect(await roundTrips(() => adapter.log.append("t", [record("m")], {}, { lazy: true }))).toBe(1);
  const records = { records: [record("b"), event("f")] };
  expect(await roundTrips(() => adapter.append(draft("t", "c2"), { noEventAfter: 3 }, records))).toBe(1);
  expect(await roundTrips(() => collect(adapter.log.read({ taskId: "t", order: "newest" })))).toBe(1);
});

it("a repeated lazy event is acknowledged after a synced commit", async () => {
  const { url, schema, adapter } = await newStore();
  const append = () => adapter.log.append("t", [event("e")], {}, { lazy: true });
  await append();
  const [{ end } = { end: undefined }] = await administer(url, "SELECT pg_current_wal_insert_lsn() AS end");
  expect(await append()).toBe(1);
  const [flushed] = await administer(url, "SELECT pg_current_wal_flush_lsn() >= $1 AS yes", [end]);
  expect(flushed).toEqual({ yes: true });
  expect(await administer(url, `SELECT FROM "${schema}".records`)).toHaveLength(1);
});

it("reads a long log in pages of some 1 MiB of bodies", async () => {
  const { adapter } = await newStore();
  const body = JSON.stringify("x".repeat(400_000));
  for (let number = 1; number <= 9; number++) await adapter.log.append("t", [record(`r${number}`, { body })]);
  const items = await collect(adapter.log.read({ taskId: "t", order: "newest" }));
  expect(items.map(({ sequence }) => sequence)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1]);
});
