// @ts-check
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { note, program } from "./program.mjs";

const manager = new CheckpointManager({ storage: openStorage(process.env["RESUME_STORAGE"] ?? "") });
await manager.run("job", (run) => program((name, body) => run.step(name, body)));
note("done");
await manager.close();
