import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";

// Tests that the suite requires only what the contract requires.
registerConformance(
  { describe, it },
  {
    name: "a correct but unusual adapter",
    module: new URL("../fixtures/unusual-adapter.js", import.meta.url),
    capabilities: { durable: false, multiProcess: false },
    newLocation: () => "nowhere",
  },
);
