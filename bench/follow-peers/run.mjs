// @ts-check
// Measures for peers what `bench/follow.mjs` measures for Waymark, on the same PostgreSQL server.
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { installPackages, versionOf } from "../peers/installed.mjs";
import { printHeading, printTimes } from "../report.mjs";

/**
 * @param {string} url - The server's URL.
 * @param {{ records: number, tasks: number }} counts
 */
export async function benchFollowPeers(url, { records, tasks }) {
  installPackages(import.meta.dirname);
  await benchDbos(await newDatabase(url, "follow_dbos"), records, tasks);
  await benchPgBoss(await newDatabase(url, "follow_pg_boss"), tasks);
}

/** @param {string} url @param {number} records @param {number} tasks */
async function benchDbos(url, records, tasks) {
  const { DBOSClient } = await import("@dbos-inc/dbos-sdk");
  printHeading(`Seen in another process: DBOS ${versionOf("@dbos-inc/dbos-sdk", import.meta.dirname)}`);
  const { end } = await begin("dbos", url, String(records));
  const client = await DBOSClient.create({ systemDatabaseUrl: url });
  const { workflowID } = await client.enqueue({ queueName: "bench", workflowName: "stream" });
  /** @type {number[]} */
  const seen = [];
  for await (const wroteMs of client.readStream(workflowID, "times")) seen.push(now() - wroteMs);
  if (seen.length !== records) throw new Error(`Only ${seen.length} of ${records} values arrived.`);
  printTimes("writeStream, in readStream", seen);
  /** @type {number[]} */
  const begun = [];
  /** @type {number[]} */
  const returned = [];
  for (let task = 0; task < tasks; task++) {
    const sentMs = now();
    const handle = await client.enqueue({ queueName: "bench", workflowName: "first" }, sentMs);
    const delayMs = /** @type {number} */ (await handle.getResult());
    begun.push(delayMs);
    returned.push(now() - sentMs - delayMs);
    await pause(Math.random() * 60);
  }
  printTimes("enqueue, to a worker's first step", begun);
  printTimes("a first step, to getResult", returned);
  await client.destroy();
  await end();
}

/** @param {string} url @param {number} tasks */
async function benchPgBoss(url, tasks) {
  const { PgBoss } = await import("pg-boss");
  printHeading(`Seen in another process: pg-boss ${versionOf("pg-boss", import.meta.dirname)}`);
  const { child, end } = await begin("pg-boss", url);
  const boss = new PgBoss(url);
  await boss.start();
  /** @type {number[]} */
  const begun = [];
  for (let task = 0; task < tasks; task++) {
    const said = once(child, "message");
    await boss.send("bench", { sentMs: now() });
    begun.push((await said)[0]);
    await pause(Math.random() * 60);
  }
  printTimes("send, to a worker", begun);
  await boss.stop({ graceful: false });
  await end();
}

/** Starts a worker, and resolves once it is ready. @param {string} peer @param {readonly string[]} args */
async function begin(peer, ...args) {
  const child = fork(join(import.meta.dirname, `${peer}.mjs`), args);
  const exited = once(child, "exit");
  await once(child, "message");
  const end = async () => {
    child.send("end");
    await exited;
  };
  return { child, end };
}

/** @param {string} url @param {string} name */
async function newDatabase(url, name) {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const own = new URL(url);
  own.pathname = name;
  own.searchParams.delete("schema");
  return own.href;
}

function now() {
  return performance.timeOrigin + performance.now();
}
