// @ts-check
// Runs CI (see .ci/run) in clones of the committed state, in a temporary folder.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { runSteps } from "./steps.mjs";

/**
 * The newest major version of Node with long-term support. It is updated manually, so that CI changes only with a
 * commit.
 */
const NEWEST_LTS_MAJOR = 26;

const root = join(import.meta.dirname, "..");
const work = mkdtempSync(join(tmpdir(), "waymark-ci-"));
const clone = join(work, "clone");
const ltsClone = join(work, "lts-clone");
// This npm package has Node's binary and also the headers that native modules are compiled with.
const ltsPackage = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
const lts = join(work, "lts", "node_modules", ltsPackage);
const ltsEnv = {
  ...process.env,
  PATH: `${join(lts, "bin")}${delimiter}${process.env["PATH"]}`,
  npm_config_nodedir: lts,
};

/** The tests that depend most on Node: files, locks, databases and processes. Only they run on the newest Node. */
const ON_NEWEST = ["tests/conformance", "tests/unit", "tests/runners/processes", "tests/package"];

const tools = toolsToInstall();
const readmeTests = {
  name: "the README's test command",
  command: readmeTestCommand(),
  cwd: clone,
  env: { ...process.env, WAYMARK_COVERAGE: "1" },
};
const newestNode = {
  name: `Node ${NEWEST_LTS_MAJOR}, installed`,
  command: [
    `npm install --no-save --no-audit --no-fund --prefix "${join(work, "lts")}" ${ltsPackage}@${NEWEST_LTS_MAJOR}`,
    "node --version",
    "npm ci",
  ].join(" && "),
  cwd: ltsClone,
  env: ltsEnv,
};
try {
  execFileSync("git", ["clone", "--quiet", root, clone]);
  execFileSync("git", ["clone", "--quiet", root, ltsClone]);
  await runSteps([
    // The tests need the tools, so they wait for a missing one. Each installation compiles better-sqlite3.
    ...(tools.length > 0 ? [[...tools, newestNode], readmeTests] : [[readmeTests, newestNode]]),
    [
      { name: "the README's main job", command: "npm start", cwd: clone },
      {
        name: `tests on Node ${NEWEST_LTS_MAJOR}`,
        command: `npm test -- ${ON_NEWEST.join(" ")}`,
        cwd: ltsClone,
        env: ltsEnv,
      },
    ],
    [
      {
        name: `crashes with the SQLite of Node ${NEWEST_LTS_MAJOR}: a tenth of the kills and power losses`,
        command:
          "node scripts/crash.mjs --tenth tests/crash/kills.test.ts tests/crash/power-loss.slow.test.ts -t sqlite",
        cwd: ltsClone,
        env: { ...ltsEnv, WAYMARK_CRASH_TENTH: "5", WAYMARK_SQLITE_DRIVER: "node:sqlite" },
      },
      { name: "the packages: publint, attw, installed elsewhere", command: "npm run package", cwd: clone },
    ],
    { name: "checks", command: "npm run check -- --after-tests", cwd: clone },
  ]);
} finally {
  rmSync(work, { recursive: true, force: true });
}

/**
 * Returns the step that installs the Debian packages that some tests need: strace for the crash tests, zsh and fish for
 * the completion tests, PostgreSQL and PgBouncer for the tests of a standby and a pooler, Redis for the test of its
 * adapter, Chromium with a font for the page and the site. If a package is missing, its tests are reported as skipped.
 */
function toolsToInstall() {
  const succeeds = (/** @type {string[]} */ ...[command = "", ...args]) =>
    spawnSync(command, args, { stdio: "ignore" }).status === 0;
  const tools = ["strace", "zsh", "fish", "postgresql", "pgbouncer", "redis-server", "chromium", "fonts-liberation"];
  const missing = tools.filter((tool) => !succeeds("dpkg", "-s", tool));
  if (process.platform !== "linux" || missing.length === 0 || !succeeds("apt-get", "--version")) return [];
  const apt = process.getuid?.() === 0 ? "apt-get" : "sudo -n apt-get";
  const install = `${apt} update; ${apt} install -y --no-install-recommends ${missing.join(" ")}`;
  return [{ name: "tools", command: `${install} || echo "Not installed: ${missing.join(", ")}"` }];
}

/** Returns the README's second command, which runs the tests. */
function readmeTestCommand() {
  const commands = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/^(npm ci && npm \w+)/gm)].map(
    ([line]) => line,
  );
  const command = commands.find((line) => line.endsWith("test"));
  if (command === undefined) throw new Error("The README names no test command of the form `npm ci && npm test`.");
  return command;
}
