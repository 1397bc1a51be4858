// @ts-check
import { hash } from "node:crypto";
import { join } from "node:path";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";
import { agentState } from "./state.mjs";

const TASKS = 1000;
/** Warm-up rounds, in which V8 compiles the hot code. */
const WARMUP = 2000;

/**
 * Measures each adapter against its time limits for a save and for finding the incomplete ones among 1,000 tasks.
 *
 * @param {string} folder
 */
export async function benchAdapters(folder) {
  const managers = {
    memory: new CheckpointManager({ storage: new MemoryAdapter() }),
    "json-file": new CheckpointManager({ storage: new JsonFileAdapter({ path: join(folder, "all-json-files") }) }),
    "task-file": new CheckpointManager({ storage: new TaskFileAdapter({ path: join(folder, "all-task-files") }) }),
    sqlite: new CheckpointManager({ storage: new SqliteAdapter({ path: join(folder, "all.db") }) }),
  };

  const state = agentState(0);
  const save = await medians(
    contestants(managers, (manager) => manager.save("P1.M3.T2.S4", state, { stage: "validation-gate-2" })),
    { rounds: 40 },
  );
  printHeading("Every adapter");
  for (const [name, measuredMs] of Object.entries(save))
    printRow({ what: `save a state of 9 KB: ${name}`, measuredMs, limit: 50 });
  await benchMemory(state);

  for (const manager of Object.values(managers)) await fill(manager);
  const find = await medians(
    contestants(managers, (manager) => manager.findIncomplete()),
    { rounds: 20 },
  );
  for (const [name, measuredMs] of Object.entries(find)) {
    printRow({ what: `findIncomplete among ${TASKS.toLocaleString("en")} tasks: ${name}`, measuredMs, limit: 60 });
  }
  for (const manager of Object.values(managers)) await manager.close();
}

/**
 * Measures the cost of a save without a disk: a save to the memory adapter, against JSON.stringify and SHA-256.
 *
 * @param {unknown} state
 */
async function benchMemory(state) {
  const manager = new CheckpointManager({ storage: new MemoryAdapter() });
  let turn = 0;
  const save = await medians(
    {
      bare: () => hash("sha256", JSON.stringify(state)),
      memory: () => manager.save(`P1.T${turn++ % TASKS}`, state, { stage: "validation-gate-2" }),
    },
    { rounds: 2 * WARMUP, warmup: WARMUP },
  );
  printRow({
    what: "save: memory, to JSON.stringify and SHA-256",
    measuredMs: save.memory,
    againstMs: save.bare,
    limit: 2,
  });
  await manager.close();
}

/**
 * Saves tasks. One task in three is completed.
 *
 * @param {CheckpointManager} manager
 */
async function fill(manager) {
  for (let start = 0; start < TASKS; start += 50) {
    const batch = Array.from({ length: 50 }, (_, index) => start + index);
    await Promise.all(
      batch.map((task) =>
        manager.save(`P${task % 7}.T${task}`, agentState(task), { status: task % 3 === 0 ? "completed" : "running" }),
      ),
    );
  }
}

/**
 * @template {string} Name
 * @param {Record<Name, CheckpointManager>} managers
 * @param {(manager: CheckpointManager) => unknown} call
 */
function contestants(managers, call) {
  const entries = /** @type {[Name, CheckpointManager][]} */ (Object.entries(managers));
  return /** @type {Record<Name, () => unknown>} */ (
    Object.fromEntries(entries.map(([name, manager]) => [name, () => call(manager)]))
  );
}
