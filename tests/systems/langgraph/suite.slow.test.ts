import { randomBytes } from "node:crypto";
import { encrypt, gzip } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { administer, serverUrl } from "../../support/postgres.js";
import { inFolder, registerSuite } from "./suite.js";

registerSuite("memory", async () => ({ storage: new MemoryAdapter() }));
registerSuite("json-file", () => inFolder((folder) => `files:${folder}`));
registerSuite("task-file", () => inFolder((folder) => `tasks:${folder}`));
registerSuite("sqlite, compressed and encrypted", () => inFolder((folder) => `sqlite:${folder}/agent.db`), {
  transforms: [gzip(), encrypt({ keys: { k1: randomBytes(32) }, current: "k1" })],
});
let count = 0;
registerSuite("postgres", async () => {
  const url = await serverUrl();
  const schema = `langgraph_${process.pid}_${count++}`;
  return {
    storage: new PostgresAdapter({ url, schema }),
    remove: async () => void (await administer(url, `DROP SCHEMA IF EXISTS "${schema}" CASCADE`)),
  };
});
