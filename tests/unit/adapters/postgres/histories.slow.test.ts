import { describe, expect, it } from "vitest";
import { FOLD, FORM, PLACES } from "../../../../adapters/sql/history.js";
import { bodyOf, newest, saveTurns } from "../../../support/histories.js";
import { administer, newStore, openAdapter, piecesOf } from "../../../support/postgres.js";
import { checkRandomHistories } from "../../../support/random-histories.js";

describe("a history of states that grow", () => {
  it("takes little more space than the last state, over several bundles and a new whole one", {
    timeout: 300_000,
  }, async () => {
    const { adapter, ...place } = await newStore();
    const bodies = await saveTurns(adapter, PLACES + 3 * FOLD, 100);
    const { bytes, rows } = await piecesOf(place);
    expect(bytes).toBeLessThan(1.5 * (bodies.at(-1)?.length ?? 0));
    // Bundles, the deltas after the last one, and two whole texts.
    expect(rows).toBeLessThanOrEqual(PLACES / FOLD + 2 * FOLD + 2);
    const again = openAdapter(place);
    for (const number of [1, 2, FOLD, FOLD + 1, FOLD + 2, PLACES - 1, PLACES, PLACES + 1, bodies.length]) {
      expect(await bodyOf(again, "t", `c${number}`)).toBe(bodies[number - 1]);
    }
    // No state depends on one that was saved more than 1,024 saves earlier.
    await administer(
      place.url,
      `UPDATE "${place.schema}".pieces SET body = '' WHERE number <= ${bodies.length - PLACES}`,
    );
    expect(await newest(openAdapter(place))).toBe(bodies.at(-1));
  });
});

describe("saves, forks, removals and replacements at random, through two adapters", () => {
  // SQLite's histories are the same code, and `npm run check` tries 25 of them too.
  const runs = Number(process.env["WAYMARK_RUNS"] ?? 10);
  it(`give the same as a map in memory (${runs} runs)`, { timeout: 60_000 + runs * 15_000 }, async () => {
    const { adapter, ...place } = await newStore();
    const bundles = `SELECT count(*)::int AS rows FROM "${place.schema}".pieces WHERE form = ${FORM.bundle}`;
    await checkRandomHistories([adapter, openAdapter(place)], {
      runs,
      bundles: async () => Number(Object((await administer(place.url, bundles))[0]).rows),
      checkEmpty: async () => expect(await piecesOf(place)).toEqual({ rows: 0, bytes: 0 }),
    });
  });
});
