// @ts-check
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";
import { agentState } from "./state.mjs";

const TASKS = 10;

/**
 * Saving a JSON file against the least that makes a file durable: write, fsync, rename, fsync of the folder. Each side
 * has as many folders, which grow alike. Warm, as in a program that runs for hours.
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
  printRow({ what, measuredMs: save.ours, againstMs: save.bare, limit: 1.3 });
  await manager.close();
}

/**
 * @param {string} folder
 * @param {string} name
 * @param {Uint8Array} bytes
 */
function writeDurably(folder, name, bytes) {
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
