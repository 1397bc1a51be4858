// A worker for all shards: node dist/worker.js LEDGER URL…
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Shards } from "./shards.js";

const [, , ledger = "", ...urls] = process.argv;
const shards = new Shards(urls);
await shards.work({ prefix: "order/" }, async (run) => {
  await run.step("pack", () => pause(20));
  await run.step("ship", ({ key }) => appendFileSync(ledger, `${run.taskId} ${key}\n`));
});
await shards.close();
