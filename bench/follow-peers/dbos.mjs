// @ts-check
// A DBOS worker in its own process. One workflow writes a stream; the first step of another reports when it begins.
import { DBOS } from "@dbos-inc/dbos-sdk";

const [url = "", records = ""] = process.argv.slice(2);
const now = () => performance.timeOrigin + performance.now();

DBOS.registerWorkflow(
  async () => {
    for (let record = 0; record < Number(records); record++) {
      await DBOS.sleep(5 + Math.random() * 60);
      await DBOS.writeStream("times", now());
    }
    await DBOS.closeStream("times");
  },
  { name: "stream" },
);
DBOS.registerWorkflow(
  async (/** @type {number} */ sentMs) => DBOS.runStep(async () => now() - sentMs, { name: "first" }),
  { name: "first" },
);
DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, applicationVersion: "first", logLevel: "error" });
await DBOS.launch();
// Polls for work as often as DBOS allows.
await DBOS.registerQueue("bench", { minPollingIntervalMs: 100 });
process.send?.("ready");
process.once("message", async () => {
  await DBOS.shutdown();
  process.exit();
});
