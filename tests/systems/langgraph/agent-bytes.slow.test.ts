// The space of a thread of LangChain's own agent, whose tool calls each get the whole state.
import { statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { agentOn } from "../../support/agent.mjs";
import { messages } from "../../support/histories.js";
import { administer } from "../../support/postgres.js";
import { newPlace, type Place, saverOn } from "./storages.js";

const TURNS = 100;

async function bytesIn({ folder, schema }: Place): Promise<number> {
  if (schema === undefined) return statSync(`${folder}/agent.db`).size;
  const [row] = await administer(
    schema.url,
    `SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes FROM pg_class c
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`,
    [schema.schema],
  );
  return Number(row?.["bytes"]);
}

describe.each([
  ["sqlite", 5],
  ["postgres", 8],
] as const)("an agent of 100 turns, on %s", (kind, times) => {
  it(`takes ${times} times its last state at most, is intact, and is read by the next process`, {
    timeout: 600_000,
  }, async () => {
    const place = await newPlace(kind);
    const storage = place.open();
    const turn = agentOn(saverOn({ ...place, open: () => storage }), messages(3000));
    let state: unknown;
    for (let turns = 1; turns <= TURNS; turns++) state = await turn();
    const found = await new CheckpointManager({ storage }).maintenance.verify();
    expect(found.findings).toEqual([]);
    await storage.close();
    const lastState = JSON.stringify(state).length;
    expect(lastState).toBeGreaterThan(400_000);
    expect(await bytesIn(place)).toBeLessThan(times * lastState);

    const tuple = await saverOn(place).getTuple({ configurable: { thread_id: "agent" } });
    const { messages: read } = tuple?.checkpoint.channel_values ?? {};
    expect(JSON.stringify({ messages: read }) === JSON.stringify(state)).toBe(true);
  });
});
