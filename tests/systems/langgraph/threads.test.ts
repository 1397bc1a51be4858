import { MemoryAdapter } from "waymark/adapters/memory";
import { WaymarkSaver } from "waymark/langgraph";
import { registerThreadOptions, registerThreads } from "./threads.js";

registerThreads(["sqlite"]);
registerThreadOptions(() => new WaymarkSaver({ storage: new MemoryAdapter() }));
