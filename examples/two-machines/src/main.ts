// The example: starts the workers, kills one, stops another, and checks the stored checkpoints.
import { randomUUID } from "node:crypto";
import { constants } from "node:os";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { check } from "./check.js";
import { demonstrate } from "./demonstration.js";
import { startPostgres } from "./postgres-server.js";

const interruption = new AbortController();
let interruptedBy: "SIGINT" | "SIGTERM" | "SIGHUP" | undefined;
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => {
    // Under npm, Ctrl-C arrives twice: from the terminal and from npm. The second signal is ignored.
    interruptedBy ??= name;
    interruption.abort();
  });
}

console.log("\nTwo machines and one PostgreSQL database. A task of six steps is done by the");
console.log("machine that has its lease; the other waits.\n");
const given = process.env["DATABASE_URL"];
const server = given ? { url: given, stop: async () => {} } : await startPostgres();
const manager = new CheckpointManager({ storage: openStorage(server.url) });
const taskId = `two-machines-${randomUUID()}`;
try {
  const run = await demonstrate(taskId, server.url, interruption.signal);
  process.exitCode = (await check(manager, taskId, run)) ? 0 : 1;
} catch (error) {
  if (interruptedBy === undefined) throw error;
  await manager.removeTask(taskId);
  console.log(`\n  Stopped by ${interruptedBy}. No process and no checkpoint is left.`);
  process.exitCode = 128 + constants.signals[interruptedBy];
} finally {
  await manager.close();
  await server.stop();
}
