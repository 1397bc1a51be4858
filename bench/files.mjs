// @ts-check
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readdirSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";
import { agentState } from "./state.mjs";

const TASKS = 10;
const LONG = 20_000;

/**
 * Measures saves to JSON files against the minimum that makes a file durable: write, fsync, rename, fsync of the
 * folder. Both sides have the same number of folders, which grow equally. The code is warm, as in a program that runs
 * for hours.
 *
 * @param {string} folder
 */
export async function benchFiles(folder) {
  const bareFolders = Array.from({ length: TASKS }, (_, task) => join(folder, "bare-files", `task-${task}`));
  for (const bareFolder of bareFolders) mkdirSync(bareFolder, { recursive: true });
  const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: join(folder, "json-files") }) });
  const state = agentState(0);
  const bytes = Buffer.from(JSON.stringify(state));
  let [number, turn] = [0, 0];

  const save = await medians(
    {
      bare: () => writeDurably(bareFolders[++number % TASKS] ?? folder, `${number}.json`, bytes),
      ours: () => manager.save(`P1.M3.T2.S${++turn % TASKS}`, state, { stage: "validation-gate-2" }),
    },
    { rounds: 600, warmup: 400 },
  );
  printHeading("JSON files, states of 9 KB");
  const what = "save: to a bare write, fsync, rename, fsync of the folder";
  printRow({ what, measuredMs: save.ours, againstMs: save.bare, limit: 1.5 });
  await manager.close();
  await benchLongTask(join(folder, "long-task"), state);
}

/**
 * Measures a task's 20,000th save and the `latest` after it, against the task's first save.
 *
 * @param {string} folder
 * @param {object} state
 */
async function benchLongTask(folder, state) {
  const storage = new JsonFileAdapter({ path: folder });
  const manager = new CheckpointManager({ storage });
  const { id } = await manager.save("long", state);
  const stored = await storage.get("long", id);
  if (stored === undefined || "corrupt" in stored) throw new Error("A saved checkpoint is missing.");
  await storage.append({ ...stored, id: "newest" }, undefined, { sequence: LONG - 1 });
  // The older checkpoints are never opened; only their names matter.
  const [first = ""] = readdirSync(join(folder, "long")).filter((name) => name.endsWith(".json"));
  for (let sequence = 2; sequence < LONG - 1; sequence++) {
    linkSync(
      join(folder, "long", first),
      join(folder, "long", `${String(sequence).padStart(12, "0")}-x${sequence}.json`),
    );
  }
  await manager.save("long", state);
  await manager.save("short", state);

  let turn = 0;
  const save = await medians(
    { first: () => manager.save(`short-${++turn % 50}`, state), last: () => manager.save("long", state) },
    { rounds: 300 },
  );
  const latest = await medians(
    { first: () => manager.latest("short"), last: () => manager.latest("long") },
    { rounds: 600 },
  );
  const count = LONG.toLocaleString("en");
  printRow({
    what: `save: the ${count}th of a task, to the first`,
    measuredMs: save.last,
    againstMs: save.first,
    limit: 2,
  });
  printRow({ what: `latest: of ${count}, to of one`, measuredMs: latest.last, againstMs: latest.first, limit: 2 });
  await manager.close();
}

/**
 * @param {string} folder
 * @param {string} name
 * @param {Uint8Array} bytes
 */
export function writeDurably(folder, name, bytes) {
  const temporary = join(folder, `.${name}.tmp`);
  const file = openSync(temporary, "wx", 0o600);
  writeSync(file, bytes);
  fsyncSync(file);
  closeSync(file);
  renameSync(temporary, join(folder, name));
  const directory = openSync(folder, "r");
  fsyncSync(directory);
  closeSync(directory);
}
