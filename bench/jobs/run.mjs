// @ts-check
// Compares workers on PostgreSQL with DBOS: `npm run bench:jobs`. Eight processes of each side take the same jobs from
// their queue. The sides take turns on one server with its default settings. Needs a build.
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { bundled } from "../../tests/support/bundled.mjs";
import { median } from "../compare.mjs";
import { installPackages, versionOf } from "../peers/installed.mjs";
import { machine, printHeading, printRow } from "../report.mjs";
import { QUEUE, STEPS } from "./job.mjs";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "1000" },
    workers: { type: "string", default: "8" },
    rounds: { type: "string", default: "3" },
    // Waymark's default, which works with poolers: the server plans each statement again.
    unprepared: { type: "boolean", default: false },
  },
});
const [jobs, workers, rounds] = [Number(values.jobs), Number(values.workers), Number(values.rounds)];

installPackages(import.meta.dirname);
const { DBOSClient } = await import("@dbos-inc/dbos-sdk");
const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
const server = await startPostgres();

/**
 * `cpuMs` is the processor time of the workers without the server. @typedef {{ seconds: number, stepMs: number[],
 * cpuMs: number }} Round
 */

/** @type {Record<"waymark" | "dbos", Round[]>} */
const results = { waymark: [], dbos: [] };
try {
  for (let round = 0; round < rounds; round++) {
    results.waymark.push(await measured("waymark", round, enqueueWaymark));
    results.dbos.push(await measured("dbos", round, enqueueDbos));
  }
} finally {
  await server.stop();
}
console.log(`\n${machine()}\nDBOS ${versionOf("@dbos-inc/dbos-sdk", import.meta.dirname)}`);
printHeading(`PostgreSQL: ${jobs} jobs of ${STEPS} steps, ${workers} worker processes`);
const seconds = (/** @type {Round[]} */ of) => median(of.map((one) => one.seconds));
const perStep = (/** @type {Round[]} */ of) => (seconds(of) * 1000) / (jobs * STEPS);
printRow({
  what: "a step, to one of DBOS's",
  measuredMs: perStep(results.waymark),
  againstMs: perStep(results.dbos),
  limit: 0.5,
});
for (const [name, of] of Object.entries(results)) {
  const sorted = of.flatMap(({ stepMs }) => stepMs).toSorted((a, b) => a - b);
  const at = (/** @type {number} */ part) => (sorted[Math.floor(part * sorted.length)] ?? 0).toFixed(1);
  const rate = Math.round((jobs * STEPS) / seconds(of));
  const cpuMs = median(of.map((one) => one.cpuMs)) / (jobs * STEPS);
  console.log(
    `${name}: ${rate} steps a second; a step takes ${at(0.5)} ms (p50), ${at(0.99)} ms (p99), and ${cpuMs.toFixed(2)} ms of the workers' processors`,
  );
}

/**
 * Measures the time from the first step to the end of the last job.
 *
 * @param {"waymark" | "dbos"} side
 * @param {number} round
 * @param {(url: string) => Promise<void>} enqueue
 * @returns {Promise<Round>}
 */
async function measured(side, round, enqueue) {
  const database = `${side}_${round}`;
  const client = new pg.Client(server.url);
  await client.connect();
  await client.query(`CREATE DATABASE ${database}`);
  await client.end();
  const url = server.url.replace(/[^/]*$/, database);
  await enqueue(url);
  await analyze(url);
  const processes = Array.from({ length: workers }, () => start(side, url));
  await Promise.all(processes.map((child) => once(child, "message")));
  let left = jobs;
  let startedMs = Number.POSITIVE_INFINITY;
  const ended = new Promise((resolve) => {
    for (const child of processes) {
      child.on("message", (said) => {
        if (said === "started") startedMs = Math.min(startedMs, performance.now());
        if (said === "ended") left -= 1;
        if (left === 0) resolve(undefined);
      });
    }
  });
  for (const child of processes) child.send("begin");
  await ended;
  const tookMs = performance.now() - startedMs;
  const samples = processes.map(async (child) => {
    const last = once(child, "message");
    child.send("end");
    const [sample] = await last;
    return sample;
  });
  const all = await Promise.all(samples);
  const cpuMs = all.reduce((sum, one) => sum + one.cpuMs, 0);
  return { seconds: tookMs / 1000, stepMs: all.flatMap(({ stepMs }) => stepMs), cpuMs };
}

/**
 * Updates the server's statistics of the filled tables, which it would do automatically within a minute.
 *
 * @param {string} url
 */
async function analyze(url) {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("SELECT pg_stat_force_next_flush()");
  const { rows } = await client.query(
    "SELECT format('ANALYZE %I.%I', schemaname, relname) AS sql FROM pg_stat_user_tables WHERE n_mod_since_analyze > 50",
  );
  for (const { sql } of rows) await client.query(sql);
  await client.end();
}

/** @param {"waymark" | "dbos"} side @param {string} url */
function start(side, url) {
  const child = fork(join(import.meta.dirname, `${side}.mjs`), {
    env: { ...process.env, JOBS_URL: url, JOBS_PREPARE: String(!values.unprepared) },
  });
  child.once("exit", (code) => {
    if (code !== 0) throw new Error(`A worker of ${side} ended with ${code}.`);
  });
  return child;
}

/** @param {string} url */
async function enqueueWaymark(url) {
  const manager = new CheckpointManager({ storage: new PostgresAdapter({ url }) });
  await inTurns((number) => manager.enqueue(`${QUEUE}/${number}`));
  await manager.close();
}

/** @param {string} url */
async function enqueueDbos(url) {
  // A worker makes the tables and the queue.
  const worker = start("dbos", url);
  await once(worker, "message");
  worker.send("begin");
  await once(worker, "message");
  const ended = once(worker, "exit");
  worker.send("end");
  await ended;
  const client = await DBOSClient.create({ systemDatabaseUrl: url });
  const options = { queueName: QUEUE, workflowName: "job", appVersion: "first" };
  await inTurns((number) => client.enqueue({ ...options, workflowID: `${number}` }));
  await client.destroy();
}

/** Calls `enqueue` for each job, several at once. @param {(number: number) => Promise<unknown>} enqueue */
async function inTurns(enqueue) {
  let next = 0;
  const lane = async () => {
    while (next < jobs) await enqueue(next++);
  };
  await Promise.all(Array.from({ length: 10 }, lane));
}
