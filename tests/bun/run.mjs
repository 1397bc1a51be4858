// @ts-check
// Runs the conformance suite with Bun's SQLite on a copy of the build: `node tests/bun/run.mjs`, after `npm run
// bundle`.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "waymark-bun-"));
const platform = process.platform === "win32" ? "windows" : process.platform;
const bun = `@oven/bun-${platform}-${process.arch === "arm64" ? "aarch64" : process.arch}`;
try {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  execFileSync("npm", ["install", "--no-save", "--no-audit", "--no-fund", bun], { cwd: folder, stdio: "inherit" });
  // The tests run in a new folder: in the repository, Bun would find the sources by tsconfig.json.
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "waymark"));
  for (const part of ["dist", "package.json"])
    cpSync(join(root, part), join(modules, "waymark", part), { recursive: true });
  for (const name of dependenciesOf("waymark")) symlinkSync(join(root, "node_modules", name), join(modules, name));
  for (const file of ["tests/bun/conformance.test.mjs", "tests/bun/bun-sqlite.mjs"]) {
    cpSync(join(root, file), join(folder, file), { recursive: true });
  }
  const damage = "tests/conformance/stores/damaged-rows.js";
  cpSync(join(root, damage), join(folder, damage), { recursive: true });
  execFileSync(join(modules, bun, "bin", "bun"), ["test", "./tests/bun/conformance.test.mjs"], {
    cwd: folder,
    stdio: "inherit",
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Returns the names of a package's dependencies, including indirect ones. @param {string} name @returns {Set<string>}
 */
function dependenciesOf(name, found = new Set()) {
  const manifest = name === "waymark" ? join(root, "package.json") : join(root, "node_modules", name, "package.json");
  for (const dependency of Object.keys(JSON.parse(readFileSync(manifest, "utf8")).dependencies ?? {})) {
    if (found.has(dependency)) continue;
    found.add(dependency);
    dependenciesOf(dependency, found);
  }
  return found;
}
