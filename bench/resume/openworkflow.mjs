// @ts-check
import { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";
import { note, program } from "./program.mjs";

const backend = await BackendPostgres.connect(process.env["RESUME_URL"] ?? "", {
  schema: process.env["RESUME_STORAGE"] ?? "",
});
const client = new OpenWorkflow({ backend });
const job = client.defineWorkflow({ name: "job" }, ({ step }) => program((name, body) => step.run({ name }, body)));
const worker = client.newWorker();
await worker.start();
const handle = await job.run(undefined, { idempotencyKey: "job" });
await handle.result();
note("done");
await worker.stop();
await backend.stop();
