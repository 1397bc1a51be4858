// @ts-check
import { DBOS } from "@dbos-inc/dbos-sdk";
import { CONCURRENCY, ended, job, QUEUE, serve } from "./job.mjs";

DBOS.registerWorkflow(
  async () => {
    const result = await job((name, body) => DBOS.runStep(body, { name }));
    // DBOS records the job's end after this call, so the benchmark counts the job a moment too early.
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
    // Polls for work at least as often as Waymark.
    await DBOS.registerQueue(QUEUE, { workerConcurrency: CONCURRENCY, minPollingIntervalMs: 100 });
  },
  end: () => DBOS.shutdown(),
});
