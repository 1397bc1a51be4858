// @ts-check
import { statSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { openBareStores } from "./bare-stores.mjs";
import { median } from "./compare.mjs";
import { longestTurn } from "./event-loop.mjs";
import { printHeading, printRow } from "./report.mjs";

const TASKS = 64;
const SAVES_OF_A_TASK = 60;
const ROUNDS = 5;
const SINGLE = 10_000;
const PAGE_BYTES = 4096 + 24;

/**
 * What syncing off the event loop brings: saves of many tasks, and how long one save holds up the program. SQLite's copies of
 * its log into the database are included.
 *
 * @param {string} folder
 */
export async function benchSyncs(folder) {
  printHeading("SQLite, saves of 9 KB with one of 16 messages replaced");
  const path = join(folder, "syncs.db");
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
  for await (const bare of openBareStores(folder, "syncs")) {
    if (bare.kind === "full") await compare(manager, bare);
  }
  await manager.close();
  await countPages(folder);
}

/**
 * @param {CheckpointManager} manager
 * @param {import("./bare-stores.mjs").BareStore} bare
 */
async function compare(manager, bare) {
  const inTask = async (/** @type {number} */ task) => {
    for (let turn = 0; turn < SAVES_OF_A_TASK; turn++) await manager.save(`task ${task}`, state(turn));
  };
  /** @type {{ ours: number[], bare: number[] }} */
  const samples = { ours: [], bare: [] };
  for (let round = 0; round <= ROUNDS; round++) {
    const start = performance.now();
    await Promise.all(Array.from({ length: TASKS }, (_, task) => inTask(task)));
    const between = performance.now();
    for (let turn = 0; turn < TASKS * SAVES_OF_A_TASK; turn++) await bare.insert(JSON.stringify(state(turn)));
    // The first round warms up.
    if (round === 0) continue;
    samples.ours.push((between - start) / (TASKS * SAVES_OF_A_TASK));
    samples.bare.push((performance.now() - between) / (TASKS * SAVES_OF_A_TASK));
  }
  const many = `${TASKS} tasks, each in a row: the time of a save, to a bare insert`;
  printRow({ what: many, measuredMs: median(samples.ours), againstMs: median(samples.bare), limit: 0.5 });

  /** @type {{ ours: number[], bare: number[] }} */
  const turns = { ours: [], bare: [] };
  for (let turn = 0; turn < SINGLE; turn++) {
    turns.ours.push(await longestTurn(() => manager.save("alone", state(turn))));
    const start = performance.now();
    await bare.insert(JSON.stringify(state(turn)));
    turns.bare.push(performance.now() - start);
  }
  const row = (/** @type {number} */ share) => {
    const at = (/** @type {number[]} */ times) => times[Math.floor(times.length * share)] ?? 0;
    return { measuredMs: at(turns.ours), againstMs: at(turns.bare) };
  };
  for (const times of Object.values(turns)) times.sort((a, b) => a - b);
  printRow({ what: "a save alone: how long it holds up the loop, to a bare insert", ...row(0.5), limit: 0.7 });
  printRow({ what: `the same, the 99th percentile of ${SINGLE.toLocaleString("en")}`, ...row(0.99), limit: 0.5 });
}

/** The pages that SQLite writes, by the growth of a log that is never copied. @param {string} folder */
async function countPages(folder) {
  const path = join(folder, "pages.db");
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path, durability: "normal" }) });
  await manager.save("t", state(0));
  const size = () => statSync(`${path}-wal`).size;
  const pagesOf = async (/** @type {number} */ count, /** @type {(turn: number) => Promise<unknown>} */ write) => {
    const before = size();
    for (let turn = 1; turn <= count; turn++) await write(turn);
    return (size() - before) / PAGE_BYTES / count;
  };
  const saved = await pagesOf(50, (turn) => manager.save("t", state(turn)));
  const stepped = await manager.run("r", (run) =>
    pagesOf(50, (turn) => run.step(`step ${turn}`, async () => ({ turn, text: "x".repeat(1000) }))),
  );
  console.log(`pages written: by a save ${saved.toFixed(1)} (≤ 4), by a step of 1 KB ${stepped.toFixed(1)} (≤ 3)`);
  await manager.close();
}

/** @param {number} turn */
function state(turn) {
  const message = (/** @type {number} */ at) =>
    `${at} ${at === turn % 16 ? turn * 7919 : ""} `.padEnd(560, "lorem ipsum ");
  return { messages: Array.from({ length: 16 }, (_, at) => message(at)) };
}
