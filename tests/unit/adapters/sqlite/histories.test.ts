import { statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { FOLD, FORM, makeWhole } from "../../../../adapters/sql/history.js";
import { bodyOf, hugePacked, messages, saveReplacing, saveTurns, take, turns } from "../../../support/histories.js";
import { checkRandomHistories } from "../../../support/random-histories.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { draft } from "../files/drafts.js";
import {
  collect,
  connect,
  idsOf,
  listed,
  newStore,
  openAdapter,
  payloadBytes,
  sizeAfterClosing,
  spyingDriver,
} from "./support.js";

/** Opens stores on one file. Their writes stay in the log until the end of the test. */
const options = { durability: "normal" } as const;

function rows(path: string, table: string): unknown {
  return connect(path).prepare(`SELECT count(*) FROM ${table}`).pluck().get();
}

describe("a history of states that grow", () => {
  it("takes no more space than its last states if each one replaces the previous one", async () => {
    const { adapter, path } = await newStore(options);
    const last = await saveReplacing(adapter, 200);
    expect(payloadBytes(path)).toBeLessThan(1.5 * last.length);
    await adapter.close();
    expect(await bodyOf(openAdapter({ path }), "t", "p200")).toBe(last);
  });

  it("stays as small if two processes save in turn", async () => {
    const { adapter, path } = await newStore(options);
    const other = openAdapter({ path, ...options });
    const bodies = [...take(turns(), 150)];
    for (const [index, body] of bodies.entries()) {
      await (index % 2 === 0 ? adapter : other).append(draft("t", `c${index + 1}`, { body }));
    }
    await Promise.all([adapter.close(), other.close()]);
    expect(statSync(path).size).toBeLessThan(2.5 * (bodies.at(-1)?.length ?? 0));
    expect(await bodyOf(openAdapter({ path }), "t", "c150")).toBe(bodies[149]);
  });

  it("includes the forks in other tasks, each of which reads the same without the others", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 200);
    const forked = bodies[99] ?? "";
    const branch = JSON.stringify({ ...JSON.parse(forked), turn: "of a branch" });
    for (let fork = 1; fork <= 50; fork++) {
      const taskId = `fork-${fork}`;
      await adapter.append(draft(taskId, "begun", { body: forked }), {}, { sharesWith: { taskId: "t", id: "c100" } });
      await adapter.append(draft(taskId, "next", { body: branch }));
    }
    await adapter.append(draft("gone", "begun", { body: forked }), {}, { sharesWith: { taskId: "t", id: "nobody" } });
    expect(await adapter.removePrefix("t")).toBe(200);
    await adapter.close();
    expect(statSync(path).size).toBeLessThan(10 * forked.length);
    const again = openAdapter({ path });
    for (const taskId of ["fork-1", "fork-50"]) {
      expect(await bodyOf(again, taskId, "begun")).toBe(forked);
      expect(await bodyOf(again, taskId, "next")).toBe(branch);
    }
    expect(await bodyOf(again, "gone", "begun")).toBe(forked);
  });

  it("starts over once the states have become much smaller", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 200);
    const before = await sizeAfterClosing(path, adapter);
    const smaller = openAdapter({ path, ...options });
    for (const [index, body] of bodies.slice(0, 120).entries()) {
      await smaller.append(draft("t", `again-${index + 1}`, { body }));
    }
    expect((await sizeAfterClosing(path, smaller)) - before).toBeLessThan(2 * (bodies[119]?.length ?? 0));
    expect(await bodyOf(openAdapter({ path }), "t", "again-120")).toBe(bodies[119]);
  });

  it("keeps a process's save after another process has started a new history, with a larger state and then the same one", async () => {
    const { adapter, path } = await newStore(options);
    const texts = messages(200_000);
    const [part = "", more = ""] = [texts.next().value.slice(0, 100_000), texts.next().value];
    const state = JSON.stringify([part, part]);
    const smaller = JSON.stringify([part, "x".repeat(5000)]);
    await adapter.append(draft("t", "c1"));
    await adapter.append(draft("t", "c2", { body: state }));
    const other = openAdapter({ path, ...options });
    await other.remove("t", "all");
    await other.append(draft("t", "other-1", { body: JSON.stringify([part, more]) }));
    await other.append(draft("t", "other-2", { body: state }));
    await adapter.append(draft("t", "c3", { body: smaller }));
    expect((await bodyOf(openAdapter({ path }), "t", "c3")) === smaller).toBe(true);
  });

  it("stays small if states contain another one several times, as an agent's calls do", async () => {
    const { adapter, path } = await newStore(options);
    const texts = messages(2000);
    const said: string[] = [];
    const kept: [string, string][] = [];
    for (let turn = 0; turn < 40; turn++) {
      said.push(texts.next().value);
      const sends = [1, 2, 3].map((call) => ({ call, state: said }));
      // The history begins with the largest state.
      for (const state of [{ said, sends }, { said, sends: [] }, { sends }, { said }]) {
        const [id, body] = [`c${kept.length}`, JSON.stringify(state)] as const;
        await adapter.append(draft("t", id, { body }));
        kept.push([id, body]);
      }
    }
    expect(payloadBytes(path)).toBeLessThan(kept.reduce((sum, [, body]) => sum + body.length, 0) / 20);
    const again = openAdapter({ path });
    for (const [id, body] of kept) expect(await bodyOf(again, "t", id)).toBe(body);
  });

  it("reads no large text for a small one that was part of it", async () => {
    const { adapter, path } = await newStore(options);
    const [whole = "", part = ""] = [...take(messages(200_000), 1)].flatMap((text) => [text, text.slice(0, 2000)]);
    await adapter.append(draft("t", "whole", { body: JSON.stringify(whole) }));
    await adapter.append(draft("t", "part", { body: JSON.stringify(part) }));
    await adapter.append(draft("t", "more", { body: JSON.stringify(part + part) }));
    const forms = connect(path).prepare("SELECT form FROM waymark_payloads ORDER BY number").pluck().all();
    expect(forms).toEqual([FORM.packed, FORM.standalone, FORM.standalone]);
  });

  it("makes a bundle of large deltas before there are many", async () => {
    const { adapter, path } = await newStore(options);
    const texts = messages(100_000);
    const parts = Array.from({ length: 20 }, () => texts.next().value);
    for (let save = 0; save < 4; save++) {
      parts[save * 2] = texts.next().value;
      await adapter.append(draft("t", `c${save}`, { body: JSON.stringify(parts) }));
    }
    const pieces = connect(path).prepare("SELECT number, form FROM waymark_payloads").raw().all();
    expect(pieces.map((piece) => Object(piece)[1])).toEqual([FORM.packed, FORM.bundle]);
    expect(await bodyOf(openAdapter({ path }), "t", "c3")).toBe(JSON.stringify(parts));
  });

  it("frees its space once its last checkpoint is gone", async () => {
    const { adapter, path } = await newStore(options);
    await saveTurns(adapter, 200);
    await adapter.remove(
      "t",
      Array.from({ length: 150 }, (_, index) => `c${index + 1}`),
    );
    expect(await idsOf(adapter.read({ taskId: "t", order: "newest" }))).toHaveLength(50);
    await adapter.remove(
      "t",
      Array.from({ length: 50 }, (_, index) => `c${index + 151}`),
    );
    expect([rows(path, "waymark_checkpoints"), rows(path, "waymark_payloads")]).toEqual([0, 0]);
  });

  it("keeps a bundle as long as a state before a small one needs it", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = [...take(turns(), FOLD + 10)];
    const ids = bodies.map((_body, index) => `c${index + 1}`);
    for (const [index, id] of ids.entries()) {
      const body = id === `c${FOLD - 1}` ? "{}" : (bodies[index] ?? "").padStart(60_000);
      await adapter.append(draft("t", id, { body }));
    }
    expect(
      connect(path).prepare(`SELECT count(*) FROM waymark_payloads WHERE form = ${FORM.bundle}`).pluck().get(),
    ).toBe(1);
    await adapter.remove("t", ids.slice(FOLD - 1));
    const kept = bodies[FOLD - 3]?.padStart(60_000);
    expect(await bodyOf(adapter, "t", `c${FOLD - 2}`)).toBe(kept);
    expect(await bodyOf(openAdapter({ path }), "t", `c${FOLD - 2}`)).toBe(kept);
    await adapter.remove("t", ids.slice(0, FOLD - 2));
    expect(rows(path, "waymark_payloads")).toBe(1);
  });

  it("frees unneeded data at once", async () => {
    const { adapter, path } = await newStore(options);
    const [first = "", second = ""] = take(turns(), 2);
    await adapter.append(draft("t", "first", { body: first.padEnd(3000) }));
    await adapter.append(draft("t", "small", { body: "{}" }));
    await adapter.append(draft("t", "second", { body: second.padEnd(3000) }));
    await adapter.remove("t", ["small"]);
    expect(rows(path, "waymark_payloads")).toBe(2);
  });

  it("isn't built on a state that another process saved in the place of a removed one", async () => {
    const { adapter, path } = await newStore(options);
    const [first = "", second = "", third = ""] = take(turns(), 3);
    await adapter.append(draft("t", "first", { body: first.padEnd(5000) }));
    await adapter.append(draft("t", "second", { body: second.padEnd(5000) }));
    const other = openAdapter({ path });
    await other.remove("t", ["second"]);
    await other.append(draft("t", "another", { body: first.padEnd(4990) }));
    await adapter.append(draft("t", "third", { body: third.padEnd(5000) }));
    expect(await bodyOf(openAdapter({ path }), "t", "third")).toBe(third.padEnd(5000));
    expect(await bodyOf(adapter, "t", "another")).toBe(first.padEnd(4990));
  });
});

describe("the first text of a history", () => {
  it("is compressed if that is worth the time: from 32 KB to 8 MB", () => {
    const [least, most] = [32 * 1024, 8 * 1024 * 1024];
    const forms = [least - 1, least, most, most + 1].map((bytes) => makeWhole(Buffer.alloc(bytes)).form);
    expect(forms).toEqual([FORM.plain, FORM.packed, FORM.packed, FORM.plain]);
  });
});

describe("a text that stands alone", () => {
  it("is stored as it is, reads the same by itself and in a list, and is removed at once", async () => {
    const { adapter, path } = await newStore(options);
    const [large, other] = [
      JSON.stringify(messages(200_000).next().value),
      messages(80_000).next().value.toUpperCase(),
    ];
    await adapter.append(draft("t", "large", { body: large }));
    await adapter.append(draft("t", "other", { body: JSON.stringify(other) }));
    expect(connect(path).prepare("SELECT form FROM waymark_payloads ORDER BY number").pluck().all()).toEqual([
      FORM.packed,
      FORM.standalone,
    ]);
    expect(await bodyOf(adapter, "t", "other")).toBe(JSON.stringify(other));
    const found = await collect(adapter.read({ taskId: "t", order: "oldest" }));
    expect(found.map((item) => "payload" in item && item.payload.body)).toEqual([large, JSON.stringify(other)]);
    await adapter.remove("t", ["other"]);
    expect(rows(path, "waymark_payloads")).toBe(1);
  });
});

describe("a damaged piece", () => {
  it("damages the states that need it, is found, and the next save starts a new history", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 40);
    await adapter.close();
    const database = connect(path);
    database.exec("UPDATE waymark_payloads SET body = x'00ff' WHERE number = 20");
    database.close();
    const damaged = openAdapter({ path, ...options });
    expect(await bodyOf(damaged, "t", "c19")).toBe(bodies[18]);
    expect(await bodyOf(damaged, "t", "c20")).toContain("damaged");
    expect(await bodyOf(damaged, "t", "c40")).toContain("damaged");
    await damaged.append(draft("t", "c41", { body: bodies[39] ?? "" }));
    expect(await bodyOf(openAdapter({ path }), "t", "c41")).toBe(bodies[39]);
    const found = [];
    for await (const item of damaged.maintenance.verify({ quick: false }))
      if (item.kind === "damaged") found.push(item.id);
    expect(found).toEqual(Array.from({ length: 21 }, (_, index) => `c${index + 20}`));
    for await (const _step of damaged.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    expect(await listed(damaged)).toEqual(["c41", ...Array.from({ length: 19 }, (_, index) => `c${19 - index}`)]);
    const kept = connect(path).prepare("SELECT count(*) FROM waymark_quarantine WHERE body IS NOT NULL").pluck().get();
    expect(kept).toBe(21);
  });
});

describe("a piece that inflates to 300 MB", () => {
  it("damages only its own checkpoint, and the older one is given", async () => {
    const { adapter, path } = await newStore(options);
    const manager = new CheckpointManager({ storage: adapter });
    await manager.save("t", { turn: 1 });
    await manager.save("t", { turn: 2, text: messages(40_000).next().value });
    await adapter.close();
    connect(path).prepare("UPDATE waymark_payloads SET body = ? WHERE form = ?").run(hugePacked(), FORM.packed);
    const damaged = new CheckpointManager({ storage: openAdapter({ path, ...options }) });
    expect((await damaged.latest("t"))?.state).toEqual({ turn: 1 });
    const { sequence } = await damaged.save("t", { turn: 3, text: messages(40_000).next().value });
    expect((await damaged.latest("t"))?.sequence).toBe(sequence);
  });
});

describe("a piece that is damaged while a process continues", () => {
  it("is found by that process's own verification, and its next save starts a new history", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 20);
    connect(path).exec("UPDATE waymark_payloads SET body = x'00ff' WHERE number = 20");
    const found = [];
    for await (const item of adapter.maintenance.verify({ quick: false }))
      if (item.kind === "damaged") found.push(item.id);
    expect(found).toEqual(["c20"]);
    await adapter.append(draft("t", "c21", { body: bodies[19] ?? "" }));
    expect(await bodyOf(openAdapter({ path }), "t", "c21")).toBe(bodies[19]);
  });
});

describe("a piece that is missing", () => {
  it("damages only its own state, whatever is removed and saved afterwards", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 12);
    await adapter.close();
    connect(path).exec("DELETE FROM waymark_payloads WHERE number = 12");
    const damaged = openAdapter({ path, ...options });
    await damaged.remove("t", ["c5"]);
    await damaged.append(draft("t", "c13", { body: bodies[11] ?? "" }));
    for (const number of [4, 6, 11]) expect(await bodyOf(damaged, "t", `c${number}`)).toBe(bodies[number - 1]);
    expect(await bodyOf(damaged, "t", "c12")).toContain("missing");
    expect(await bodyOf(openAdapter({ path }), "t", "c13")).toBe(bodies[11]);
  });
});

describe("a read while another process removes", () => {
  it.each([
    [
      "the newest",
      async (adapter: StorageAdapter) => (await collect(adapter.read({ taskId: "t", order: "newest" })))[0],
    ],
    ["by its id", (adapter: StorageAdapter) => adapter.get("t", "c10")],
  ])("gives the content from when it began: %s", async (_which, read) => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 10);
    const other = connect(path);
    const removing = spyingDriver({
      prepared: (sql) => void (/form > 0 AND number >=/u.test(sql) && other.exec("DELETE FROM waymark_payloads")),
    });
    expect(await read(openAdapter({ path, driver: removing }))).toMatchObject({ payload: { body: bodies[9] } });
    expect(rows(path, "waymark_payloads")).toBe(0);
  });
});

describe("saves, forks, removals and replacements at random, through two connections", () => {
  const runs = Number(process.env["WAYMARK_RUNS"] ?? (process.env["WAYMARK_TESTS"] === undefined ? 3 : 1000));
  it(`give the same as a map in memory (${runs} runs)`, { timeout: 60_000 + runs * 1000 }, async () => {
    const path = `${await tempFolder()}/store.db`;
    const adapters = [openAdapter({ path, ...options }), openAdapter({ path, ...options })] as const;
    // The store exists before the first run, which may save nothing.
    await adapters[0].append(draft("t", "first"));
    await adapters[0].remove("t", "all");
    const left = connect(path).prepare("SELECT count(*) FROM waymark_payloads").pluck();
    const bundles = connect(path).prepare(`SELECT count(*) FROM waymark_payloads WHERE form = ${FORM.bundle}`).pluck();
    await checkRandomHistories(adapters, {
      runs,
      bundles: async () => Number(bundles.get()),
      checkEmpty: async () => expect(left.get()).toBe(0),
    });
  });
});
