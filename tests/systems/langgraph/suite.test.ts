import { MemoryAdapter } from "waymark/adapters/memory";
import { inFolder, registerSuite } from "./suite.js";

registerSuite("memory", async () => ({ storage: new MemoryAdapter() }));
registerSuite("sqlite", () => inFolder((folder) => `sqlite:${folder}/agent.db`));
