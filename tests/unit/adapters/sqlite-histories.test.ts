import { statSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { damageIn, isCorrupt, type StorageAdapter } from "waymark/adapter";
import { FOLD, PLACES } from "../../../adapters/sql/history.js";
import { tempFolder } from "../../support/temp-folder.js";
import { draft } from "./files/drafts.js";
import { connect, idsOf, listed, newStore, openAdapter } from "./sqlite-support.js";

/** What is in one file before a test is over stays in the log until then. */
const options = { durability: "normal" } as const;

/** Texts of words that repeat as those of a language do, the same ones in each run. */
function* messages(bytes: number): Generator<string, never> {
  for (let seed = 1; ; ) {
    let text = "";
    while (text.length < bytes) {
      seed = (seed * 48_271) % 2_147_483_647;
      text += `${((seed % 1000) ** 2 * 97).toString(36)} `;
    }
    yield text.slice(0, bytes);
  }
}

/** States of an agent: each has one message more than the one before. */
function* turns(): Generator<string, never> {
  const texts = messages(500);
  for (const all: string[] = []; ; ) {
    all.push(texts.next().value);
    yield JSON.stringify({ messages: all, turn: all.length });
  }
}

async function saveTurns(adapter: StorageAdapter, count: number): Promise<readonly string[]> {
  const bodies = [...take(turns(), count)];
  for (const [index, body] of bodies.entries()) await adapter.append(draft("t", `c${index + 1}`, { body }));
  return bodies;
}

function* take(items: Iterator<string, never>, count: number): Generator<string> {
  for (let taken = 0; taken < count; taken++) yield items.next().value;
}

async function bodyOf(adapter: StorageAdapter, taskId: string, id: string): Promise<string> {
  const found = await adapter.get(taskId, id);
  if (found === undefined || isCorrupt(found)) return String(found?.reason);
  expect(damageIn(found)).toBeUndefined();
  return String(found.payload.body);
}

async function sizeAfterClosing(path: string, adapter: StorageAdapter): Promise<number> {
  await adapter.close();
  return statSync(path).size;
}

function rows(path: string, table: string): unknown {
  return connect(path).prepare(`SELECT count(*) FROM ${table}`).pluck().get();
}

describe("a history of states that grow", () => {
  it("takes little more than the last state, over several bundles and a new whole one", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, PLACES + 3 * FOLD);
    await adapter.close();
    expect(statSync(path).size).toBeLessThan(2 * (bodies.at(-1)?.length ?? 0));
    const again = openAdapter({ path });
    for (const number of [1, 2, FOLD, FOLD + 1, FOLD + 2, PLACES - 1, PLACES, PLACES + 1, bodies.length]) {
      expect(await bodyOf(again, "t", `c${number}`)).toBe(bodies[number - 1]);
    }
  });

  it("stays as small where two processes save in turn", async () => {
    const { adapter, path } = await newStore(options);
    const other = openAdapter({ path, ...options });
    const bodies = [...take(turns(), 300)];
    for (const [index, body] of bodies.entries()) {
      await (index % 2 === 0 ? adapter : other).append(draft("t", `c${index + 1}`, { body }));
    }
    await Promise.all([adapter.close(), other.close()]);
    expect(statSync(path).size).toBeLessThan(2.5 * (bodies.at(-1)?.length ?? 0));
    expect(await bodyOf(openAdapter({ path }), "t", "c300")).toBe(bodies[299]);
  });

  it("has the forks of other tasks in it, and each of them reads the same without the others", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 200);
    const forked = bodies[99] ?? "";
    const branch = JSON.stringify({ ...JSON.parse(forked), turn: "of a branch" });
    for (let fork = 1; fork <= 50; fork++) {
      const taskId = `fork-${fork}`;
      await adapter.append(draft(taskId, "begun", { body: forked }), { sharesWith: { taskId: "t", id: "c100" } });
      await adapter.append(draft(taskId, "next", { body: branch }));
    }
    await adapter.append(draft("gone", "begun", { body: forked }), { sharesWith: { taskId: "t", id: "nobody" } });
    expect(await adapter.removeTasks("t")).toBe(200);
    await adapter.close();
    expect(statSync(path).size).toBeLessThan(10 * forked.length);
    const again = openAdapter({ path });
    for (const taskId of ["fork-1", "fork-50"]) {
      expect(await bodyOf(again, taskId, "begun")).toBe(forked);
      expect(await bodyOf(again, taskId, "next")).toBe(branch);
    }
    expect(await bodyOf(again, "gone", "begun")).toBe(forked);
  });

  it("begins anew where the states have become much smaller", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 300);
    const before = await sizeAfterClosing(path, adapter);
    const smaller = openAdapter({ path, ...options });
    for (const [index, body] of bodies.slice(0, 120).entries()) {
      await smaller.append(draft("t", `again-${index + 1}`, { body }));
    }
    expect((await sizeAfterClosing(path, smaller)) - before).toBeLessThan(2 * (bodies[119]?.length ?? 0));
    expect(await bodyOf(openAdapter({ path }), "t", "again-120")).toBe(bodies[119]);
  });

  it("gives its space back once its last checkpoint has gone", async () => {
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

  it("gives back at once what nothing is made of", async () => {
    const { adapter, path } = await newStore(options);
    const [first = "", second = ""] = take(turns(), 2);
    await adapter.append(draft("t", "first", { body: first.padEnd(3000) }));
    await adapter.append(draft("t", "small", { body: "{}" }));
    await adapter.append(draft("t", "second", { body: second.padEnd(3000) }));
    await adapter.remove("t", ["small"]);
    expect(rows(path, "waymark_payloads")).toBe(2);
  });

  it("isn't built on what another process has put in the place of a removed state", async () => {
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

describe("a damaged piece", () => {
  it("costs the states that are made of it, is found, and the next save begins anew", async () => {
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
    expect(await bodyOf(damaged, "t", "c41")).toBe(bodies[39]);
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

const operation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("save" as const), task: fc.nat(1), edit: fc.nat(99), size: fc.nat(3) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("remove" as const), task: fc.nat(1), which: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("replace" as const), task: fc.nat(1), which: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("removeTask" as const), task: fc.nat(1) }) },
);

describe("saves, removals and replacements at random, through two connections", () => {
  const runs = process.env["WAYMARK_TESTS"] === undefined ? 60 : 2000;
  it(`leave what a map in memory has (${runs} runs)`, async () => {
    const texts = [...take(messages(1500), 100)];
    const folder = await tempFolder();
    const path = `${folder}/store.db`;
    const adapters = [openAdapter({ path, ...options }), openAdapter({ path, ...options })] as const;
    // The store exists before the first run, which may save nothing.
    await adapters[0].append(draft("t", "first"));
    await adapters[0].remove("t", "all");
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 120 }), async (operations) => {
        run += 1;
        const model = [new Map<string, string>(), new Map<string, string>()] as const;
        const current = [["begin"], ["begin"]];
        for (const [step, op] of operations.entries()) {
          const [taskId, kept] = [`run ${run} task ${op.task}`, model[op.task === 0 ? 0 : 1]];
          const adapter = adapters[step % 3 === 0 ? 1 : 0];
          if (op.do === "save") {
            const parts = current[op.task] ?? [];
            if (op.size === 0) parts.splice(op.edit % parts.length, 1, texts[op.edit] ?? "");
            else if (op.size < 3) parts.push(texts[op.edit] ?? "");
            const body = JSON.stringify(op.size === 3 ? { small: op.edit } : parts);
            await adapter.append(draft(taskId, `c${step}`, { body }));
            kept.set(`c${step}`, body);
          } else if (op.do === "removeTask") {
            expect(await adapter.remove(taskId, "all")).toBe(kept.size);
            kept.clear();
          } else {
            const [id, old] = [...kept][op.which % Math.max(1, kept.size)] ?? [];
            if (id === undefined || old === undefined) continue;
            if (op.do === "remove") {
              expect(await adapter.remove(taskId, [id])).toBe(1);
              kept.delete(id);
            } else {
              const body = JSON.stringify({ replaced: old });
              const { payload } = draft(taskId, id, { body });
              const { sha256 } = draft(taskId, id, { body: old }).payload;
              expect(await adapter.replacePayload(taskId, id, payload, sha256)).toBe(true);
              kept.set(id, body);
            }
          }
        }
        for (const [task, kept] of model.entries()) {
          for (const adapter of adapters) {
            const found: [string, string][] = [];
            for await (const one of adapter.read({ taskId: `run ${run} task ${task}`, order: "oldest" })) {
              found.push(isCorrupt(one) ? ["corrupt", one.reason] : [one.id, String(one.payload.body)]);
            }
            expect(found).toEqual([...kept]);
          }
          await adapters[0].remove(`run ${run} task ${task}`, "all");
        }
        expect(rows(path, "waymark_payloads")).toBe(0);
      }),
      { numRuns: runs },
    );
  });
});
