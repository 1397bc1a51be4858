// @ts-check
import { CheckpointManager } from "waymark";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { CONCURRENCY, ended, job, QUEUE, serve } from "./job.mjs";

const { JOBS_URL: url = "", JOBS_PREPARE } = process.env;
// Planning Waymark's statements takes the server about as long as running them, so they are usually prepared.
const manager = new CheckpointManager({ storage: new PostgresAdapter({ url, prepare: JOBS_PREPARE === "true" }) });
const stop = new AbortController();
/** @type {Promise<void> | undefined} */
let working;

serve({
  begin: async () => {
    const options = { prefix: `${QUEUE}/`, concurrency: CONCURRENCY, signal: stop.signal };
    working = manager.work(options, async (run) => job((name, body) => run.step(name, body)));
    manager.on("runEnded", ended);
  },
  end: async () => {
    stop.abort();
    await working;
    await manager.close();
  },
});
