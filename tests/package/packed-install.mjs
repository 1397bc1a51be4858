// @ts-check
// Packs the three packages as they are published, checks the tarballs, and installs them in empty folders as users would: one
// for each kind of project.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { build } from "esbuild";

const root = join(import.meta.dirname, "..", "..");
const folder = mkdtempSync(join(tmpdir(), "waymark-packed-"));
/** Entries whose errors show `npm install …` if the package that they need is missing. */
const NEEDS = new Map([
  ["waymark/oneshot", "zod"],
  ["waymark/phase-checkpoints", "zod"],
  ["waymark/prp", "zod"],
  ["waymark/opentelemetry", "@opentelemetry/api"],
]);
/** A clone's remote with a password. Neither may be published. */
const ORIGIN = "https://somebody:password@git.example/owner/waymark.git";
const MOST_PACKAGES = 8;
const MOST_BYTES = 2_000_000;

/** Programs that use the SDK and the runners, in the form of each kind of project. */
const IMPORTS = `
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { runCommand } from "waymark-runners/processes";`;
const REQUIRES = `
const { CheckpointManager } = require("waymark");
const { JsonFileAdapter } = require("waymark/adapters/json-file");
const { runCommand } = require("waymark-runners/processes");`;
const MAIN = `
async function main() {
  const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: "checkpoints" }) });
  await manager.save("build-42", { phase: 2 });
  const latest = await manager.latest("build-42");
  await manager.close();
  const { stdout } = await runCommand({ command: "echo ran" });
  console.log(JSON.stringify(latest?.state), stdout.trim());
}
void main();
`;
const SAID = '{"phase":2} ran';

try {
  const tarballs = { sdk: pack(".", ""), runners: pack("runners", ORIGIN), command: pack("cli", ORIGIN) };
  for (const tarball of Object.values(tarballs)) {
    run("npx", ["publint", "--strict", join(folder, tarball)], root);
    if (tarball !== tarballs.command) run("npx", ["attw", join(folder, tarball), "--profile", "esm-only"], root);
  }
  console.log("publint and attw find nothing");

  sdkAlone(tarballs.sdk);
  everyEntry([tarballs.sdk, tarballs.runners]);
  for (const kind of ["module", "commonjs"]) javaScript(kind, [tarballs.sdk, tarballs.runners]);
  typeScript("nodenext", [tarballs.sdk, tarballs.runners]);
  typeScript("bundler", [tarballs.sdk, tarballs.runners]);
  await bundle([tarballs.sdk, tarballs.runners]);
  command(tarballs);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Installs the SDK like a new user, and tries it without zod and without a database driver. @param {string} sdk */
function sdkAlone(sdk) {
  const project = makeProject("alone", { type: "module" }, [sdk]);
  const modules = join(project, "node_modules");
  const packages = packagesIn(modules);
  const bytes = bytesIn(modules);
  console.log(
    `npm install waymark: ${packages.length} packages, ${(bytes / 1e6).toFixed(2)} MB: ${packages.join(" ")}`,
  );
  assert.ok(packages.length <= MOST_PACKAGES, `${packages.length} packages are more than ${MOST_PACKAGES}`);
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes are more than ${MOST_BYTES}`);
  assert.ok(!existsSync(join(modules, "zod")));

  for (const entry of entriesOf("waymark").filter((entry) => !NEEDS.has(entry) && entry !== "waymark/langgraph")) {
    importAndRequire(entry, project);
  }
  for (const [entry, needed] of NEEDS) {
    const said = failing("node", ["-e", `require("${entry}")`], project);
    assert.ok(said.includes(`npm install ${needed}`), said);
  }

  // The first program also runs without better-sqlite3.
  const asked = module(
    project,
    `
    import { CheckpointManager } from "waymark";
    import { SqliteAdapter } from "waymark/adapters/sqlite";
    import { createBuildCheckpoints } from "waymark/builds";
    const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: "checkpoints.db" }) });
    await manager.save("t", 1).catch((error) => console.log(error.message));
    const builds = createBuildCheckpoints({ path: "builds.db" });
    try { builds.saveCheckpoint("b", { tasks: [], currentPhase: 1 }); } catch (error) { console.log(error.message); }`,
  );
  assert.equal(asked.match(/npm install better-sqlite3/g)?.length, 2);

  // better-sqlite3 is compiled only once, for the repository.
  symlinkSync(join(root, "node_modules/better-sqlite3"), join(modules, "better-sqlite3"));
  const saved = module(
    project,
    `
    import { CheckpointManager } from "waymark";
    import { openStorage } from "waymark/adapters";
    import { createBuildCheckpoints } from "waymark/builds";
    for (const url of ["files:files", "tasks:tasks", "sqlite:checkpoints.db"]) {
      const storage = openStorage(url);
      const manager = new CheckpointManager({ storage });
      await manager.save("build-42", { phase: 2 });
      console.log(storage.name, (await manager.latest("build-42")).state.phase);
      await manager.close();
    }
    const builds = createBuildCheckpoints({ path: "builds.db" });
    builds.saveCheckpoint("b", { tasks: [1], currentPhase: 1 });
    console.log("builds", builds.getLatestCheckpoint("b").tasks[0]);
    builds.close();`,
  );
  assert.equal(saved.trim(), "json-file 2\ntask-file 2\nsqlite 2\nbuilds 1");

  writeFileSync(
    join(project, "store.js"),
    `
    import { MemoryAdapter } from "waymark/adapters/memory";
    export const open = () => new MemoryAdapter();`,
  );
  writeFileSync(
    join(project, "conformance.js"),
    `
    import { describe, it } from "node:test";
    import { registerConformance } from "waymark/conformance";
    registerConformance({ describe, it }, {
      name: "memory", module: new URL("./store.js", import.meta.url), newLocation: () => String(Math.random()),
      capabilities: { durable: false, multiProcess: false }, offers: ["replacePayload", "removePrefix", "leases", "log", "queue"],
    });`,
  );
  run("node", ["--test", "conformance.js"], project);
  console.log("storages, builds and conformance run without zod");

  assert.match(failing("npx", ["--no-install", "waymark", "tasks"], project), /npm install waymark-cli/);
}

/** @param {readonly string[]} tarballs */
function everyEntry(tarballs) {
  // Users of waymark/langgraph get the first package with @langchain/langgraph; users of waymark/opentelemetry have the
  // second.
  const peers = ["@langchain/langgraph-checkpoint@1", "@opentelemetry/api@1"];
  const project = makeProject("entries", { type: "module" }, [...tarballs, ...peers]);
  for (const name of ["waymark", "waymark-runners"])
    for (const entry of entriesOf(name)) importAndRequire(entry, project);
}

/** @param {string} type @param {readonly string[]} tarballs */
function javaScript(type, tarballs) {
  const project = makeProject(type, { type }, tarballs);
  writeFileSync(join(project, "main.js"), `${type === "module" ? IMPORTS : REQUIRES}\n${MAIN}`);
  assert.equal(run("node", ["main.js"], project).trim(), SAID);
  console.log(`ran a program of "type": "${type}"`);
}

/** @param {"nodenext" | "bundler"} resolution @param {readonly string[]} tarballs */
function typeScript(resolution, tarballs) {
  const project = makeProject(resolution, { type: "module" }, tarballs);
  const compilerOptions = {
    target: "ES2023",
    lib: ["ES2023", "ESNext.Disposable"],
    module: resolution === "nodenext" ? "nodenext" : "esnext",
    moduleResolution: resolution,
    strict: true,
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
    outDir: "built",
  };
  const uses = `${IMPORTS}
import { PrpCheckpointManager } from "waymark/prp";
import { PrpExecutor } from "waymark-runners/prp";
import { runOneshot } from "waymark-runners/oneshot";
export const uses = [PrpCheckpointManager, PrpExecutor, runOneshot];
// @ts-expect-error It isn't a number.
export const wrong: number = new CheckpointManager({ storage: new JsonFileAdapter({ path: "x" }) });
`;
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts", "uses.ts"] }));
  writeFileSync(join(project, "main.ts"), `${IMPORTS}\n${MAIN}`);
  writeFileSync(join(project, "uses.ts"), uses);
  run(join(root, "node_modules/.bin/tsc"), ["-p", "."], project);
  if (resolution === "nodenext") assert.equal(run("node", ["built/main.js"], project).trim(), SAID);
  console.log(`compiled a program with "moduleResolution": "${resolution}"`);
}

/** @param {readonly string[]} tarballs */
async function bundle(tarballs) {
  const project = makeProject("bundle", { type: "module" }, tarballs);
  const external = ["better-sqlite3", "pg"];
  writeFileSync(join(project, "main.js"), `${IMPORTS}\n${MAIN}`);
  for (const [format, name] of /** @type {const} */ ([
    ["esm", "main.mjs"],
    ["cjs", "main.cjs"],
  ])) {
    // The bundle runs alone, so everything that it doesn't contain is missing.
    const place = join(folder, `bundled-${format}`);
    await build({
      entryPoints: [join(project, "main.js")],
      outfile: join(place, name),
      bundle: true,
      platform: "node",
      target: "node20",
      logLevel: "error",
      // Leaving it empty is how esbuild writes CommonJS, and Waymark expects that.
      logOverride: { "empty-import-meta": "silent" },
      format,
      external,
    });
    assert.equal(run("node", [name], place).trim(), SAID);
    console.log(`ran a bundle of esbuild in ${format}`);
  }
}

/** @param {{ readonly sdk: string, readonly runners: string, readonly command: string }} tarballs */
function command({ sdk, runners, command }) {
  const project = makeProject("command", { type: "module" }, [sdk, runners, command]);
  look(project, ["npx", "--no-install", "waymark"]);
  // npm may link either package's file as the command.
  look(project, ["node", "node_modules/waymark/bin/waymark.js"]);

  // The command loads the modules of other commands only when these are called.
  for (const name of ["zod", "yaml", "markdown-it", "unbash"]) {
    rmSync(join(project, "node_modules", name), { recursive: true });
  }
  look(project, ["npx", "--no-install", "waymark"]);

  // Only this package is installed; npm takes the others from where they would be published.
  const overrides = { waymark: `file:../${sdk}`, "waymark-runners": `file:../${runners}` };
  look(makeProject("command-alone", { overrides }, [command]), ["npx", "--no-install", "waymark"]);
}

/** Runs the command on the first program's checkpoints. @param {string} cwd @param {readonly string[]} command */
function look(cwd, [program = "", ...args]) {
  const { version } = manifestOf("cli");
  assert.equal(run(program, [...args, "--version"], cwd).trim(), version);
  const tasks = run(program, [...args, "tasks", "--storage", `files:${join(folder, "alone/files")}`], cwd);
  assert.match(tasks, /build-42/);
  console.log(`ran ${[program, ...args].join(" ")} in ${cwd.slice(folder.length + 1)}`);
}

/** @param {string} path @param {string} origin - The clone's remote. @returns {string} the name of the packed file */
function pack(path, origin) {
  const env = {
    ...process.env,
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "remote.origin.url",
    GIT_CONFIG_VALUE_0: origin,
  };
  const answer = run("npm", ["pack", "--json", "--pack-destination", folder], join(root, path), env);
  const [{ filename, files }] = JSON.parse(answer);
  /** @type {string[]} */
  const paths = files.map((/** @type {{ path: string }} */ { path }) => path);
  const isExpected = (/** @type {string} */ name) =>
    /^(bin\/.*\.js|dist\/.*\.(js|d\.ts)|dist\/page\/.*\.(css|html)|LICENSE|README\.md|CHANGELOG\.md|package\.json)$/.test(
      name,
    );
  assert.deepEqual(
    paths.filter((name) => !isExpected(name)),
    [],
    `${filename} holds the build and its pages`,
  );
  for (const name of ["LICENSE", "README.md"]) assert.ok(paths.includes(name), `${filename} holds ${name}`);
  assert.ok(
    paths.some((name) => name.startsWith("dist/")),
    `${filename} holds the build`,
  );
  const [readme, manifest] = ["README.md", "package.json"].map((name) =>
    run("tar", ["-xOzf", join(folder, filename), `package/${name}`]),
  );
  assert.doesNotMatch(readme ?? "", /\]\((?!https:|#)/, `${filename}'s README has no link that npm can't follow`);
  if (origin !== "") {
    const { repository, homepage, bugs } = JSON.parse(manifest ?? "");
    const page = "https://git.example/owner/waymark";
    assert.deepEqual(repository, { type: "git", url: `git+${page}.git`, directory: path });
    assert.deepEqual([homepage, bugs], [`${page}#readme`, `${page}/issues`]);
    assert.ok(
      readme?.includes(`](${page}/blob/HEAD/docs/systems.md`),
      `${filename}'s README leads to the repository's pages`,
    );
  }
  assert.doesNotMatch(manifest ?? "", /"file:/, `${filename} asks for published versions`);
  assert.ok(!existsSync(join(root, path, ".packing")), "the repository's own files are back");
  console.log(`packed ${filename}`);
  return filename;
}

/**
 * Makes an empty project and installs packages in it. @param {string} name @param {object} manifest @param {readonly
 * string[]} packages
 */
function makeProject(name, manifest, packages) {
  const project = join(folder, name);
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, ...manifest }));
  const named = packages.map((wanted) => (wanted.endsWith(".tgz") ? `../${wanted}` : wanted));
  // Skips better-sqlite3, which takes minutes to compile.
  run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", "--omit=optional", ...named], project);
  return project;
}

/** @param {string} entry @param {string} cwd */
function importAndRequire(entry, cwd) {
  const name = JSON.stringify(entry);
  module(cwd, `import * as all from ${name}; if (!Object.keys(all).length) throw 1`);
  run("node", ["--input-type=commonjs", "-e", `if (!Object.keys(require(${name})).length) throw 1`], cwd);
  console.log(`imported and required ${entry}`);
}

/** @param {string} cwd @param {string} program */
function module(cwd, program) {
  return run("node", ["--input-type=module", "-e", program], cwd);
}

/** @param {string} program @param {string[]} args @returns {string} */
function run(program, args, cwd = folder, env = process.env) {
  return execFileSync(program, args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

/** Returns the output of a program that fails. @param {string} program @param {string[]} args @param {string} cwd */
function failing(program, args, cwd) {
  const { status, stderr } = spawnSync(program, args, { cwd, encoding: "utf8" });
  assert.equal(status, 1, `${program} ${args.join(" ")} fails`);
  return stderr;
}

/** @param {string} name */
function entriesOf(name) {
  const { exports } = manifestOf(name === "waymark" ? "." : name.replace("waymark-", ""));
  return Object.keys(exports)
    .filter((entry) => entry !== "./package.json")
    .map((entry) => join(name, entry));
}

/** @param {string} path */
function manifestOf(path) {
  return JSON.parse(readFileSync(join(root, path, "package.json"), "utf8"));
}

/** @param {string} modules */
function packagesIn(modules) {
  return readdirSync(modules, { recursive: true, encoding: "utf8" })
    .filter((path) => /(^|node_modules\/)(@[^/]+\/)?[^/@.][^/]*\/package\.json$/.test(path))
    .map((path) => dirname(path));
}

/** Returns the size of a folder's files on a disk with blocks of 4 KiB. @param {string} path */
function bytesIn(path) {
  return readdirSync(path, { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(path, name)))
    .reduce((sum, stats) => sum + (stats.isFile() ? Math.ceil(stats.size / 4096) * 4096 : 0), 0);
}
