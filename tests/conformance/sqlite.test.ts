import { join } from "node:path";
import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";
import { tempFolder } from "../support/temp-folder.js";

registerConformance(
  { describe, it },
  {
    name: "sqlite",
    module: new URL("./stores/sqlite.js", import.meta.url),
    capabilities: { durable: true, multiProcess: true },
    offers: ["leases", "maintenance", "removeTasks", "replacePayload"],
    newLocation: async () => join(await tempFolder(), "checkpoints.db"),
  },
);
