import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";

registerConformance(
  { describe, it },
  {
    name: "memory",
    module: new URL("./stores/memory.js", import.meta.url),
    capabilities: { durable: false, multiProcess: false },
    offers: ["leases", "log", "queue", "removePrefix", "replacePayload"],
    newLocation: () => "nowhere",
  },
);
