// @ts-check
// A process of bench/follow.mjs that only follows tasks. It reports its share of a core, first while nothing is
// written.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";

/** The time until the followers have settled. After it, each polls every 50 to 150 s in case it missed a change. */
const SETTLES_MS = 50_000;
const MEASURED_MS = 20_000;

const [url = "", followers = ""] = process.argv.slice(2);
const manager = new CheckpointManager({ storage: openStorage(url) });
const all = Array.from({ length: Number(followers) }, (_, task) => manager.follow(`followed/${task}`));
for (const following of all) await following.next();
const stop = Promise.all(all.map((following) => following.next().then(() => following.return())));
await pause(SETTLES_MS);
process.send?.(0);
for (let round = 0; round < 2; round++) {
  const before = process.cpuUsage();
  const startMs = performance.now();
  await pause(MEASURED_MS);
  const { user, system } = process.cpuUsage(before);
  process.send?.((user + system) / 1000 / (performance.now() - startMs));
  await pause(500);
}
stop.catch(() => undefined);
await manager.close().catch(() => undefined);
process.disconnect?.();
