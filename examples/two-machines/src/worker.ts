// Does a task of six steps under the task's lease, and saves each step. Start it on as many machines as you like.
//
//   DATABASE_URL=postgres://… node dist/worker.js <task> <name of this machine>
import { setTimeout as delay } from "node:timers/promises";
import { CheckpointManager, type Lease, LeaseHeldError } from "waymark";
import { openStorage } from "waymark/adapters";
import { z } from "zod";

const STEPS = 6;
/** How long a dead machine keeps its task. It is short to make the example quick; the default is 30 s. */
const TTL_MS = 2000;

const url = process.env["DATABASE_URL"];
const [taskId, machine] = process.argv.slice(2);
if (!url || !taskId || !machine) throw new TypeError("Usage: DATABASE_URL=… node dist/worker.js <task> <machine>");

await using manager = new CheckpointManager({ storage: openStorage(url), schema: z.array(z.string()) });
// Closing the manager releases the lease.
const lease = await claim(taskId, machine);
const results = (await manager.latest(taskId))?.state ?? [];
console.log(`has the lease; ${results.length} of ${STEPS} steps done`);
while (results.length < STEPS) {
  results.push(await doStep(results.length + 1, lease.signal));
  await manager.save(taskId, results, { lease });
  console.log(`step ${results.length} saved`);
}
await manager.complete(taskId, { lease });
console.log("task completed");

/** Claims the task. Waits while another machine has it. */
async function claim(taskId: string, holder: string): Promise<Lease> {
  for (;;) {
    try {
      return await manager.lease(taskId, { ttlMs: TTL_MS, holder });
    } catch (error) {
      if (!(error instanceof LeaseHeldError)) throw error;
      console.log(`waits: ${error.holder} has the lease, ${(error.remainingMs / 1000).toFixed(1)} s left`);
      await delay(error.remainingMs);
    }
  }
}

/** Does a step; put your own work here. It ends early if the lease is lost. */
async function doStep(step: number, signal: AbortSignal): Promise<string> {
  console.log(`step ${step} begins`);
  return await delay(1000, `step ${step}, by ${machine}`, { signal });
}
