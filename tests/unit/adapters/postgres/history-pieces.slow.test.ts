import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { FOLD, FORM, MAX_STANDALONE } from "../../../../adapters/sql/history.js";
import { draft } from "../../../../conformance/drafts.js";
import {
  bodyOf,
  hugePacked,
  messages,
  newest,
  saveReplacing,
  saveTurns,
  take,
  turns,
} from "../../../support/histories.js";
import {
  administer,
  collect,
  newPool,
  newSchema,
  newStore,
  openAdapter,
  piecesOf,
  spyingPool,
} from "../../../support/postgres.js";

function named(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `c${from + index}`);
}

describe("a history of states that grow", () => {
  it("takes little more space than the last state, over several bundles", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, 3 * FOLD, 100);
    const { bytes, rows } = await piecesOf(place);
    expect(bytes).toBeLessThan(2 * (bodies.at(-1)?.length ?? 0));
    // Bundles, the deltas after the last one, and the whole text.
    expect(rows).toBeLessThanOrEqual(3 + FOLD + 1);
    const again = openAdapter(place);
    for (const number of [1, 2, FOLD, FOLD + 1, FOLD + 2, bodies.length]) {
      expect(await bodyOf(again, "t", `c${number}`)).toBe(bodies[number - 1]);
    }
  });

  it("is saved and its latest read in one round trip each, and without its pieces", async () => {
    const place = await newSchema();
    const seen: unknown[] = [];
    const pool = spyingPool(newPool(place.url), { after: (query) => void seen.push(query) });
    const adapter = openAdapter({ pool, schema: place.schema });
    const bodies = await saveTurns(adapter, 20);
    seen.length = 0;
    const next = JSON.stringify({ more: bodies[19] });
    await adapter.append(draft("t", "next", { body: next }));
    expect(await newest(adapter)).toBe(next);
    expect(seen).toHaveLength(2);
    expect(seen[0]).toMatchObject({ values: expect.arrayContaining([expect.any(Buffer)]) });
  });

  it("continues if two processes without retries save in turn", async () => {
    const { adapter, ...place } = await newStore({ retryForMs: 0 });
    const other = openAdapter({ ...place, retryForMs: 0 });
    const bodies = [...take(turns(), 6)].map((body) => body.padEnd(5000));
    for (const [index, body] of bodies.entries()) {
      await (index % 2 === 0 ? adapter : other).append(draft("t", `c${index + 1}`, { body }));
    }
    expect(await bodyOf(adapter, "t", "c6")).toBe(bodies[5]);
  });

  it("stays as small if two processes save in turn", async () => {
    const { adapter, ...place } = await newStore();
    const other = openAdapter(place);
    const bodies = [...take(turns(), 150)];
    for (const [index, body] of bodies.entries()) {
      await (index % 2 === 0 ? adapter : other).append(draft("t", `c${index + 1}`, { body }));
    }
    expect((await piecesOf(place)).bytes).toBeLessThan(2 * (bodies.at(-1)?.length ?? 0));
    expect(await newest(openAdapter(place))).toBe(bodies[149]);
  });

  it("keeps each state if two processes save the same one again and again", async () => {
    const { adapter, ...place } = await newStore();
    const [body = ""] = take(turns(), 1);
    const text = body.padStart(5000);
    const adapters = [adapter, openAdapter(place)] as const;
    for (let save = 0; save < 2 * FOLD + 4; save++) {
      await adapters[save % 2 === 0 ? 0 : 1].append(draft("t", `c${save}`, { body: text }));
    }
    const found = await collect(openAdapter(place).read({ taskId: "t", order: "oldest" }));
    expect(found.map((item) => (isCorrupt(item) ? item.reason : item.payload.body === text))).toEqual(
      Array(2 * FOLD + 4).fill(true),
    );
  });

  it("keeps a process's save after another process has saved a larger state and then the same one again", async () => {
    const { adapter, ...place } = await newStore();
    const other = openAdapter(place);
    const texts = messages(200_000);
    const [part, more] = [texts.next().value.slice(0, 100_000), texts.next().value];
    const state = JSON.stringify([part, part]);
    const bodies = [state, JSON.stringify([part, more]), state, JSON.stringify([part, "x".repeat(5000)])];
    for (const [index, body = ""] of bodies.entries()) {
      await (index === 0 || index === 3 ? adapter : other).append(draft("t", `c${index + 1}`, { body }));
    }
    for (const [index, body] of bodies.entries()) {
      expect((await bodyOf(openAdapter(place), "t", `c${index + 1}`)) === body, `c${index + 1}`).toBe(true);
    }
  });

  it("accepts a save that begins while the newest state is read", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, 12);
    for (let turn = 9; turn < 12; turn++) {
      const process = openAdapter(place);
      await collect(process.list({ taskId: "t", order: "newest" }));
      const [read] = await Promise.all([
        newest(process),
        process.append(draft("t", `again-${turn}`, { body: bodies[turn] ?? "" })),
      ]);
      expect(read).toBe(bodies[turn === 9 ? 11 : turn - 1]);
    }
  });

  it("stays as small if each save is a separate process", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = [...take(turns(), 40)];
    await adapter.append(draft("t", "c1", { body: bodies[0] ?? "" }));
    for (const [index, body] of bodies.slice(1).entries()) {
      const once = openAdapter(place);
      await once.append(draft("t", `c${index + 2}`, { body }));
      await once.close();
    }
    expect((await piecesOf(place)).bytes).toBeLessThan(2 * (bodies.at(-1)?.length ?? 0));
    expect(await newest(adapter)).toBe(bodies[39]);
  });

  it("stays as small if several tasks are saved at once", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = [...take(turns(), 100)];
    const tasks = ["a", "b", "c"];
    for (const [index, body] of bodies.entries()) {
      await Promise.all(tasks.map((taskId) => adapter.append(draft(taskId, `c${index + 1}`, { body }))));
    }
    expect((await piecesOf(place)).bytes).toBeLessThan(3 * 2 * (bodies.at(-1)?.length ?? 0));
    const again = openAdapter(place);
    for (const taskId of tasks) {
      for (const number of [1, 64, 65, 100]) {
        expect(await bodyOf(again, taskId, `c${number}`)).toBe(bodies[number - 1]);
      }
    }
  });

  it("keeps the pieces that remaining states need, and frees the others", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, 200, 100);
    const whole = await piecesOf(place);
    expect(await adapter.remove("t", named(1, 190))).toBe(190);
    expect(await bodyOf(adapter, "t", "c191")).toBe(bodies[190]);
    expect(await adapter.remove("t", named(195, 200))).toBe(6);
    expect((await piecesOf(place)).rows).toBeLessThan(whole.rows);
    expect(await newest(openAdapter(place))).toBe(bodies[193]);
    await adapter.append(draft("t", "again", { body: bodies[199] ?? "" }));
    expect(await newest(openAdapter(place))).toBe(bodies[199]);
    expect(await adapter.remove("t", [...named(191, 194), "again"])).toBe(5);
    expect(await piecesOf(place)).toEqual({ rows: 0, bytes: 0 });
  });

  it("takes no more space than its last states if each one replaces the previous one", async () => {
    const { adapter, ...place } = await newStore();
    const last = await saveReplacing(adapter, 200);
    expect((await piecesOf(place)).bytes).toBeLessThan(1.5 * last.length);
    expect(await newest(openAdapter(place))).toBe(last);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([{ taskId: "t", count: 1 }]);
    expect(await collect(adapter.maintenance.verify({ quick: false }))).not.toContainEqual(
      expect.objectContaining({ kind: "damaged" }),
    );
  });

  it("keeps the other states if the last ones are removed while they become a bundle", async () => {
    const { adapter: other, ...place } = await newStore();
    const bodies = await saveTurns(other, FOLD + 2);
    const remover = openAdapter({ schema: place.schema, pool: newPool(place.url, { application_name: place.schema }) });
    const waiting = "SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let isRemoved = false;
    let removing: Promise<void> | undefined;
    const remove = async () => {
      expect(await remover.remove("t", named(60, FOLD + 2))).toBe(FOLD + 2 - 59);
      isRemoved = true;
    };
    const before = async ({ text }: { text: string }) => {
      if (!text.includes("folded AS")) return;
      removing = remove();
      while (!isRemoved && (await administer(place.url, waiting, [place.schema])).length === 0);
    };
    const folding = openAdapter({ schema: place.schema, pool: spyingPool(newPool(place.url), { before }) });
    await newest(folding);
    await folding.append(draft("t", "next", { body: bodies[0] ?? "" }));
    await removing;
    expect(isRemoved).toBe(true);
    expect(await bodyOf(openAdapter(place), "t", "c59")).toBe(bodies[58]);
  });

  it("no longer has a text that a new payload has replaced", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, 10);
    for (const [index, body] of bodies.entries()) {
      const { payload } = draft("t", "replaced", { body: new Uint8Array([1, 2, 3]) });
      const { sha256 } = draft("t", "old", { body }).payload;
      expect(await adapter.replacePayload("t", `c${index + 1}`, payload, sha256)).toBe(true);
    }
    expect(await piecesOf(place)).toEqual({ rows: 0, bytes: 0 });
  });

  it("isn't built on a state that another process saved in the place of a removed one", async () => {
    const { adapter, ...place } = await newStore();
    const [first = "", second = "", third = ""] = take(turns(), 3);
    await adapter.append(draft("t", "first", { body: first.padEnd(5000) }));
    await adapter.append(draft("t", "second", { body: second.padEnd(5000) }));
    const other = openAdapter(place);
    await other.remove("t", "all");
    await other.append(draft("t", "another", { body: first.padEnd(4990) }));
    await other.append(draft("t", "one more", { body: second.padEnd(4990) }));
    await adapter.append(draft("t", "third", { body: third.padEnd(5000) }));
    expect(await bodyOf(openAdapter(place), "t", "third")).toBe(third.padEnd(5000));
    expect(await bodyOf(adapter, "t", "another")).toBe(first.padEnd(4990));
  });
});

describe("a history of states of two kinds", () => {
  it("continues after one small state, and starts over once states have become small", async () => {
    const { adapter, ...place } = await newStore();
    const [large = "", larger = ""] = [...take(turns(), 19)].slice(-2);
    const small = JSON.stringify(messages(2000).next().value.toUpperCase());
    const states = [large, small, larger, ...Array<string>(MAX_STANDALONE + 2).fill(small)];
    for (const [index, body] of states.entries()) await adapter.append(draft("t", `c${index + 1}`, { body }));
    const forms = await administer(
      place.url,
      `SELECT form FROM "${place.schema}".checkpoints c LEFT JOIN "${place.schema}".pieces ON number = sequence ORDER BY sequence`,
    );
    const { plain, delta } = FORM;
    const alone = Array(MAX_STANDALONE).fill(null);
    expect(forms.map(({ form }) => form)).toEqual([plain, null, delta, ...alone, plain, delta]);
  });
});

describe("a damaged piece", () => {
  it("damages the states that need it, is found, and the next save starts a new history", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, 40);
    await administer(place.url, `UPDATE "${place.schema}".pieces SET body = '\\x00ff' WHERE number = 20`);
    const damaged = openAdapter(place);
    expect(await bodyOf(damaged, "t", "c19")).toBe(bodies[18]);
    expect(await bodyOf(damaged, "t", "c20")).toContain("damaged");
    expect(await bodyOf(damaged, "t", "c40")).toContain("damaged");
    await damaged.append(draft("t", "c41", { body: bodies[39] ?? "" }));
    expect(await bodyOf(openAdapter(place), "t", "c41")).toBe(bodies[39]);
    const found = await collect(damaged.maintenance.verify({ quick: false }));
    const ids = found.flatMap((item) => (item.kind === "damaged" ? [item.id] : []));
    expect(ids).toEqual(named(20, 40));
    await collect(damaged.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    const kept = await collect(damaged.list({ taskId: "t", order: "oldest" }));
    expect(kept.map((item) => item.id)).toEqual([...named(1, 19), "c41"]);
    const [quarantined] = await administer(
      place.url,
      `SELECT count(*)::int AS rows FROM "${place.schema}".quarantine WHERE form = ${FORM.delta} AND body IS NOT NULL`,
    );
    expect(quarantined).toEqual({ rows: 21 });
  });
});

describe("a piece that inflates to 300 MB", () => {
  it("damages only its own checkpoint, and the older one is given", async () => {
    const { adapter, url, schema } = await newStore();
    const manager = new CheckpointManager({ storage: adapter });
    await manager.save("t", { turn: 1 });
    await manager.save("t", { turn: 2, text: messages(40_000).next().value });
    await administer(url, `UPDATE "${schema}".pieces SET body = $1`, [hugePacked()]);
    const damaged = new CheckpointManager({ storage: openAdapter({ url, schema }) });
    expect((await damaged.latest("t"))?.state).toEqual({ turn: 1 });
    const { sequence } = await damaged.save("t", { turn: 3, text: messages(40_000).next().value });
    expect((await damaged.latest("t"))?.sequence).toBe(sequence);
  });
});

describe("a piece that is damaged while a process continues", () => {
  it("is found by that process's own verification, and its next save starts a new history", async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, 20);
    await administer(place.url, `UPDATE "${place.schema}".pieces SET body = '\\x00ff' WHERE number = 20`);
    const found = await collect(adapter.maintenance.verify({ quick: false }));
    expect(found.flatMap((item) => (item.kind === "damaged" ? [item.id] : []))).toEqual(["c20"]);
    await adapter.append(draft("t", "c21", { body: bodies[19] ?? "" }));
    expect(await bodyOf(openAdapter(place), "t", "c21")).toBe(bodies[19]);
  });
});

describe("a text with a changed byte", () => {
  it("isn't the base of the next state: once the byte is corrected, both states are as they were saved", async () => {
    const { adapter, ...place } = await newStore();
    await saveTurns(adapter, 12);
    const [saved = "", next = ""] = [...take(turns(), 13)].slice(11);
    // The turn's last digit, 2 or 3: the next state has the wrong one there.
    const flip = `UPDATE "${place.schema}".pieces SET body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1) WHERE number = 12`;
    await administer(place.url, flip);
    const other = openAdapter(place);
    expect(await newest(other)).toContain('"turn":13');
    await openAdapter(place).append(draft("t", "c13", { body: next }));
    await administer(place.url, flip);
    expect(await bodyOf(other, "t", "c12")).toBe(saved);
    expect(await bodyOf(other, "t", "c13")).toBe(next);
  });
});
