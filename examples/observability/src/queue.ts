import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import type { QueueSource } from "waymark/opentelemetry";

/** Counts the runs that wait to be taken up again. */
export function waitingOrders(folder: string): QueueSource {
  return {
    async queue({ prefix }) {
      await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: folder }) });
      const waiting = await manager.tasks({ prefix, status: "paused" });
      const [oldestDueAt] = waiting.map(({ newest }) => newest.createdAt).sort();
      return { tasks: waiting.length, ...(oldestDueAt === undefined ? undefined : { oldestDueAt }) };
    },
  };
}
