// @ts-check
// With this durability, a power cut may lose the last steps, as with LangGraph's SqliteSaver.
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { note, program } from "./program.mjs";

const storage = new SqliteAdapter({ path: process.env["RESUME_STORAGE"] ?? "", durability: "normal" });
const manager = new CheckpointManager({ storage });
await manager.run("job", (run) => program((name, body) => run.step(name, body)));
note("done");
await manager.close();
