// Two workers share five tasks on one server. A worker claims a task by its lease, so no two work on the same task.
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

/** Runs a worker with its own connection, as if it ran on another machine. */
async function work(url: string, prefix: string, worker: string): Promise<void> {
  const client = await connected(url);
  const manager = new CheckpointManager({ storage: new RedisAdapter({ client, prefix }) });
  for (const taskId of TASKS) {
    try {
      // A completed task returns its result without running again.
      await manager.run(taskId, async (run) => {
        await run.save({ copiedBy: worker }, { stage: "copied" });
        console.log(`${worker} copies ${taskId}`);
      });
    } catch (error) {
      // The other worker has this task.
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
