// Tests the command on states that are stored as changes, 64 in a bundle, some of which were removed.
import { statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { encrypt } from "waymark";
import { openStorage } from "waymark/adapters";
import { FOLD, FORM } from "../../adapters/sql/history.js";
import { draft } from "../../conformance/drafts.js";
import { bodyOf, messages, saveTurns, take } from "../support/histories.js";
import { administer, newSchema } from "../support/postgres.js";
import { newPlace, recordsOf, waymark } from "./waymark.js";

const named = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => `c${from + index}`);
/** The first state is small, the second is stored whole, and some come after the bundle. */
const SAVED = named(1, FOLD + 10);
const REMOVED = [...named(20, 29), `c${FOLD + 2}`];
const LEFT = SAVED.filter((id) => !REMOVED.includes(id));

/** Makes two storages, and a function that changes the tables of the first one directly. */
const STORAGES = {
  async sqlite() {
    const urls = ["sqlite:store.db", "sqlite:other.db"] as const;
    const place = await newPlace(urls[0]);
    const administered = async (sql: string) => {
      const database = new Database(join(place.cwd, "store.db"));
      const statement = database.prepare<[], Record<string, unknown>>(sql);
      const rows = statement.reader ? statement.all() : void statement.run();
      database.close();
      return rows ?? [];
    };
    return { ...place, urls, administered, tableOf: (name: string) => `waymark_${name}`, pieces: "waymark_payloads" };
  },
  async postgres() {
    const { url, schema } = await newSchema();
    const urls = [`${url}?schema=${schema}`, `${url}?schema=${(await newSchema()).schema}`] as const;
    const tableOf = (name: string) => `"${schema}".${name}`;
    const administered = (sql: string) => administer(url, sql);
    return { ...(await newPlace(urls[0])), urls, administered, tableOf, pieces: tableOf("pieces") };
  },
};

async function storeWithBundle(kind: keyof typeof STORAGES) {
  const store = await STORAGES[kind]();
  const { cwd, urls, pieces, administered } = store;
  const storage = openStorage(urls[0], { relativeTo: cwd });
  onTestFinished(() => storage.close());
  const texts = await saveTurns(storage, SAVED.length);
  const bodies = new Map(SAVED.map((id, index) => [id, texts[index] ?? ""]));
  await storage.remove("t", REMOVED);
  const forms = async () => {
    const rows = await administered(`SELECT DISTINCT form FROM ${pieces} WHERE form > 0 ORDER BY form`);
    return rows.map(({ form }) => form);
  };
  expect(await forms()).toEqual([FORM.plain, FORM.delta, FORM.bundle]);
  return { ...store, storage, bodies, forms };
}

describe.each(["sqlite", "postgres"] as const)("a history with a bundle on %s", (kind) => {
  it("is exported, imported and copied unchanged", async () => {
    const { cwd, run, urls } = await storeWithBundle(kind);
    const records = await recordsOf(cwd, urls[0]);
    expect(records.map(({ id }) => id)).toEqual(LEFT);
    const exported = (await run("export")).stdout;
    const imported = await waymark({ cwd, env: { WAYMARK_STORAGE: urls[1] } }, ["import"], exported);
    expect(imported).toMatchObject({ code: 0, stderr: "" });
    expect(await recordsOf(cwd, urls[1])).toEqual(records);
    expect((await run("copy", "--to", "files:copy")).stdout).toContain(`${LEFT.length} of ${LEFT.length} identical`);
    expect(await recordsOf(cwd, "files:copy")).toEqual(records);
  });

  it("is encrypted by a rekey, and none of its pieces stays", async () => {
    const { open, bodies, forms } = await storeWithBundle(kind);
    const transforms = [encrypt({ keys: { one: Buffer.alloc(32, 1) }, current: "one" })];
    await using manager = await open(undefined, { transforms });
    expect(await manager.maintenance.rekey()).toMatchObject({
      rewritten: LEFT.length,
      refused: 0,
      damaged: 0,
      left: 0,
    });
    const states: [string, string][] = [];
    for await (const { id, state } of manager.history("t", { order: "oldest" }))
      states.push([id, JSON.stringify(state)]);
    expect(states).toEqual(LEFT.map((id) => [id, bodies.get(id)]));
    expect(await forms()).toEqual([]);
  });

  it("loses only its damaged states by a repair", async () => {
    const { run, storage, bodies, administered, tableOf, pieces } = await storeWithBundle(kind);
    expect(await run("verify")).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing is wrong") });

    await administered(`UPDATE ${tableOf("checkpoints")} SET label = 'by hand' WHERE id = 'c40'`);
    expect(await run("repair", "--yes")).toMatchObject({ code: 0 });
    const intact = LEFT.filter((id) => id !== "c40");
    for (const id of intact) expect(await bodyOf(storage, "t", id)).toBe(bodies.get(id));

    await administered(`UPDATE ${pieces} SET body = '' WHERE form = ${FORM.bundle}`);
    const { code, stdout } = await run("verify", "--json");
    expect([code, JSON.parse(stdout).findings.map(({ id }: { id: string }) => id)]).toEqual([1, intact.slice(2)]);
    expect(await run("repair", "--yes")).toMatchObject({ code: 0 });
    expect(await run("verify")).toMatchObject({ code: 0 });
    for (const id of intact.slice(0, 2)) expect(await bodyOf(storage, "t", id)).toBe(bodies.get(id));
    const quarantined = `SELECT id FROM ${tableOf("quarantine")} WHERE body IS NOT NULL ORDER BY sequence`;
    expect((await administered(quarantined)).map(({ id }) => id)).toEqual(LEFT.slice(2));
    const next = bodies.get("c70") ?? "";
    await storage.append(draft("t", "next", { body: next }));
    expect(await bodyOf(storage, "t", "next")).toBe(next);
  });
});

it.each(["the state", "a fork"])("forks share their state in a copy, if %s comes first", async (first) => {
  const source = first === "the state" ? "a" : "z";
  const { cwd, run, open } = await newPlace("sqlite:store.db");
  await using manager = await open();
  const [text = ""] = take(messages(100_000), 1);
  const { id } = await manager.save(source, { text, notes: ["common"] });
  for (let fork = 0; fork < 20; fork++) {
    await manager.fork(source, id, `fork-${fork}`);
    await manager.save(`fork-${fork}`, { text, notes: ["common", fork] });
  }
  await manager.close();
  expect((await run("copy", "--to", "sqlite:copy.db")).stdout).toContain("41 of 41 identical");
  const [stored = 0, copied = 0] = ["store.db", "copy.db"].map((name) => statSync(join(cwd, name)).size);
  expect(copied).toBeLessThan(1.5 * stored);
});
