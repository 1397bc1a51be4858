// Some work that shows what operators watch for: failures, resumed runs, conflicts, a lost lease, damage.
import { readdir, truncate } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";

/** Opens a manager over JSON files in the folder. */
export function open(folder: string) {
  const storage = new JsonFileAdapter({ path: folder });
  // Damage is expected here, so it isn't logged; the metric counts it.
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  return { folder, storage, manager: new CheckpointManager({ storage, retention: { keepLast: 5 }, logger }) };
}

/** Does the work of one round. */
export async function work({ folder, storage, manager }: ReturnType<typeof open>, round: number): Promise<void> {
  await order(manager, `orders/${round}-1`, "paid");
  // The card is refused, and the run fails. When the customer tries again, the run continues with the same step.
  await order(manager, `orders/${round}-2`, "refused").catch(() => undefined);
  await order(manager, `orders/${round}-2`, "paid");
  // The service shuts down in the middle. The order waits in the queue for a worker.
  await order(manager, `orders/${round}-3`, "shut down").catch(() => undefined);

  // Another writer has saved first, so this save is refused.
  await manager.save(`stock/${round}`, { left: 2 });
  await manager.save(`stock/${round}`, { left: 1 }, { expectedSequence: 0 }).catch(() => undefined);
  // Another process takes the task away from its runner.
  const lease = await manager.lease(`reports/${round}`);
  await storage.leases.claim(`reports/${round}`, "another worker", 1000, { force: true });
  await manager.save(`reports/${round}`, { page: 1 }, { lease }).catch(() => undefined);
  await storage.leases.release(`reports/${round}`, lease.token + 1);
  // A disk cuts a file short. `latest` steps back to the checkpoint before it.
  await manager.save(`logs/${round}`, { line: 1 });
  const { id } = await manager.save(`logs/${round}`, { line: 2 });
  for (const path of await readdir(folder, { recursive: true }))
    if (path.endsWith(`${id}.json`)) await truncate(join(folder, path), 100);
  await manager.latest(`logs/${round}`);
}

async function order(manager: CheckpointManager, taskId: string, outcome: "paid" | "refused" | "shut down") {
  const service = new AbortController();
  const charge = () => {
    if (outcome === "refused") throw new RangeError("The card was refused");
    return { paid: 42 };
  };
  await manager.run(
    taskId,
    async (run) => {
      await run.step("reserve", () => ({ item: "book" }));
      if (outcome === "shut down") service.abort();
      await run.step("charge", charge);
      await run.step("send", () => ({ sent: true }));
    },
    { signal: service.signal },
  );
}
