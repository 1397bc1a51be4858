// @ts-check
// Counts the files and functions of Waymark that a save and a step of a run pass through on their way to SQLite:
// `node bench/path.mjs`; `--names` lists them. V8 counts the calls once everything is warm. The sources are compiled
// file by file, because the build bundles them.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const WARM_UP = 50;
const root = fileURLToPath(new URL("..", import.meta.url));
const cache = join(root, "node_modules", ".cache");
mkdirSync(cache, { recursive: true });
const folder = mkdtempSync(join(cache, "waymark-path-"));
try {
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const options = ["--outDir", folder, "--emitDeclarationOnly", "false", "--declaration", "false"];
  execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.build.json"), ...options], { stdio: "inherit" });
  await measure();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure() {
  const load = (/** @type {string} */ file) => import(pathToFileURL(join(folder, file)).href);
  const { CheckpointManager } = await load("src/index.js");
  const { SqliteAdapter } = await load("adapters/sqlite/sqlite.js");
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: join(folder, "path.db") }) });
  const save = (/** @type {number} */ n) => manager.save("saves", { n }, { stage: "s" });
  for (let n = 0; n < WARM_UP; n++) await save(n);
  report("save", await called(session, () => save(WARM_UP)));

  await manager.run("steps", async (/** @type {{ step: Function }} */ run) => {
    const step = (/** @type {number} */ n) => run.step(`s${n}`, () => ({ n }));
    for (let n = 0; n < WARM_UP; n++) await step(n);
    report("step", await called(session, () => step(WARM_UP)));
  });
  session.disconnect();
  await manager.close();
}

/**
 * Returns the functions that are called during `work`, by file.
 *
 * @param {Session} session
 * @param {() => Promise<unknown>} work
 * @returns {Promise<Map<string, string[]>>}
 */
async function called(session, work) {
  await session.post("Profiler.takePreciseCoverage");
  await work();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  /** @type {Map<string, string[]>} */
  const byFile = new Map();
  for (const { url, functions } of result) {
    if (!url.startsWith(pathToFileURL(folder).href)) continue;
    const names = functions
      .filter(({ ranges: [range] }) => (range?.count ?? 0) > 0)
      .map(({ functionName }) => functionName);
    if (names.length > 0) byFile.set(relative(folder, fileURLToPath(url)), names);
  }
  return byFile;
}

/**
 * @param {string} what
 * @param {Map<string, string[]>} byFile
 */
function report(what, byFile) {
  const functions = [...byFile.values()].flat().length;
  console.log(`one ${what}, to SQLite: ${byFile.size} files, ${functions} functions`);
  if (!process.argv.includes("--names")) return;
  for (const [file, names] of byFile)
    console.log(`  ${file}: ${names.map((name) => name || "(anonymous)").join(", ")}`);
}
