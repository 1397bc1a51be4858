// @ts-check
import { statSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { openBareStores } from "./bare-stores.mjs";
import { medians } from "./compare.mjs";
import { longestTurn } from "./event-loop.mjs";
import { theirSqliteSaver } from "./langgraph.mjs";
import { langgraphStore } from "./peers/langgraph.mjs";
import { printHeading, printRow } from "./report.mjs";
import { conversations } from "./state.mjs";

const TASKS = 64;
const ROUNDS = 5;
const SINGLE = 10_000;
const PAGE_BYTES = 4096 + 24;
const TALKS = conversations(600);
const stateAt = (/** @type {number} */ turn) => TALKS[turn % TALKS.length] ?? {};

/**
 * @typedef {object} Contestants
 * @property {CheckpointManager} manager
 * @property {import("./peers/peer.mjs").Store} saver - LangGraph's SqliteSaver.
 * @property {import("./bare-stores.mjs").BareStore} bare
 */

/**
 * Measures the effect of syncing off the event loop: one save, saves of many tasks, and how long a save blocks the
 * event loop. SQLite's checkpoints of its log are included.
 *
 * @param {string} folder
 */
export async function benchSyncs(folder) {
  for await (const contestants of openContestants(folder)) {
    const isFull = contestants.bare.kind === "full";
    printHeading(`SQLite, saves of 9 KB with one of 16 messages replaced, ${contestants.bare.kind}`);
    await compareOne(contestants, { rounds: 2000, limit: isFull ? 1.3 : 1.5 });
    if (!isFull) continue;
    await compareMany(contestants, { saves: 60, limit: 0.5 });
    await compareTurns(contestants);
  }
  await countPages(folder);
}

/** Measures saves on a disk whose syncs take longer. @param {string} folder @param {number} syncMs */
export async function benchSyncsOfASlowDisk(folder, syncMs) {
  printHeading(`SQLite on a disk whose syncs take ${syncMs} ms, saves of 9 KB`);
  for await (const contestants of openContestants(folder)) {
    if (contestants.bare.kind !== "full") continue;
    await compareOne(contestants, { rounds: 200, limit: 1.05 });
    await compareMany(contestants, { saves: 10, limit: 0.05 });
  }
}

/** @param {string} folder @returns {AsyncGenerator<Contestants>} */
async function* openContestants(folder) {
  for await (const bare of openBareStores(folder, "syncs")) {
    if (bare.kind !== "full" && bare.kind !== "normal") return;
    const manager = new CheckpointManager({ storage: bare.open() });
    const theirs = await theirSqliteSaver(join(folder, `saver-${bare.kind}.db`), bare.kind);
    const saver = langgraphStore(theirs, { bytes: async () => 0, close: () => theirs.db.close() });
    yield { manager, saver, bare };
    await saver.close();
    await manager.close();
  }
}

/** @param {Contestants} contestants @param {{ rounds: number, limit: number }} options */
async function compareOne({ manager, saver }, { rounds, limit }) {
  let [turn, put] = [0, 0];
  const { ours, theirs } = await medians(
    { ours: () => manager.save("one", stateAt(turn++)), theirs: () => saver.save("one", stateAt(put++)) },
    { rounds, warmup: rounds / 5 },
  );
  printRow({ what: "a save, to SqliteSaver's put", measuredMs: ours, againstMs: theirs, limit });
}

/**
 * @param {Contestants} contestants @param {{ saves: number, limit: number }} options - `saves`: the number for each
 * task.
 */
async function compareMany({ manager, saver, bare }, { saves, limit }) {
  const inTasks = (/** @type {(task: string, turn: number) => unknown} */ save) => async () => {
    const inTask = async (/** @type {string} */ task) => {
      for (let turn = 0; turn < saves; turn++) await save(task, turn);
    };
    await Promise.all(Array.from({ length: TASKS }, (_, task) => inTask(`task ${task}`)));
  };
  const { ours, inserts, puts } = await medians(
    {
      ours: inTasks((task, turn) => manager.save(task, stateAt(turn))),
      inserts: inTasks((task, turn) => bare.insert(JSON.stringify(stateAt(turn)), task)),
      puts: inTasks((task, turn) => saver.save(task, stateAt(turn))),
    },
    { rounds: ROUNDS, warmup: 1 },
  );
  const row = { measuredMs: ours / TASKS / saves, limit };
  const what = `${TASKS} tasks, each in a row: the time of a save, to`;
  printRow({ ...row, what: `${what} a bare insert`, againstMs: inserts / TASKS / saves });
  printRow({ ...row, what: `${what} SqliteSaver's`, againstMs: puts / TASKS / saves });
}

/** @param {Contestants} contestants */
async function compareTurns({ manager, bare }) {
  /** @type {{ ours: number[], bare: number[] }} */
  const turns = { ours: [], bare: [] };
  for (let turn = 0; turn < SINGLE; turn++) {
    turns.ours.push(await longestTurn(() => manager.save("alone", stateAt(turn))));
    const start = performance.now();
    await bare.insert(JSON.stringify(stateAt(turn)));
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

/** Counts the pages that SQLite writes, from the growth of a log that is never copied. @param {string} folder */
async function countPages(folder) {
  const path = join(folder, "pages.db");
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path, durability: "normal" }) });
  await manager.save("t", stateAt(0));
  const size = () => statSync(`${path}-wal`).size;
  const pagesOf = async (/** @type {number} */ count, /** @type {(turn: number) => Promise<unknown>} */ write) => {
    const before = size();
    for (let turn = 1; turn <= count; turn++) await write(turn);
    return (size() - before) / PAGE_BYTES / count;
  };
  const saved = await pagesOf(50, (turn) => manager.save("t", stateAt(turn)));
  const stepped = await manager.run("r", (run) =>
    pagesOf(50, (turn) => run.step(`step ${turn}`, async () => ({ turn, text: "x".repeat(1000) }))),
  );
  console.log(`pages written: by a save ${saved.toFixed(1)} (≤ 4), by a step of 1 KB ${stepped.toFixed(1)} (≤ 3)`);
  await manager.close();
}
