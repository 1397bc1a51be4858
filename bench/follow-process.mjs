// @ts-check
// The other process of bench/follow.mjs. It has a run whose steps are followed, a worker, a run that waits, runs that
// are cancelled, and a step that writes 1,000 chunks a second.
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";

const [url = "", records = "", tasks = "", chunks = ""] = process.argv.slice(2);
const now = () => performance.timeOrigin + performance.now();
const manager = new CheckpointManager({ storage: openStorage(url) });

await manager.run("records", async (run) => {
  for (let step = 0; step < Number(records); step++) {
    await run.step(`s${step}`, async () => {
      await pause(5 + Math.random() * 60);
      return now();
    });
  }
});
const stop = new AbortController();
process.stdin.resume().once("end", () => stop.abort());
const working = manager.work({ prefix: "work/", signal: stop.signal }, async (run) => {
  const { sentMs } = /** @type {{ sentMs: number }} */ (run.input);
  return run.step("first", () => now() - sentMs);
});
await manager.result(`work/${Number(tasks) - 1}`);
await manager.run("waits", async (run) => {
  /** @type {number[]} */
  const times = [];
  for (let answer = 0; answer < Number(tasks); answer++) {
    const { value } = await run.waitFor("answer");
    times.push(now() - /** @type {number} */ (value));
  }
  return times;
});
/** @type {number[]} */
const cancels = [];
for (let task = 0; task < Number(tasks); task++) {
  const cancelled = manager.run(`cancel/${task}`, (run) =>
    run.step("long", ({ signal }) => {
      signal.addEventListener("abort", () => {
        cancels.push(now() - Number(/cancelled: ([\d.]+)\. /.exec(signal.reason.message)?.[1]));
      });
      return pause(60_000, undefined, { signal });
    }),
  );
  await cancelled.catch(() => undefined);
}
await manager.run("cancels", () => cancels);
await manager.run("chunks", (run) =>
  run.step("write", async ({ write }) => {
    const shareOf = async (/** @type {(number: number) => unknown} */ use) => {
      const before = process.cpuUsage();
      const startMs = now();
      for (let used = 0; used < Number(chunks); ) {
        await pause(1);
        const due = Math.min(Number(chunks), Math.floor(now() - startMs));
        for (; used < due; used++) await use(used);
      }
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000 / (now() - startMs);
    };
    // The measuring loop itself wakes up a thousand times a second.
    const idle = await shareOf(() => undefined);
    return (await shareOf((number) => write(`token ${number} `))) - idle;
  }),
);
await working;
await manager.close();
