// @ts-check
// npm run soak: saves and reads for a long time with retention, and checks that neither heap nor files grow.
// `-- --scale=0.1` does a tenth of the work; `-- --only=sqlite` tests one storage.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { bundled } from "../tests/support/bundled.mjs";

const { values } = parseArgs({ options: { scale: { type: "string", default: "1" }, only: { type: "string" } } });
const scale = Number(values.scale);
if (!(scale >= 0.01))
  throw new RangeError("--scale must be at least 0.01: with less, the store isn't full before it is measured.");

/** The number of checkpoints kept of each task. */
const KEEP_LAST = 10;
const TASKS = 20;
const SAMPLES = 40;
/** A text of more than 1 KB, because the databases store only the changes of states of that size. */
const LONG = readFileSync(new URL("../README.md", import.meta.url), "utf8").slice(0, 1500);
/**
 * How much more heap the last quarter of a soak may use than the second quarter. Heap sizes vary by this much between
 * samples.
 */
const HEAP_SLACK_BYTES = 2 * 1024 * 1024;
const FILE_SLACK = 1.1;

/**
 * A storage to soak. `bytes` returns its size, by default the folder's; `stop` ends its server.
 *
 * @typedef {{ storage: import("waymark").StorageAdapter, bytes?: () => Promise<number>, stop?: () => Promise<void> }} Soaked
 */

/** @type {{ name: string, times: number, open: (folder: string) => Soaked | Promise<Soaked> }[]} */
const SOAKS = [
  { name: "memory", times: 1_000_000, open: () => ({ storage: new MemoryAdapter() }) },
  // Durability is `normal`, because a million syncs take hours and don't affect growth.
  {
    name: "sqlite",
    times: 1_000_000,
    open: (folder) => ({
      storage: new SqliteAdapter({ path: join(folder, "checkpoints.db"), durability: "normal" }),
    }),
  },
  { name: "json-file", times: 100_000, open: (folder) => ({ storage: new JsonFileAdapter({ path: folder }) }) },
  { name: "task-file", times: 100_000, open: (folder) => ({ storage: new TaskFileAdapter({ path: folder }) }) },
  { name: "postgres", times: 100_000, open: openPostgres },
];

if (globalThis.gc === undefined)
  throw new Error("Run `npm run soak`, which makes gc() available: the heap is measured only after gc().");
console.log(
  "| storage | saves | reads | minutes | heap: 2nd quarter | heap: last quarter | files: 2nd | files: last | |",
);
console.log("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
for (const soak of SOAKS) if (values.only === undefined || values.only === soak.name) await run(soak);

/** @param {(typeof SOAKS)[number]} soak */
async function run({ name, times, open }) {
  const folder = mkdtempSync(join(tmpdir(), "waymark-soak-"));
  const saves = Math.round(times * scale);
  const startedMs = performance.now();
  /** @type {{ heap: number, files: number }[]} */
  const samples = [];
  const { storage, bytes = async () => bytesIn(folder), stop } = await open(folder);
  const manager = new CheckpointManager({ storage, retention: { keepLast: KEEP_LAST } });
  try {
    for (let number = 1; number <= saves; number++) {
      const taskId = `task-${number % TASKS}`;
      const state = { number, text: LONG.slice(number % 300) };
      await manager.save(taskId, state, { stage: `stage-${number % 7}` });
      const latest = await manager.latest(taskId);
      if (Object(latest?.state).number !== number) throw new Error(`${name}: save ${number} was not the latest.`);
      if (number % Math.ceil(saves / SAMPLES) === 0) samples.push(await sample(bytes));
    }
    const counts = await Promise.all((await manager.tasks()).map(({ count }) => count));
    if (counts.length !== TASKS || counts.some((count) => count > KEEP_LAST))
      throw new Error(`${name}: kept ${counts}.`);
  } finally {
    await manager.close();
    await stop?.();
    rmSync(folder, { recursive: true, force: true });
  }
  report(name, saves, (performance.now() - startedMs) / 60_000, samples);
}

/** Starts a separate server without syncs, which don't affect growth. @returns {Promise<Soaked>} */
async function openPostgres() {
  const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
  const { url, stop } = await startPostgres(["-c", "fsync=off"]);
  const bytes = async () => {
    const client = new pg.Client(url);
    await client.connect();
    // The server vacuums only from time to time, and until then, removed rows keep their space.
    await client.query("VACUUM");
    const tables = "SELECT oid FROM pg_class WHERE relnamespace = 'waymark'::regnamespace AND relkind = 'r'";
    const { rows } = await client.query(`SELECT sum(pg_total_relation_size(oid)) AS bytes FROM (${tables}) t`);
    await client.end();
    return Number(rows[0].bytes);
  };
  return { storage: new PostgresAdapter({ url }), bytes, stop };
}

/** @param {() => Promise<number>} bytes */
async function sample(bytes) {
  const files = await bytes();
  // Lets finished timers and callbacks free their memory.
  await new Promise((resolve) => setImmediate(resolve));
  globalThis.gc?.();
  return { heap: process.memoryUsage().heapUsed, files };
}

/** @param {string} folder */
function bytesIn(folder) {
  let bytes = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size;
  }
  return bytes;
}

/** @param {string} name @param {number} saves @param {number} minutes @param {{ heap: number, files: number }[]} samples */
function report(name, saves, minutes, samples) {
  const quarter = Math.floor(samples.length / 4);
  const second = mean(samples.slice(quarter, 2 * quarter));
  const last = mean(samples.slice(3 * quarter));
  const isFlat = last.heap <= second.heap + HEAP_SLACK_BYTES && last.files <= second.files * FILE_SLACK;
  if (!isFlat) process.exitCode = 1;
  const cells = [
    name,
    saves,
    saves,
    minutes.toFixed(1),
    ...[second.heap, last.heap].map(mib),
    ...[second.files, last.files].map(kib),
  ];
  console.log(`| ${cells.join(" | ")} | ${isFlat ? "flat" : "GROWS"} |`);
}

/** @param {readonly { heap: number, files: number }[]} samples */
function mean(samples) {
  const of = (/** @type {"heap" | "files"} */ what) =>
    samples.reduce((sum, one) => sum + one[what], 0) / samples.length;
  return { heap: of("heap"), files: of("files") };
}

/** @param {number} bytes */
function mib(bytes) {
  return `${(bytes / 2 ** 20).toFixed(2)} MiB`;
}

/** @param {number} bytes */
function kib(bytes) {
  return `${Math.round(bytes / 2 ** 10)} KiB`;
}
