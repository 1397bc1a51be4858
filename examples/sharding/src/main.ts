// Ships 200 orders on eight shards in two databases. A worker is killed, and a shard moves to the other database.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Shards } from "./shards.js";

const ORDERS = 200;
const folder = mkdtempSync(join(tmpdir(), "waymark-sharding-"));
const ledger = join(folder, "ledger.txt");
for (const database of ["a", "b"]) mkdirSync(join(folder, database));
/** The database of each shard. In this example, a database is a folder and a shard is a file in it. */
const places = ["a", "a", "a", "a", "b", "b", "b", "b"];
const urls = () => places.map((database, shard) => `sqlite:${fileOf(database, shard)}`);

const workers = new Set<ChildProcess>();
try {
  let shards = new Shards(urls());
  for (let n = 0; n < ORDERS; n += 1) await shards.of(`order/${n}`).enqueue(`order/${n}`, { n });
  console.log(`${ORDERS} orders wait on ${places.length} shards in two databases.`);

  const [first, second] = [start(), start()];
  await queueBelow(shards, ORDERS * 0.7);
  first.kill("SIGKILL");
  console.log("One of two workers is killed (SIGKILL).");
  await queueBelow(shards, ORDERS * 0.4);

  // A shard moves while nobody works on it: drain the workers, move it, and start them with the new places.
  second.kill("SIGTERM");
  await once(second, "exit");
  await shards.close();
  for (const ending of ["", "-wal", "-shm"]) move(0, "a", "b", ending);
  places[0] = "b";
  console.log("The workers are drained, and shard 0 moves to database b.");

  shards = new Shards(urls());
  const last = start();
  while ((await shards.incomplete("order/")).length > 0) await pause(50);
  last.kill("SIGTERM");
  await once(last, "exit");
  await shards.close();

  const lines = readFileSync(ledger, "utf8").trim().split("\n");
  const keys = new Set(lines);
  console.log(
    `All ${ORDERS} orders are shipped: ${keys.size} different keys, ${lines.length - keys.size} shipped twice.`,
  );
  if (keys.size !== ORDERS) process.exitCode = 1;
} finally {
  for (const worker of workers) worker.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}

function start(): ChildProcess {
  const script = fileURLToPath(new URL("worker.js", import.meta.url));
  const worker = spawn(process.execPath, [script, ledger, ...urls()], { stdio: ["ignore", "inherit", "inherit"] });
  workers.add(worker);
  worker.once("exit", () => workers.delete(worker));
  return worker;
}

async function queueBelow(shards: Shards, most: number): Promise<void> {
  while ((await shards.queueLength("order/")) > most) await pause(20);
}

function fileOf(database: string, shard: number): string {
  return join(folder, database, `shard-${shard}.db`);
}

function move(shard: number, from: string, to: string, ending: string): void {
  try {
    renameSync(fileOf(from, shard) + ending, fileOf(to, shard) + ending);
  } catch (error) {
    // A closed database has no -wal or -shm file.
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
}
