import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";
import { tempFolder } from "../support/temp-folder.js";

registerConformance(
  { describe, it },
  {
    name: "json-file",
    module: new URL("./stores/json-file.js", import.meta.url),
    capabilities: { durable: true, multiProcess: true },
    offers: ["leases", "maintenance", "replacePayload"],
    newLocation: tempFolder,
  },
);
