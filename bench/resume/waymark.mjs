// @ts-check
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { note, program } from "./program.mjs";

const { RESUME_PLACE = "", RESUME_DURABILITY } = process.env;
const storage =
  RESUME_DURABILITY === "normal"
    ? new SqliteAdapter({ path: RESUME_PLACE, durability: "normal" })
    : openStorage(RESUME_PLACE);
const manager = new CheckpointManager({ storage });
await manager.run("job", (run) => program((name, body) => run.step(name, body)));
note("done");
await manager.close();
