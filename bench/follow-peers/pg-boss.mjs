// @ts-check
// A worker of pg-boss in a process of its own. It says of each job how long after its sending it has begun.
import { PgBoss } from "pg-boss";

const [url = ""] = process.argv.slice(2);
const boss = new PgBoss(url);
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("bench");
// As often as it may.
await boss.work("bench", { pollingIntervalSeconds: 0.5 }, async (jobs) => {
  for (const { data } of jobs) process.send?.(performance.timeOrigin + performance.now() - data.sentMs);
});
process.send?.("ready");
process.once("message", async () => {
  await boss.stop({ graceful: false });
  process.exit();
});
