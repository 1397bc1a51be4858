// @ts-check
// A pg-boss worker in its own process. It reports how long after its sending each job began.
import { PgBoss } from "pg-boss";

const [url = ""] = process.argv.slice(2);
const boss = new PgBoss(url);
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("bench");
// Polls for work as often as pg-boss allows.
await boss.work("bench", { pollingIntervalSeconds: 0.5 }, async (jobs) => {
  for (const { data } of jobs) process.send?.(performance.timeOrigin + performance.now() - data.sentMs);
});
process.send?.("ready");
process.once("message", async () => {
  await boss.stop({ graceful: false });
  process.exit();
});
