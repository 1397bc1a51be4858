// @ts-check
// Packs both packages, installs them in empty folders as a user would, imports and requires every export, and runs the
// command.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "..");
const { name, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const entries = Object.keys(exports)
  .filter((entry) => entry !== "./package.json")
  .map((entry) => join(name, entry));
const folder = mkdtempSync(join(tmpdir(), "waymark-packed-"));

/** @param {string} command @param {string[]} args */
const run = (command, args, cwd = folder) => execFileSync(command, args, { cwd, encoding: "utf8", shell: false });

try {
  const packed = pack([]);
  const command = pack(["--workspace", "waymark-cli"]);

  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  // Users of waymark/langgraph have this package through @langchain/langgraph.
  install([`./${packed}`, "@langchain/langgraph-checkpoint@1"]);

  for (const entry of entries) {
    run("node", [
      "--input-type=module",
      "-e",
      `import * as all from ${JSON.stringify(entry)}; if (!Object.keys(all).length) throw 1`,
    ]);
    run("node", ["--input-type=commonjs", "-e", `if (!Object.keys(require(${JSON.stringify(entry)})).length) throw 1`]);
    console.log(`imported and required ${entry}`);
  }

  // better-sqlite3 is an optional peer. It isn't installed, and an import of the adapter says what to install.
  const asked = run("node", [
    "--input-type=module",
    "-e",
    `import { CheckpointManager } from "waymark";
     import { SqliteAdapter } from "waymark/adapters/sqlite";
     const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: "checkpoints.db" }) });
     await manager.save("t", 1).catch((error) => console.log(error.message));`,
  ]);
  assert.match(asked, /npm install better-sqlite3/);
  const askedByBuilds = run("node", [
    "--input-type=module",
    "-e",
    `import { createBuildCheckpoints } from "waymark/builds";
     const builds = createBuildCheckpoints({ path: "builds.db" });
     try { builds.saveCheckpoint("b", { tasks: [], currentPhase: 1 }); } catch (error) { console.log(error.message); }`,
  ]);
  assert.match(askedByBuilds, /npm install better-sqlite3/);

  // The first checkpoint of a new user, in the order of the README.
  const saved = run("node", [
    "--input-type=module",
    "-e",
    `import { CheckpointManager } from "waymark";
     import { JsonFileAdapter } from "waymark/adapters/json-file";
     await using manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: "checkpoints" }) });
     await manager.save("build-42", { phase: 2 });
     console.log((await manager.latest("build-42")).state.phase);`.replace("await using", "const"),
  ]);
  assert.equal(saved.trim(), "2");

  // First beside the package, as in a project; then alone, with the package in place of npm's.
  const manifest = { private: true, overrides: { waymark: `file:../${packed}` } };
  install([`./${packed}`, `./${command}`]);
  look(folder);
  const alone = join(folder, "alone");
  mkdirSync(alone);
  writeFileSync(join(alone, "package.json"), JSON.stringify(manifest));
  install([`../${command}`], alone);
  look(alone);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** @param {readonly string[]} args @returns {string} the name of what was packed */
function pack(args) {
  const [{ filename, files }] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder, ...args], root));
  const paths = files.map((/** @type {{ path: string }} */ { path }) => path);
  const isExpected = (/** @type {string} */ path) =>
    /^((bin|dist)\/|(LICENSE|README\.md|CHANGELOG\.md|package\.json)$)/.test(path);
  assert.deepEqual(
    paths.filter((/** @type {string} */ path) => !isExpected(path)),
    [],
    `${filename} holds the build and its pages`,
  );
  assert.ok(paths.includes("LICENSE"), `${filename} holds the license`);
  return filename;
}

/** Without better-sqlite3, which takes minutes to compile. @param {readonly string[]} packages */
function install(packages, cwd = folder) {
  run("npm", ["install", "--no-audit", "--no-fund", "--omit=optional", ...packages], cwd);
}

/** Runs the command on the first program's checkpoints. @param {string} cwd */
function look(cwd) {
  const { version } = JSON.parse(readFileSync(join(root, "cli", "package.json"), "utf8"));
  assert.equal(run("npx", ["--no-install", "waymark", "--version"], cwd).trim(), version);
  const storage = `files:${join(folder, "checkpoints")}`;
  assert.match(run("npx", ["--no-install", "waymark", "tasks", "--storage", storage], cwd), /build-42/);
  console.log(`ran the command in ${cwd === folder ? "a project" : "a folder of its own"}`);
}
