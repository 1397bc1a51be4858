// @ts-check
// As with LangGraph's SqliteSaver, a power loss may take the last steps.
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { note, program } from "./program.mjs";

const storage = new SqliteAdapter({ path: process.env["RESUME_STORAGE"] ?? "", durability: "normal" });
const manager = new CheckpointManager({ storage });
await manager.run("job", (run) => program((name, body) => run.step(name, body)));
note("done");
await manager.close();
