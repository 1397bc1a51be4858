import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";

registerConformance(
  { describe, it },
  {
    name: "unusual",
    module: new URL("../fixtures/unusual-adapter.js", import.meta.url),
    capabilities: { durable: false, multiProcess: false },
    newLocation: () => "nowhere",
  },
);
