// Runs the chaos on one storage.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { type PostgresServer, startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { readRun } from "../../src/runs/run-view.js";
import { killServer } from "../support/postgres-server.js";
import { Fleet, type Programs } from "./fleet.js";
import { historyIn, noteCrash, recorded } from "./history.js";
import { factsIn, nowMs } from "./ledger.js";
import { childPlansOf, PREFIX, planOf, randomOf } from "./plan.js";
import { openStorage, type StorageName } from "./store.js";
import { countsOf, missingFaults, STAYING, type Stored, violationsOf } from "./verdict.js";

export interface ChaosOptions {
  readonly storage: StorageName;
  /** An empty folder. */
  readonly folder: string;
  readonly programs: Programs;
  readonly seed: number;
  /** The duration of the faults. */
  readonly seconds: number;
  readonly workers: number;
  readonly tasks: number;
}

export interface ChaosResult {
  /** Descriptions of the violations; empty if nothing was lost, done twice or left waiting. */
  readonly violations: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

const TTL_MS = 2500;
const FAULT_EVERY_MS = 1000;
/** If no task has changed for this long after the last fault, the remaining tasks wait forever. */
const STILL_MS = 20_000;
/** The share of the time during which tasks are enqueued. */
const SPREAD = 0.8;
const KINDS = ["kills", "kills", "stops", "stops before a save", "drains"] as const;
const KINDS_WITH_SERVER = [...KINDS, "cuts", "cuts"] as const;

export async function chaosOn(options: ChaosOptions): Promise<ChaosResult> {
  const { storage, folder, programs, seed, seconds, workers, tasks } = options;
  // This server syncs, because it is killed.
  const server = storage === "postgres" ? await startPostgres() : undefined;
  const place = server?.url ?? join(folder, storage);
  const [ledgers, histories] = [join(folder, "ledgers"), join(folder, "histories")];
  mkdirSync(ledgers);
  const spreadMs = seconds * 1000 * SPREAD;
  const beganAtMs = nowMs();
  const told = {
    storage,
    place,
    ledgers,
    histories,
    seed,
    tasks,
    spreadMs,
    ttlMs: TTL_MS,
    beganAtMs,
  };
  const fleet = new Fleet(programs, told);
  const store = recorded(openStorage(storage, place), histories, "end");
  const manager = new CheckpointManager({ storage: store });
  try {
    fleet.start(workers);
    const faults = await faultsOn(fleet, options, server, histories);
    const left = [...(await untilEnded(manager, fleet)), ...(await fleet.drain()), ...fleet.violations];
    const facts = factsIn(ledgers);
    const tokens = new Map(facts.flatMap((fact) => (fact.is === "saving" ? [[fact.id, fact.token]] : [])));
    const plans = Array.from({ length: tasks }, (_, number) => planOf(seed, number, spreadMs));
    const stored = new Map<string, Stored>();
    for (const { taskId } of plans.flatMap((plan) => [plan, ...childPlansOf(plan)])) {
      const found = await storedOf(manager, store, taskId, tokens);
      if (found !== undefined) stored.set(taskId, found);
    }
    const seen = {
      ...faults,
      "stops before a save": fleet.stopsBeforeSaves,
      "killed by a task": fleet.killedByTasks,
    };
    const history = historyIn(histories);
    const violations = [
      ...left,
      ...missingFaults(seen, seconds),
      ...violationsOf({ storage, plans, facts, stored }),
      ...history.violations,
    ];
    return { violations, counts: { ...seen, ...countsOf(facts), "calls in the history": history.calls } };
  } finally {
    fleet.end();
    await manager.close();
    await server?.stop();
  }
}

/** Inflicts a fault on a random process every second. Kills the server twice. */
async function faultsOn(
  fleet: Fleet,
  { seed, seconds }: ChaosOptions,
  server: PostgresServer | undefined,
  histories: string,
) {
  const random = randomOf(seed);
  const rounds = Math.floor((seconds * 1000) / FAULT_EVERY_MS);
  const kinds = server === undefined ? KINDS : KINDS_WITH_SERVER;
  const all = server === undefined ? kinds : [...kinds, "server kills"];
  const counts: Record<string, number> = Object.fromEntries(all.map((kind) => [kind, 0]));
  const count = (kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1;
  };
  const beganAtMs = nowMs();
  for (let round = 1; round <= rounds; round++) {
    await pause(Math.max(0, beganAtMs + round * FAULT_EVERY_MS - nowMs()));
    if (server !== undefined && (round === Math.floor(rounds / 3) || round === Math.floor((2 * rounds) / 3))) {
      const killedAtMs = nowMs();
      await killServer(server);
      await server.restart();
      noteCrash(histories, round, killedAtMs);
      count("server kills");
      continue;
    }
    const kind = kinds[Math.floor(random() * kinds.length)] ?? "kills";
    const victim = fleet.victim(random());
    const stoppedMs = TTL_MS * (1.2 + random());
    // All processes are stopped.
    if (victim === undefined) continue;
    if (kind !== "cuts") count(kind);
    if (kind === "kills") fleet.kill(victim);
    else if (kind === "drains") fleet.terminate(victim);
    else if (kind === "stops before a save") fleet.stopBeforeSave(victim);
    else if (kind === "stops") fleet.stop(victim, stoppedMs);
    else if (await cut(server?.url ?? "", victim.name)) count(kind);
  }
  return counts;
}

/** Ends the connections of a process. Returns false if it had none, or if the server is killed meanwhile. */
async function cut(url: string, name: string): Promise<boolean> {
  const client = new pg.Client(url);
  // A broken connection also rejects the running call, so the event needs no handling.
  client.on("error", () => undefined);
  try {
    await client.connect();
    const of = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    const { rowCount } = await client.query(of, [name]);
    return (rowCount ?? 0) > 0;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Waits for all tasks to end. Resolves to the tasks that wait forever. */
async function untilEnded(manager: CheckpointManager, fleet: Fleet): Promise<string[]> {
  let before = "";
  let lastMs = nowMs() + STILL_MS;
  for (;;) {
    const tasks = await manager.tasks({ prefix: PREFIX });
    const left = tasks.filter(({ newest }) => newest.status === "running" || newest.status === "paused");
    if (left.length === 0 && fleet.hasSent && fleet.hasFollowed) return [];
    const now = JSON.stringify(left.map(({ newest }) => newest.id));
    if (now !== before) lastMs = nowMs() + STILL_MS;
    before = now;
    if (nowMs() > lastMs || fleet.violations.length > 0) {
      const waits = left.map(async ({ taskId, newest: { status, label = "", sequence } }) => {
        const lease = await manager.leaseOf(taskId);
        const held = lease === undefined ? "not held" : `held by ${lease.holder}`;
        return `${taskId} waits for ever: ${status}, "${label}", sequence ${sequence}, ${held}`;
      });
      return [
        ...(fleet.hasSent ? [] : ["the sender hasn't sent everything"]),
        ...(fleet.hasFollowed ? [] : ["the follower hasn't seen all ends"]),
        ...(await Promise.all(waits)),
      ];
    }
    await pause(250);
  }
}

/** @param tokens - The tokens under which checkpoints were saved, by checkpoint id. */
async function storedOf(
  manager: CheckpointManager,
  store: StorageAdapter,
  taskId: string,
  tokens: ReadonlyMap<string, number>,
): Promise<Stored | undefined> {
  const newest = await manager.latest(taskId);
  if (newest === undefined) return undefined;
  const saves: { sequence: number; token: number; label: string | undefined }[] = [];
  for await (const found of store.read({ taskId, order: "oldest" })) {
    if (isCorrupt(found)) throw new Error(`${found.location}: ${found.reason}`);
    const token = tokens.get(found.id);
    if (token !== undefined) saves.push({ sequence: found.sequence, token, label: found.label });
  }
  const { status, error } = newest;
  const run = await readRun(manager, newest);
  const records: { sequence: number; kind: string }[] = [];
  // Reads all records, so that the history contains them.
  for await (const item of store.log?.read({ taskId, order: "oldest", headersOnly: true }) ?? []) {
    if (!isCorrupt(item) && "kind" in item && STAYING.some((kind) => kind === item.kind)) records.push(item);
  }
  return { taskId, status, error, result: run?.result, saves, events: await manager.events(taskId), records };
}
