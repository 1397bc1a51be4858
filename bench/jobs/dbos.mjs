// @ts-check
import { DBOS } from "@dbos-inc/dbos-sdk";
import { CONCURRENCY, ended, job, QUEUE, serve } from "./job.mjs";

DBOS.registerWorkflow(
  async () => {
    const result = await job((name, body) => DBOS.runStep(body, { name }));
    // Its end is recorded after this; the bench counts it a moment too early.
    ended();
    return result;
  },
  { name: "job" },
);
DBOS.setConfig({
  name: "bench",
  systemDatabaseUrl: process.env["JOBS_URL"] ?? "",
  applicationVersion: "first",
  logLevel: "error",
});

serve({
  begin: async () => {
    await DBOS.launch();
    // It asks for work as often as Waymark at least.
    await DBOS.registerQueue(QUEUE, { workerConcurrency: CONCURRENCY, minPollingIntervalMs: 100 });
  },
  end: () => DBOS.shutdown(),
});
