// Tests Node's own SQLite if this Node has it. CI also runs the tests on the newest Node.
import { join } from "node:path";
import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";
import { builtInDriver } from "../../adapters/sqlite/built-in-drivers.js";
import { tempFolder } from "../support/temp-folder.js";

const isMissing = builtInDriver("node:sqlite") === undefined;
const why = isMissing ? ` (skipped: Node ${process.versions.node} has none that returns rows as arrays)` : "";

describe.skipIf(isMissing)(`SQLite of Node${why}`, () => {
  registerConformance(
    { describe, it },
    {
      name: "node:sqlite",
      module: new URL("./stores/node-sqlite.js", import.meta.url),
      capabilities: { durable: true, multiProcess: true },
      offers: ["leases", "log", "maintenance", "queue", "removePrefix", "replacePayload"],
      newLocation: async () => join(await tempFolder(), "checkpoints.db"),
    },
  );
});
