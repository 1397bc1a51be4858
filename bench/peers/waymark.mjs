// @ts-check
import { CheckpointManager } from "waymark";
import { HISTORY, INCOMPLETE, isIncomplete } from "./peer.mjs";

/**
 * @param {import("waymark/adapter").StorageAdapter} storage
 * @param {() => Promise<number>} bytes
 * @returns {import("./peer.mjs").Store}
 */
export function waymarkStore(storage, bytes) {
  const manager = new CheckpointManager({ storage });
  return {
    save: (task, state) => manager.save(task, state, { stage: "validation-gate-2" }),
    latest: (task) => manager.latest(task),
    list: async (task) => (await manager.list(task)).length,
    saveTurn: (state) => manager.save(HISTORY, state),
    bytes,
    async addTasks(count) {
      for (let start = 0; start < count; start += 50) {
        const batch = Array.from({ length: Math.min(50, count - start) }, (_, index) => start + index);
        await Promise.all(
          batch.map((task) =>
            manager.save(`task-${task}`, { task }, { status: isIncomplete(task) ? "running" : "completed" }),
          ),
        );
      }
    },
    findIncomplete: async () => (await manager.findIncomplete({ limit: INCOMPLETE })).length,
    close: () => manager.close(),
  };
}
