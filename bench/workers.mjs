// @ts-check
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { bundled } from "../tests/support/bundled.mjs";
import { median } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const ROUNDS = 7;
const TTL_MS = 5000;
const IDLE_WORKERS = 4;
const IDLE_MS = 10_000;

/**
 * Measures how soon another worker runs a dead worker's task, and how many statements an idle worker sends to the
 * server.
 *
 * @param {string} folder
 */
export async function benchWorkers(folder) {
  printHeading("Workers: from a kill (SIGKILL) to the next attempt's first step");
  for (const scheme of ["sqlite", "files"]) {
    const took = await takeovers(`${scheme}:${join(folder, `workers-${scheme}`)}`);
    printRow({ what: `${scheme}, one machine`, measuredMs: took, limit: 1000 });
  }
  const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
  const server = await startPostgres(["-c", "shared_preload_libraries=pg_stat_statements"]);
  try {
    const took = await takeovers(server.url);
    printRow({ what: `postgres, leases of ${TTL_MS / 1000} s`, measuredMs: took, limit: TTL_MS + 1000 });
    const perSecond = await idleStatements(server.url);
    const verdict = perSecond <= 4 ? "PASS" : "FALLS SHORT";
    console.log(`an idle worker on PostgreSQL: ${perSecond.toFixed(1)} statements a second, ≤ 4  ${verdict}`);
  } finally {
    await server.stop();
  }
}

/** @param {string} place @returns {Promise<number>} The median time, in milliseconds. */
async function takeovers(place) {
  const manager = new CheckpointManager({ storage: openStorage(place) });
  const samples = [];
  for (let round = 0; round < ROUNDS; round++) {
    const taskId = `task/${round}`;
    const first = await worker(place);
    await manager.enqueue(taskId);
    await untilRuns(first);
    const second = await worker(place);
    const runs = untilRuns(second);
    // By now, the other worker has polled for a task. The kill comes at a random moment between two polls.
    await pause(500 + Math.random() * 500);
    const killedAtMs = performance.now();
    first.kill("SIGKILL");
    await runs;
    samples.push(performance.now() - killedAtMs);
    second.kill("SIGKILL");
    await once(second, "exit");
    await manager.cancel(taskId, "It was taken over.");
  }
  await manager.close();
  return median(samples);
}

/** Returns the number of statements that each worker sends a second. @param {string} url */
async function idleStatements(url) {
  const workers = await Promise.all(Array.from({ length: IDLE_WORKERS }, () => worker(url)));
  const client = new pg.Client(url);
  await client.connect();
  await client.query("CREATE EXTENSION pg_stat_statements");
  await pause(1000);
  await client.query("SELECT pg_stat_statements_reset()");
  await pause(IDLE_MS);
  const { rows } = await client.query(
    "SELECT sum(calls)::int AS calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'",
  );
  await client.end();
  for (const one of workers) one.kill("SIGKILL");
  return rows[0].calls / IDLE_WORKERS / (IDLE_MS / 1000);
}

/** Starts a worker that polls for tasks. @param {string} place */
async function worker(place) {
  const child = fork(join(import.meta.dirname, "worker.mjs"), [place, String(TTL_MS)]);
  await once(child, "message");
  return child;
}

/** @param {import("node:child_process").ChildProcess} child */
async function untilRuns(child) {
  await once(child, "message");
}
