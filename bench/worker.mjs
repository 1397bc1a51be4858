// @ts-check
// A worker that bench/workers.mjs starts. It reports when it runs a task, and never ends a task.
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";

const [place = "", ttlMs = ""] = process.argv.slice(2);
const manager = new CheckpointManager({ storage: openStorage(place) });
process.on("disconnect", () => process.exit());
process.send?.("ready");
await manager.work({ prefix: "task/", leaseOptions: { ttlMs: Number(ttlMs) } }, (run) =>
  run.step("work", () => {
    process.send?.("runs");
    return new Promise(() => undefined);
  }),
);
