// @ts-check
// Runs one program on Waymark and on its peers, kills it at every boundary and in every step, and then changes it:
// `npm run bench:resume`. With `--write`, writes the table to bench/README.md. Needs a build.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { bundled } from "../../tests/support/bundled.mjs";
import { installPackages, versionOf } from "../peers/installed.mjs";
import { size, tableOf } from "../peers/table.mjs";
import { machine, time } from "../report.mjs";
import { judged, live, newWorkspace } from "./lives.mjs";
import { peersOn } from "./peers.mjs";
import { CHANGED_IN, STEPS } from "./program.mjs";

const TABLE = /(?<=<!-- npm run bench:resume -- --write -->\n).*(?=<!-- end -->)/s;
const CHANGES = ["renamed", "inserted", "moved"];
/** The number of a peer's runs at the same time. Most of them wait for a lease to expire. */
const AT_ONCE = 2;

const root = join(import.meta.dirname, "../..");
const { values: options } = parseArgs({
  options: { write: { type: "boolean", default: false }, only: { type: "string", default: "" } },
});
installPackages(import.meta.dirname);
// The stores are on the project's disk, because the system's temporary folder may be in memory, where fsync is free.
const caches = join(root, "node_modules/.cache");
mkdirSync(caches, { recursive: true });
const cache = mkdtempSync(join(caches, "waymark-resume-"));
process.once("exit", () => rmSync(cache, { recursive: true, force: true }));
const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
const server = await startPostgres();
const pool = new pg.Pool({ connectionString: server.url });
const query = async (/** @type {string} */ sql) => (await pool.query(sql)).rows;

/** @type {Record<string, Record<string, string>>} */
const rows = {};
const peers = peersOn({ url: server.url, query }).filter(({ name }) => name.includes(options.only));
for (const peer of peers) {
  console.log(`${peer.name} …`);
  const cells = await cellsOf(peer);
  for (const [what, cell] of Object.entries(cells)) rows[what] = { ...rows[what], [peer.name]: cell };
}
await pool.end();
await server.stop();

const versions = peers.flatMap(({ packageName }) =>
  packageName ? `${packageName} ${versionOf(packageName, import.meta.dirname)}` : [],
);
const table = tableOf(
  peers.map(({ name }) => name),
  Object.entries(rows).map(([what, cells]) => ({ what, cells })),
);
const report = `${table}\n\n${new Date().toISOString().slice(0, 10)}, ${machine().replaceAll("\n", ", ")}; ${versions.join(", ")}.\n`;
console.log(`\n${report}`);
if (options.write) {
  const path = join(root, "bench/README.md");
  const text = readFileSync(path, "utf8");
  writeFileSync(
    path,
    text.replace(TABLE, () => report),
  );
}

/** @param {import("./peers.mjs").Peer} peer @returns {Promise<Record<string, string>>} */
async function cellsOf(peer) {
  const whole = newWorkspace(cache);
  const undisturbed = await live(peer, whole, server.url);
  if (undisturbed.ended !== "done") throw new Error(`${peer.name} doesn't run: ${undisturbed.message}`);
  const bytes = await peer.bytes(whole, { url: server.url, query });

  const timed = await live(peer, newWorkspace(cache), server.url, { isTimed: true });
  const stepMs = Number(timed.lines.find(({ what }) => what.startsWith("took "))?.what.slice("took ".length));

  const kills = STEPS.flatMap((step) => [`in ${step}`, `after ${step}`]);
  const killed = await atOnce(kills, async (kill) => {
    const workspace = newWorkspace(cache);
    const first = await live(peer, workspace, server.url, { kill });
    if (first.ended !== "killed")
      throw new Error(`${peer.name} wasn't killed ${kill}: ${first.ended} ${first.message}`);
    const second = await live(peer, workspace, server.url);
    return { kill, second, ...judged(first, second) };
  });
  const dead = killed.filter(({ second }) => second.ended !== "done");
  for (const { kill, second } of dead) console.log(`  killed ${kill}: ${second.ended} ${second.message.slice(0, 500)}`);
  const lost = killed.flatMap(({ second, ended, wrong }) =>
    second.ended === "done" ? [...STEPS.filter((step) => !ended.has(step)), ...wrong] : [],
  );
  const onMs = killed.flatMap((run) => run.onMs ?? []).sort((a, b) => a - b);

  const changes = await atOnce(CHANGES, async (change) => [change, await changed(peer, change)]);
  const source = readFileSync(join(import.meta.dirname, peer.file), "utf8").split("\n");
  return {
    kills: String(kills.length),
    "finished steps that ran twice": String(killed.reduce((sum, { again }) => sum + again.length, 0)),
    "steps lost, or with another's result": String(lost.length),
    "runs that didn't continue": String(dead.length),
    "until it continues, median": time(onMs[Math.floor(onMs.length / 2)] ?? Number.NaN),
    "until it continues, longest": time(onMs.at(-1) ?? Number.NaN),
    ...Object.fromEntries(changes.map(([change, what]) => [`a step ${change}`, String(what)])),
    "a step of 1 KB": time(stepMs),
    "bytes of the whole run": size(bytes),
    lines: String(source.filter((line) => line !== "" && !/^\s*\/\/|program\.mjs/.test(line)).length),
    "beside the program": peer.services,
  };
}

/**
 * Kills the program, and starts another version of it.
 *
 * @param {import("./peers.mjs").Peer} peer
 * @param {string} change
 */
async function changed(peer, change) {
  const workspace = newWorkspace(cache);
  const first = await live(peer, workspace, server.url, { kill: `in ${CHANGED_IN}` });
  const second = await live(peer, workspace, server.url, { change });
  const { again, wrong } = judged(first, second);
  console.log(`  ${change}: ${second.ended} again ${again} wrong ${wrong} ${second.message.slice(0, 300)}`);
  if (second.ended === "waits") return "never continues";
  if (second.ended === "failed") return "fails";
  if (wrong.length > 0) return `${wrong.length} wrong results`;
  return again.length === 0 ? "continues" : `${again.length} ran twice`;
}

/**
 * @template Item, Result
 * @param {readonly Item[]} items
 * @param {(item: Item) => Promise<Result>} work
 * @returns {Promise<Result[]>}
 */
async function atOnce(items, work) {
  /** @type {Result[]} */
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(/** @type {Item} */ (items[index]));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
