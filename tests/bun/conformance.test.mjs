// The conformance suite under Bun. run.mjs runs this file.
import { describe, it } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { registerConformance } from "waymark/conformance";

registerConformance(
  { describe, it: (title, body) => it(title, body, 120_000) },
  {
    name: "bun:sqlite",
    module: new URL("./bun-sqlite.mjs", import.meta.url),
    capabilities: { durable: true, multiProcess: true },
    offers: ["leases", "log", "maintenance", "queue", "removePrefix", "replacePayload"],
    newLocation: () => join(mkdtempSync(join(tmpdir(), "waymark-bun-")), "checkpoints.db"),
  },
);
