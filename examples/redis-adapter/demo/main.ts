// Two workers share five tasks on one server. Each takes a task by its lease; nobody takes one that the other has.
import { createClient } from "@redis/client";
import { CheckpointManager, LeaseHeldError } from "waymark";
import { RedisAdapter } from "../redis-adapter.js";
import { missing, type RedisServer, startRedis } from "../redis-server.js";

const TASKS = ["users", "orders", "invoices", "payments", "refunds"];

const given = process.env["REDIS_URL"];
if (given === undefined && missing !== "") {
  console.log(`Skipped: ${missing}. Install one, or set REDIS_URL.`);
} else if (given !== undefined) await demonstrate(given);
else {
  const server: RedisServer = await startRedis();
  await demonstrate(server.url).finally(() => server.stop());
}

async function demonstrate(url: string): Promise<void> {
  const prefix = `waymark-demo-${process.pid}:`;
  await Promise.all(["A", "B"].map((worker) => work(url, prefix, worker)));

  const client = await connected(url);
  const manager = new CheckpointManager({ storage: new RedisAdapter({ client, prefix }) });
  for (const { taskId, count, newest } of await manager.tasks()) {
    console.log(`${taskId}: ${newest.status} after ${count} checkpoints`);
    await manager.removeTask(taskId);
  }
  await manager.close();
  await client.del(`${prefix}leases`);
  await client.close();
}

/** A worker has its own connection, as one on another machine has. */
async function work(url: string, prefix: string, worker: string): Promise<void> {
  const client = await connected(url);
  const manager = new CheckpointManager({ storage: new RedisAdapter({ client, prefix }) });
  for (const taskId of TASKS) {
    try {
      // A completed run isn't run again.
      await manager.run(taskId, async (run) => {
        await run.save({ copiedBy: worker }, { stage: "copied" });
        console.log(`${worker} copies ${taskId}`);
      });
    } catch (error) {
      // The other worker has it.
      if (!(error instanceof LeaseHeldError)) throw error;
    }
  }
  await manager.close();
  await client.close();
}

async function connected(url: string) {
  const client = createClient({ url });
  client.on("error", (error: Error) => console.error(`Redis: ${error.message}`));
  return client.connect();
}
