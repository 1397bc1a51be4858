import { join } from "node:path";
import { registerConformance } from "waymark/conformance";
import { tempFolder } from "../support/temp-folder.js";
import { type Part, runnerOf } from "./parts.js";

export function registerSqlite(part: Part): void {
  registerConformance(runnerOf(part), {
    name: "sqlite",
    module: new URL("./stores/sqlite.js", import.meta.url),
    capabilities: { durable: true, multiProcess: true },
    offers: ["leases", "log", "maintenance", "queue", "removePrefix", "replacePayload"],
    newLocation: async () => join(await tempFolder(), "checkpoints.db"),
  });
}
