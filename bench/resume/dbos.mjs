// @ts-check
import { DBOS } from "@dbos-inc/dbos-sdk";
import { note, program } from "./program.mjs";

const job = DBOS.registerWorkflow(() => program((name, body) => DBOS.runStep(body, { name })), { name: "job" });
DBOS.setConfig({
  name: "bench",
  systemDatabaseUrl: process.env["RESUME_URL"] ?? "",
  systemDatabaseSchemaName: process.env["RESUME_STORAGE"] ?? "",
  // By default, the version is a hash of the workflows' source, which is the same for all versions of this program.
  applicationVersion: process.env["DBOS_KEEPS_VERSION"] ? "kept" : process.env["RESUME_CHANGE"] || "first",
  logLevel: "error",
});
await DBOS.launch();
const handle = await DBOS.startWorkflow(job, { workflowID: "job" })();
await handle.getResult();
note("done");
await DBOS.shutdown();
