// @ts-check
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

/** What importing the package adds to starting Node. */
export async function benchImporting() {
  const start = await medians(
    { node: () => runNode(""), waymark: () => runNode('import "waymark";') },
    { rounds: 20, warmup: 3 },
  );
  printHeading("Starting a process");
  const what = `importing waymark, on top of starting node (${start.node.toFixed(0)} ms)`;
  printRow({ what, measuredMs: start.waymark - start.node, limit: 40 });
}

/** @param {string} source */
function runNode(source) {
  const here = fileURLToPath(new URL("..", import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", source], { cwd: here });
  if (status !== 0) throw new Error(`node ended with ${status}: ${stderr}`);
}
