// @ts-check
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const COMMAND = join(root, "cli", "bin", "waymark.js");

/**
 * Measures the time that importing the package adds to starting Node, and the time that the command takes.
 *
 * @param {string} folder
 */
export async function benchImporting(folder) {
  const storage = openStorage("files:starting", { relativeTo: folder });
  const manager = new CheckpointManager({ storage });
  for (let n = 0; n < 20; n++) await manager.save("build-42", { n }, { label: `After step ${n}` });
  await manager.close();
  const named = ["--storage", `files:${join(folder, "starting")}`];
  const start = await medians(
    {
      node: () => runNode(["--input-type=module", "--eval", ""]),
      waymark: () => runNode(["--input-type=module", "--eval", 'import "waymark";']),
      version: () => runNode([COMMAND, "--version"]),
      tab: () => runNode([COMMAND, "__complete", "--", ...named, "list", "b"]),
      list: () => runNode([COMMAND, ...named, "list", "build-42"]),
    },
    { rounds: 20, warmup: 3 },
  );
  printHeading(`Starting a process, on top of starting node (${start.node.toFixed(0)} ms)`);
  printRow({ what: "importing waymark", measuredMs: start.waymark - start.node, limit: 40 });
  printRow({ what: "waymark --version", measuredMs: start.version - start.node, limit: 60 });
  printRow({ what: "Tab: a task's id is completed", measuredMs: start.tab - start.node, limit: 60 });
  printRow({ what: "waymark list of 20 checkpoints", measuredMs: start.list - start.node, limit: 120 });
}

/**
 * @param {readonly string[]} args
 * @param {string} [cwd] - The folder where Node looks up imports.
 */
export function runNode(args, cwd = root) {
  // If the variable is set, Node reads these certificates at each start, though nothing here needs them.
  const { NODE_EXTRA_CA_CERTS: _certificates, ...env } = process.env;
  const { status, stderr } = spawnSync(process.execPath, args, { cwd, env });
  if (status !== 0) throw new Error(`node ended with ${status}: ${stderr}`);
}
