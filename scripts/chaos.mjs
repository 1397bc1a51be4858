// @ts-check
// npm run chaos: kills, stops and cuts off workers on each storage while they run tasks, and also kills the server.
// Then compares the workers' records with the plan, and prints the seed and counts. Exits with 1 if anything was lost,
// done twice or left waiting.
//
//   -- --seconds=3600      duration of the faults on PostgreSQL; SQLite takes a third of it, json-file a fifth
//   -- --storage=sqlite    only this storage
//   -- --seed=42           the same tasks and faults again; the timing of processes and disks still varies
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundled } from "../tests/support/bundled.mjs";

/** The share of the time, the number of workers, and the tasks a second of each storage. */
const STORAGES = /** @type {const} */ ([
  { storage: "postgres", share: 1, workers: 8, tasksPerSecond: 6 },
  { storage: "sqlite", share: 1 / 3, workers: 4, tasksPerSecond: 4 },
  { storage: "json-file", share: 1 / 5, workers: 4, tasksPerSecond: 3 },
]);

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "180" },
    storage: { type: "string" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1_000_000)) },
  },
});
const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
if (!(seconds >= 5)) throw new RangeError("--seconds must be from 5 on.");
if (!Number.isSafeInteger(seed)) throw new RangeError("--seed must be a whole number.");
const chosen = STORAGES.filter(({ storage }) => values.storage === undefined || values.storage === storage);
if (chosen.length === 0)
  throw new RangeError(`--storage must be one of ${STORAGES.map((one) => one.storage).join(", ")}.`);

/** @type {typeof import("../tests/chaos/chaos.js")} */
const { chaosOn } = await import(await bundled("tests/chaos/chaos.ts"));
const programs = {
  worker: fileURLToPath(await bundled("tests/chaos/worker.ts")),
  sender: fileURLToPath(await bundled("tests/chaos/sender.ts")),
  follower: fileURLToPath(await bundled("tests/chaos/follower.ts")),
};
const folder = mkdtempSync(join(tmpdir(), "waymark-chaos-"));
const startedMs = Date.now();
console.log(`Seed ${seed}.`);
try {
  // The storages run in parallel, because their workers mostly wait.
  await Promise.all(chosen.map(runOn));
} catch (error) {
  // Workers on the other storages may still write into the folder.
  process.exitCode = 1;
  throw error;
} finally {
  if (process.exitCode === 1 || process.env["WAYMARK_CHAOS_KEEP"])
    console.log(`\nThe ledgers and stores are in ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
}
const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
const verdict = process.exitCode === 1 ? `FAILED: npm run chaos -- --seed=${seed} --seconds=${seconds}` : "Passed";
console.log(`\n${verdict} in ${minutes} minutes, on Node ${process.versions.node}.`);

/** @param {(typeof STORAGES)[number]} one */
async function runOn({ storage, share, workers, tasksPerSecond }) {
  const ownSeconds = values.storage === undefined ? seconds * share : seconds;
  const own = join(folder, storage);
  mkdirSync(own);
  const tasks = Math.round(ownSeconds * tasksPerSecond);
  const options = { storage, folder: own, programs, seed, seconds: ownSeconds, workers, tasks };
  const { violations, counts } = await chaosOn(options);
  console.log(`\n${storage}: ${tasks} tasks, ${workers} workers, ${Math.round(ownSeconds)} s of faults`);
  for (const [what, count] of Object.entries(counts)) console.log(`  ${what.padEnd(20)} ${String(count).padStart(7)}`);
  for (const violation of violations.slice(0, 50)) console.log(`  VIOLATION: ${violation}`);
  if (violations.length > 50) console.log(`  … and ${violations.length - 50} more`);
  if (violations.length > 0) process.exitCode = 1;
}
