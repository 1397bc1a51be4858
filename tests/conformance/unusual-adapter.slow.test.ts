import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";

// The suite must ask only for what the contract says.
registerConformance(
  { describe, it },
  {
    name: "a correct but unusual adapter",
    module: new URL("../fixtures/unusual-adapter.js", import.meta.url),
    capabilities: { durable: false, multiProcess: false },
    newLocation: () => "nowhere",
  },
);
