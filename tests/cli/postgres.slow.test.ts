import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { tempFolder } from "../support/temp-folder.js";
import { waymarkProcess } from "./waymark.js";

it("ends by itself if the server asks for a password and none is given", async () => {
  const cwd = await tempFolder();
  const rules = join(cwd, "pg_hba.conf");
  writeFileSync(rules, "host all all all scram-sha-256\n");
  // The server's user reads it.
  chmodSync(cwd, 0o755);
  // The server would end the connection only after longer than any test may take.
  const server = await startPostgres(["-c", `hba_file=${rules}`, "-c", "authentication_timeout=600"]);
  onTestFinished(() => server.stop());
  const url = new URL(server.url);
  url.password = "";
  const { code, stderr } = await waymarkProcess({ cwd, env: { WAYMARK_STORAGE: url.href } }, ["tasks"]);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/refuses the connection: SASL: .*password/)]);
});
