import { describe, it } from "vitest";
import { registerConformance } from "waymark/conformance";

// The suite asks for what the contract says, and for nothing else.
registerConformance(
  { describe, it },
  {
    name: "an adapter that is right in an unusual way",
    module: new URL("../fixtures/unusual-adapter.js", import.meta.url),
    capabilities: { durable: false, multiProcess: false },
    newLocation: () => "nowhere",
  },
);
