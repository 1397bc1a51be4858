import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStorage } from "unstorage";
import fsDriver from "unstorage/drivers/fs";
import { CheckpointManager } from "waymark";
import { UnstorageAdapter } from "../unstorage-adapter.js";

// A migration of five tables that is interrupted after the third table and then continued. This program has its own
// folder because it is compiled with the types of unstorage's drivers.

const TABLES = ["users", "orders", "invoices", "payments", "refunds"];
const TASK = "migration-7";

const folder = await mkdtemp(join(tmpdir(), "waymark-unstorage-"));
try {
  await migrate({ tablesUntilInterrupted: 3 });
  await migrate({ tablesUntilInterrupted: Number.POSITIVE_INFINITY });
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** Does one run of the program, which learns of earlier runs only from the storage. */
async function migrate({ tablesUntilInterrupted }: { tablesUntilInterrupted: number }): Promise<void> {
  const storage = createStorage({ driver: fsDriver({ base: folder }) });
  const manager = new CheckpointManager({ storage: new UnstorageAdapter({ storage }) });

  const latest = await manager.latest(TASK);
  const migrated = new Map(isRowCounts(latest?.state) ? latest.state : []);
  console.log(latest ? `Continuing after "${latest.stage}" (${migrated.size} of ${TABLES.length})` : "Starting");

  const open = TABLES.filter((table) => !migrated.has(table));
  for (const table of open.slice(0, tablesUntilInterrupted)) {
    migrated.set(table, table.length * 1000);
    const { sequence } = await manager.save(TASK, migrated, { stage: table, label: `Rows of ${table} copied` });
    console.log(`Checkpoint ${sequence}: ${table}`);
  }
  if (migrated.size === TABLES.length) {
    await manager.complete(TASK);
    const checkpoints = await manager.list(TASK);
    console.log(`Completed, with ${checkpoints.length} checkpoints`);
  } else {
    console.log("Interrupted");
  }
  await manager.close();
  await storage.dispose();
}

function isRowCounts(state: unknown): state is Map<string, number> {
  return (
    state instanceof Map && [...state].every(([table, rows]) => typeof table === "string" && typeof rows === "number")
  );
}
