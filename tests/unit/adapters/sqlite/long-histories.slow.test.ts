// Tests histories of hundreds of states and of a thousand forks. `npm test` tests short histories.
import { describe, expect, it } from "vitest";
import { FOLD, PLACES } from "../../../../adapters/sql/history.js";
import { bodyOf, messages, saveTurns, take } from "../../../support/histories.js";
import { draft } from "../files/drafts.js";
import { newStore, openAdapter, payloadBytes, sizeAfterClosing } from "./support.js";

/** Opens stores on one file. Their writes stay in the log until the end of the test. */
const options = { durability: "normal" } as const;

describe("a history of states that grow", () => {
  it("takes little more space than the last state, over several bundles and a new whole one", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, PLACES + 3 * FOLD, 100);
    expect(payloadBytes(path)).toBeLessThan(2 * (bodies.at(-1)?.length ?? 0));
    await adapter.close();
    const again = openAdapter({ path });
    for (const number of [1, 2, FOLD, FOLD + 1, FOLD + 2, PLACES - 1, PLACES, PLACES + 1, bodies.length]) {
      expect(await bodyOf(again, "t", `c${number}`)).toBe(bodies[number - 1]);
    }
  });

  it("stays small if one state has a thousand forks, and each of them continues", async () => {
    const { adapter, path } = await newStore(options);
    const bodies = await saveTurns(adapter, 200, 100);
    const forked = bodies[199] ?? "";
    const texts = messages(100);
    const next = Array.from({ length: 1000 }, () => forked.replace("[", `["${texts.next().value}",`));
    const sharesWith = { taskId: "t", id: "c200" };
    await Promise.all(
      next.map((_, fork) => adapter.append(draft(`f${fork}`, "c1", { body: forked }), {}, { sharesWith })),
    );
    await Promise.all(next.map((body, fork) => adapter.append(draft(`f${fork}`, "c2", { body }))));
    expect(payloadBytes(path)).toBeLessThan(16 * forked.length);
    const again = openAdapter({ path });
    for (const fork of [0, 1, 999]) expect(await bodyOf(again, `f${fork}`, "c2")).toBe(next[fork]);
  });

  it("splits off a fork that has become different from its source", async () => {
    const { adapter, path } = await newStore(options);
    const [common = ""] = take(messages(400_000), 1);
    await adapter.append(draft("a", "c0", { body: JSON.stringify([common]) }));
    const sharesWith = { taskId: "a", id: "c0" };
    await adapter.append(draft("b", "c0", { body: JSON.stringify([common]) }), {}, { sharesWith });
    const texts = messages(1000);
    const said: Record<string, string[]> = { a: [common], b: [common] };
    for (let turn = 1; turn <= 50; turn++) {
      for (const [task, all] of Object.entries(said)) {
        all.push(texts.next().value);
        await adapter.append(draft(task, `c${turn}`, { body: JSON.stringify(all) }));
      }
    }
    // In one history, each state would be stored as a difference from the other: 100 times 25 KB.
    expect(await sizeAfterClosing(path, adapter)).toBeLessThan(2 * 450_000);
    expect(await bodyOf(openAdapter({ path }), "b", "c50")).toBe(JSON.stringify(said["b"]));
  });
});
