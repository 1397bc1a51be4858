// @ts-check
// Compares Waymark with its peers: `npm run bench:peers`. With `--write`, writes the table to bench/README.md and the
// plot to docs/pictures/peers.svg. Needs a build.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { median, medians } from "../compare.mjs";
import { longestTurn } from "../event-loop.mjs";
import { runNode } from "../importing.mjs";
import { machine } from "../report.mjs";
import { agentState, conversations } from "../state.mjs";
import { growHistories, TURNS } from "./histories.mjs";
import { installedBytes, installPackages, versionOf } from "./installed.mjs";
import { plotOf } from "./plot.mjs";
import { size, tableOf, times } from "./table.mjs";

const AT_ONCE = 64;
const IN_A_ROW = 10;
const LISTED = 1000;
const TASKS = 10_000;
const TABLE = /(?<=<!-- npm run bench:peers -- --write -->\n).*(?=<!-- end of bench:peers -->)/s;

const root = join(import.meta.dirname, "../..");
const { values: options } = parseArgs({ options: { write: { type: "boolean", default: false } } });
installPackages(import.meta.dirname);
const { filePeers } = await import("./files.mjs");
const { sqlitePeers } = await import("./sqlite.mjs");
const { startPostgresPeers } = await import("./postgres.mjs");

// The stores are on the project's disk, because the system's temporary folder may be in memory, where fsync is free.
const cache = join(root, "node_modules/.cache");
mkdirSync(cache, { recursive: true });
const folder = mkdtempSync(join(cache, "waymark-peers-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
const starting = startPostgresPeers();
// A server that has started removes its folder when this process exits.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.once(signal, () => starting.finally(() => process.exit(1)));

const postgres = await starting;
const peers = [...filePeers, ...sqlitePeers, ...postgres.peers];
/** @type {{ what: string, cells: Record<string, string> }[]} */
const rows = [];

console.log(`Growing histories of ${TURNS} turns …`);
const histories = await inStores("history", growHistories);

console.log("Saving, listing, finding incomplete tasks …");
await inStores("saves", benchSaves);
await inStores("lists", benchLists);
rows.push({
  what: `history on disk, ${TURNS} turns`,
  cells: mapped(histories, (points) => size(points.at(-1)?.bytes ?? 0)),
});
rows.push({ what: `save at turn ${TURNS}`, cells: times(mapped(histories, (points) => points.at(-1)?.saveMs ?? 0)) });
await inStores("tasks", benchTasks);
await postgres.close();

console.log("Importing …");
await benchImports();
rows.push({
  what: "installed size",
  cells: Object.fromEntries(
    peers
      .filter(({ packages }) => packages.length > 0)
      .map(({ name, packages }) => [name, size(installedBytes(packages))]),
  ),
});
report();

/**
 * Opens a store of each peer for a part, and closes them after it.
 *
 * @template Result
 * @param {string} part
 * @param {(stores: ReadonlyMap<string, import("./peer.mjs").Store>) => Promise<Result>} run
 */
async function inStores(part, run) {
  /** @type {Map<string, import("./peer.mjs").Store>} */
  const stores = new Map();
  for (const [index, peer] of peers.entries()) {
    mkdirSync(join(folder, `${index}`), { recursive: true });
    stores.set(peer.name, await peer.open(join(folder, `${index}`, part)));
  }
  const result = await run(stores);
  for (const store of stores.values()) await store.close();
  return result;
}

/** @param {ReadonlyMap<string, import("./peer.mjs").Store>} stores */
async function benchSaves(stores) {
  const states = Array.from({ length: 100 }, (_, turn) => agentState(turn));
  const stateAt = (/** @type {number} */ turn) => states[turn % states.length] ?? {};
  const names = Array.from({ length: AT_ONCE }, (_, task) => `task-${task}`);
  for (const store of stores.values()) for (const name of names) await store.save(name, stateAt(0));
  const nextTask = (/** @type {number} */ turn) => names[turn % AT_ONCE] ?? "";

  const save = contestants(stores, (store) => {
    let turn = 0;
    return () => store.save(nextTask(turn++), stateAt(turn));
  });
  rows.push({ what: "durable save, 9 KB", cells: times(await medians(save, { rounds: 300, warmup: 300 })) });
  const talks = conversations(600);
  const replace = contestants(stores, (store) => {
    let turn = 0;
    return () => store.save("conversation", talks[turn++] ?? {});
  });
  rows.push({
    what: "one of 16 messages new",
    cells: times(await medians(replace, { rounds: 300, warmup: 300 })),
  });
  const atOnce = contestants(
    stores,
    ({ save, saveAtOnce = (tasks, state) => Promise.all(tasks.map((task) => save(task, state))) }) => {
      let turn = 0;
      return () => saveAtOnce(names, stateAt(turn++));
    },
  );
  rows.push({ what: `${AT_ONCE} at once`, cells: times(await medians(atOnce, { rounds: 40 })) });
  const inARow = contestants(stores, ({ save }) => {
    let turn = 0;
    const saveInARow = async (/** @type {string} */ name) => {
      for (let left = IN_A_ROW; left > 0; left--) await save(name, talks[turn++ % talks.length] ?? {});
    };
    return () => Promise.all(names.map(saveInARow));
  });
  const rounds = await medians(inARow, { rounds: 5, warmup: 1 });
  const eachMs = mapped(Object.entries(rounds), (ms) => ms / AT_ONCE / IN_A_ROW);
  rows.push({ what: `${AT_ONCE} tasks, each in a row: a save`, cells: times(eachMs) });
  rows.push({ what: "event loop blocked by a save", cells: times(await longestTurns(stores, talks)) });
  const latest = contestants(stores, (store) => {
    let turn = 0;
    const { latest } = store;
    return latest && (() => latest(nextTask(turn++)));
  });
  rows.push({ what: "latest, 9 KB", cells: times(await medians(latest, { rounds: 500, warmup: 500 })) });
}

/**
 * Measures the median time for which a save blocks the event loop.
 *
 * @param {ReadonlyMap<string, import("./peer.mjs").Store>} stores
 * @param {readonly object[]} states
 */
async function longestTurns(stores, states) {
  /** @type {Map<string, number[]>} */
  const samples = new Map([...stores.keys()].map((name) => [name, []]));
  for (const state of states.slice(0, 300)) {
    for (const [name, store] of stores)
      samples.get(name)?.push(await longestTurn(async () => store.save("conversation", state)));
  }
  return mapped(samples, median);
}

/** @param {ReadonlyMap<string, import("./peer.mjs").Store>} stores */
async function benchLists(stores) {
  const listing = contestants(stores, ({ list }) => list && (() => counted(list("listed"), LISTED)));
  for (const [name, store] of stores)
    if (name in listing) for (let turn = 0; turn < LISTED; turn++) await store.save("listed", agentState(turn));
  const list = await medians(listing, { rounds: 20 });
  rows.push({ what: `list ${LISTED} summaries`, cells: times(list) });
}

/** @param {ReadonlyMap<string, import("./peer.mjs").Store>} stores */
async function benchTasks(stores) {
  for (const store of stores.values()) await store.addTasks?.(TASKS);
  const looking = contestants(stores, ({ findIncomplete }) => findIncomplete && (() => counted(findIncomplete(), 20)));
  const find = await medians(looking, { rounds: 20 });
  rows.push({ what: `findIncomplete, ${TASKS} tasks`, cells: times(find) });
}

async function benchImports() {
  const importing = Object.fromEntries(
    peers.flatMap(({ name, imports }) =>
      imports ? [[name, () => runNode(evalOf(imports), import.meta.dirname)]] : [],
    ),
  );
  const start = await medians({ node: () => runNode(evalOf([])), ...importing }, { rounds: 10, warmup: 1 });
  const { node = 0, ...imported } = start;
  rows.push({ what: "import", cells: times(mapped(Object.entries(imported), (ms) => Math.max(0, ms - node))) });
}

function report() {
  const versions = [...new Set(peers.flatMap(({ packages }) => packages))].map((name) => `${name} ${versionOf(name)}`);
  const lines = [
    `${new Date().toISOString().slice(0, 10)}. ${machine().replace("\n", ", ")}.`,
    `${versions.join(", ")}; PostgreSQL ${postgres.version}.`,
    "",
    tableOf(
      peers.map(({ name }) => name),
      rows,
    ),
  ];
  console.log(`\n${lines.join("\n")}`);
  if (!options.write) return;
  writeFileSync(
    join(root, "docs/pictures/peers.svg"),
    plotOf(new Map([...histories].filter(([name]) => !name.includes("bare")))),
  );
  const page = join(root, "bench/README.md");
  writeFileSync(page, readFileSync(page, "utf8").replace(TABLE, `${lines.join("\n")}\n`));
}

/**
 * Returns the calls of the stores that support the operation.
 *
 * @param {ReadonlyMap<string, import("./peer.mjs").Store>} stores
 * @param {(store: import("./peer.mjs").Store) => (() => unknown) | undefined} call
 * @returns {Record<string, () => unknown>}
 */
function contestants(stores, call) {
  return Object.fromEntries(
    [...stores].flatMap(([name, store]) => {
      const contestant = call(store);
      return contestant ? [[name, contestant]] : [];
    }),
  );
}

/**
 * Checks the count, because a call that finds too few items would look fast.
 *
 * @param {Promise<number>} found
 * @param {number} expected
 */
async function counted(found, expected) {
  const number = await found;
  if (number !== expected) throw new Error(`Found ${number} instead of ${expected}.`);
}

/**
 * @template Value, Result
 * @param {Iterable<readonly [string, Value]>} entries
 * @param {(value: Value) => Result} change
 * @returns {Record<string, Result>}
 */
function mapped(entries, change) {
  return Object.fromEntries([...entries].map(([name, value]) => [name, change(value)]));
}

/** @param {readonly string[]} modules */
function evalOf(modules) {
  return ["--input-type=module", "--eval", modules.map((name) => `import "${name}";`).join("")];
}
