// Copies all rows, batch by batch. Kill it at any time, and start it again.
//
//   node dist/migrate.js [batch]     waits after the commit of this batch, so that you can kill it there
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import Database from "better-sqlite3";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { moveBatch } from "./batch.js";

const waitsIn = Number(process.argv[2]);
const folder = process.env["MIGRATION_FOLDER"] ?? ".";
const shop = new Database(join(folder, "shop.db"), { fileMustExist: true });
await using manager = new CheckpointManager({
  storage: new SqliteAdapter({ path: join(folder, "migration.db") }),
  retention: { keepLast: 3 },
});

const batches = await manager.run(
  "customers",
  async (run) => {
    const { afterId, batch } = run.state;
    const lastId = await run.step("move", async ({ key }) => {
      const moved = moveBatch(shop, afterId, key);
      if (moved !== undefined) console.log(`moved ${batch}`);
      if (batch === waitsIn) await delay(60_000);
      return moved;
    });
    return lastId === undefined ? batch - 1 : run.next({ afterId: lastId, batch: batch + 1 });
  },
  { initialState: { afterId: 0, batch: 1 }, pauseOnSignal: true },
);
shop.close();
console.log(`completed ${batches}`);
