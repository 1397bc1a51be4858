// @ts-check
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { bundled } from "../support/bundled.mjs";
import { factsIn, nowMs } from "./ledger.mjs";
import { PREFIX, planOf, randomOf } from "./plan.mjs";
import { openStorage } from "./store.mjs";
import { countsOf, violationsOf } from "./verdict.mjs";

const TTL_MS = 2500;
const FAULT_EVERY_MS = 1000;
/** So long after the last fault, every task must have ended. */
const LAST_MS = 60_000;
/** So long after SIGTERM, a worker must have ended. */
const DRAIN_MS = 15_000;

/** @typedef {{ storage: import("./store.mjs").StorageName, folder: string, seed: number, seconds: number, workers: number, tasks: number }} ChaosOptions */

/** @param {ChaosOptions} options */
export async function chaosOn(options) {
  const { storage, folder, seed, seconds, tasks } = options;
  const server = storage === "postgres" ? await startServer() : undefined;
  const place = server?.url ?? join(folder, storage === "sqlite" ? "checkpoints.db" : "checkpoints");
  const ledgers = join(folder, "ledgers");
  mkdirSync(ledgers);
  const spreadMs = seconds * 800;
  const fleet = new Fleet(options, { ledgers, place, spreadMs });
  const store = await openStorage(storage, place);
  const manager = new CheckpointManager({ storage: store });
  try {
    fleet.start();
    const faults = await faultsOn(fleet, options, server);
    const violations = [...(await untilEnded(manager, fleet)), ...(await fleet.drain())];
    const facts = factsIn(ledgers);
    const plans = Array.from({ length: tasks }, (_, number) => planOf(seed, number, spreadMs));
    const stored = new Map();
    for (const { taskId } of plans) stored.set(taskId, await storedOf(manager, store, taskId));
    violations.push(...fleet.violations, ...violationsOf(plans, facts, stored));
    return { violations, counts: { ...faults, "killed by a task": fleet.killedByTasks, ...countsOf(facts) } };
  } finally {
    fleet.kill();
    await manager.close();
    await server?.stop();
  }
}

/** @typedef {{ url: string, kill: () => Promise<void>, stop: () => Promise<void> }} KillableServer */

/** A separate server, with syncs, because it is killed. @returns {Promise<KillableServer>} */
async function startServer() {
  const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
  const { killServer } = await import(await bundled("tests/support/postgres-server.ts"));
  const server = await startPostgres();
  return {
    url: server.url,
    kill: async () => {
      await killServer(server);
      await server.restart();
    },
    stop: server.stop,
  };
}

/**
 * Every second a random process gets a fault. The server is killed twice.
 *
 * @param {Fleet} fleet
 * @param {ChaosOptions} options
 * @param {KillableServer | undefined} server
 */
async function faultsOn(fleet, { seed, seconds }, server) {
  const random = randomOf(seed);
  const counts = { kills: 0, stops: 0, cuts: 0, drains: 0, "server kills": 0 };
  const rounds = Math.floor((seconds * 1000) / FAULT_EVERY_MS);
  const kinds = /** @type {const} */ ([
    "kills",
    "kills",
    "stops",
    "stops",
    ...(server ? ["cuts", "cuts"] : []),
    "drains",
  ]);
  const beganAtMs = nowMs();
  for (let round = 1; round <= rounds; round++) {
    await pause(Math.max(0, beganAtMs + round * FAULT_EVERY_MS - nowMs()));
    if (server !== undefined && (round === Math.floor(rounds / 3) || round === Math.floor((2 * rounds) / 3))) {
      await server.kill();
      counts["server kills"] += 1;
      continue;
    }
    const kind = kinds[Math.floor(random() * kinds.length)] ?? "kills";
    const victim = fleet.victim(random());
    const stoppedMs = TTL_MS * (1.2 + random());
    // All others are stopped now.
    if (victim === undefined) continue;
    counts[kind] += 1;
    if (kind === "kills") fleet.killOne(victim);
    else if (kind === "drains") victim.child.kill("SIGTERM");
    else if (kind === "stops") fleet.stop(victim, stoppedMs);
    else await cut(server?.url ?? "", victim.name);
  }
  return counts;
}

/** Ends a process's connections. @param {string} url @param {string} name */
async function cut(url, name) {
  const client = new pg.Client(url);
  await client.connect();
  const of = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
  await client.query(of, [name]);
  await client.end();
}

/** @param {CheckpointManager} manager @param {Fleet} fleet @returns {Promise<string[]>} The tasks that wait for ever. */
async function untilEnded(manager, fleet) {
  const lastMs = nowMs() + LAST_MS;
  for (;;) {
    const left = await manager.tasks({ prefix: PREFIX, status: ["running", "paused"] });
    if (left.length === 0 && fleet.hasSent) return [];
    if (nowMs() > lastMs || fleet.violations.length > 0) {
      const unsent = fleet.hasSent ? [] : ["the sender hasn't sent everything"];
      const waits = left.map(async ({ taskId, newest: { status, label = "", sequence } }) => {
        const lease = await manager.leaseOf(taskId);
        const held = lease === undefined ? "not held" : `held by ${lease.holder}`;
        return `${taskId} waits for ever: ${status}, "${label}", sequence ${sequence}, ${held}`;
      });
      return [...unsent, ...(await Promise.all(waits))];
    }
    await pause(250);
  }
}

/** @param {CheckpointManager} manager @param {import("waymark").StorageAdapter} store @param {string} taskId */
async function storedOf(manager, store, taskId) {
  const newest = await manager.latest(taskId);
  if (newest === undefined) return undefined;
  /** @type {{ sequence: number, token: number }[]} */
  const saves = [];
  for await (const found of store.read({ taskId, order: "oldest" })) {
    if (isCorrupt(found)) throw new Error(`${found.location}: ${found.reason}`);
    const { run } = JSON.parse(found.payload.body.toString());
    if (run?.token !== undefined) saves.push({ sequence: found.sequence, token: run.token });
  }
  const { status, error, run } = newest;
  return { taskId, status, error, result: run?.result, saves, signals: await manager.signals(taskId) };
}

/** @typedef {{ name: string, isSender: boolean, isStopped: boolean, isKilled: boolean, child: import("node:child_process").ChildProcess }} Member */

/** The processes of a chaos run. Each that ends is replaced at once. */
class Fleet {
  /** @type {string[]} */
  violations = [];
  hasSent = false;
  /** How many workers were killed by the task that they ran. */
  killedByTasks = 0;
  /** @type {Set<Member>} */
  #members = new Set();
  #isDraining = false;
  #started = 0;
  #options;
  #told;

  /** @param {ChaosOptions} options @param {{ ledgers: string, place: string, spreadMs: number }} where */
  constructor(options, where) {
    this.#options = options;
    const { storage, seed, tasks } = options;
    this.#told = { ...where, storage, seed, tasks, ttlMs: TTL_MS, beganAtMs: nowMs() };
    process.once("exit", () => this.kill());
  }

  start() {
    this.#start(true);
    for (let worker = 0; worker < this.#options.workers; worker++) this.#start(false);
  }

  /** A process that isn't stopped. @param {number} random */
  victim(random) {
    const running = [...this.#members].filter(({ isStopped }) => !isStopped);
    return running[Math.floor(random * running.length)];
  }

  /** @param {Member} member */
  killOne(member) {
    member.isKilled = true;
    member.child.kill("SIGKILL");
  }

  /** @param {Member} member @param {number} ms */
  stop(member, ms) {
    member.isStopped = true;
    member.child.kill("SIGSTOP");
    setTimeout(() => this.#continue(member), ms);
  }

  /** Ends the workers gracefully. @returns {Promise<string[]>} Those that didn't end. */
  async drain() {
    this.#isDraining = true;
    for (const member of this.#members) {
      this.#continue(member);
      member.child.kill("SIGTERM");
    }
    const lastMs = nowMs() + DRAIN_MS;
    while (this.#members.size > 0 && nowMs() < lastMs) await pause(50);
    return [...this.#members].map(({ name }) => `${name} didn't end after SIGTERM`);
  }

  kill() {
    this.#isDraining = true;
    for (const member of this.#members) this.killOne(member);
  }

  /** @param {Member} member */
  #continue(member) {
    member.isStopped = false;
    member.child.kill("SIGCONT");
  }

  /** @param {boolean} isSender */
  #start(isSender) {
    const { ledgers, place } = this.#told;
    const name = `${isSender ? "sender" : "worker"}-${++this.#started}`;
    const program = fileURLToPath(new URL(isSender ? "sender.mjs" : "worker.mjs", import.meta.url));
    const own = this.#options.storage === "postgres" ? `${place}?application_name=${name}` : place;
    const child = spawn(process.execPath, [program, JSON.stringify({ ...this.#told, name, place: own })], {
      stdio: ["pipe", "ignore", "pipe"],
    });
    const log = join(ledgers, "..", `${name}.log`);
    child.stderr?.on("data", (text) => appendFileSync(log, text));
    const member = { name, isSender, isStopped: false, isKilled: false, child };
    this.#members.add(member);
    void once(child, "close").then(([code, signal]) => {
      this.#members.delete(member);
      if (signal === "SIGKILL" && !member.isKilled) this.killedByTasks += 1;
      if (isSender && code === 0) this.hasSent = true;
      // A fault ends it by a signal. Otherwise it is broken, and so would be its replacement.
      else if (code !== null)
        this.violations.push(`${name} ended with ${code}: ${readFileSync(log, "utf8").slice(0, 2000)}`);
      else if (!this.#isDraining) this.#start(isSender);
    });
  }
}
