// @ts-check
// Packs the package, installs it in an empty folder as a user would, and imports and requires every export there.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  const [packed] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder], root));
  const files = packed.files.map((/** @type {{ path: string }} */ { path }) => path);
  assert.deepEqual(
    files.filter(
      (/** @type {string} */ path) => !/^(dist\/|(LICENSE|README\.md|CHANGELOG\.md|package\.json)$)/.test(path),
    ),
    [],
    "only the build and the four pages are packed",
  );

  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  run("npm", ["install", "--no-audit", "--no-fund", `./${packed.filename}`]);

  for (const entry of entries) {
    run("node", [
      "--input-type=module",
      "-e",
      `import * as all from ${JSON.stringify(entry)}; if (!Object.keys(all).length) throw 1`,
    ]);
    run("node", ["--input-type=commonjs", "-e", `if (!Object.keys(require(${JSON.stringify(entry)})).length) throw 1`]);
    console.log(`imported and required ${entry}`);
  }

  // better-sqlite3 is an optional peer: it isn't there, and asking for it says what to install.
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
} finally {
  rmSync(folder, { recursive: true, force: true });
}
