// @ts-check
// Runs the full check: `npm run check`. The longest parts take turns from one check to the next. `-- --after-tests`
// skips the build, the quick tests and the packages, which CI has already done.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { memoryDisk } from "../tests/support/memory-disk.mjs";
import { runSteps } from "./steps.mjs";

const disk = memoryDisk();
if (disk !== undefined) process.env["TMPDIR"] ??= disk;
// Each check tries all kills, but only a random tenth of the faults, power cuts, damaged bytes and broken adapters.
process.env["WAYMARK_CRASH_TENTH"] ??= String(Math.floor(Math.random() * 10));
// Each check chooses a new seed, which all of its random tests use.
process.env["WAYMARK_SEED"] ??= String(Math.floor(Math.random() * 2 ** 31));
console.log(`WAYMARK_SEED=${process.env["WAYMARK_SEED"]} WAYMARK_CRASH_TENTH=${process.env["WAYMARK_CRASH_TENTH"]}`);

// Slow tests with kills or stopped processes always run. Of the remaining slow files, each check runs another twentieth.
// `WAYMARK_TESTS=slow npx vitest run` runs all of them.
const TURNS = 20;
/** This test takes minutes, so it runs in parallel with steps that compute. */
const PROGRAMS = "tests/programs/in-processes.slow.test.ts";
const turn = Number(process.env["WAYMARK_SEED"]) % TURNS;
const slowFiles = listFiles("tests/**/*.slow.test.ts").filter((path) => !isCrashTest(path) && path !== PROGRAMS);
const TRIED = slowFiles.filter((path, at) => /kills|stops/.test(path) || at % TURNS === turn);

const isAfterTests = process.argv.includes("--after-tests");
const buildAndQuickTests = [
  { name: "build", command: "npm run build" },
  {
    name: "quick tests, with coverage",
    command: "npx vitest run",
    env: { ...process.env, WAYMARK_COVERAGE: "1" },
  },
];

// Steps that compute run in parallel with tests that wait for processes and disks, so that no processor is idle.
await runSteps([
  ...(isAfterTests ? [] : buildAndQuickTests),
  [
    {
      name: "slow tests except the crash tests: every kill, and a twentieth of the others",
      command: `npx vitest run ${TRIED.join(" ")}`,
      env: { ...process.env, WAYMARK_TESTS: "slow" },
    },
    { name: "the site and its API pages: links, and axe in Chromium", command: "node site/check.mjs" },
  ],
  [
    {
      name: "crashes: every kill, and a tenth of the faults and power losses",
      command: "node scripts/crash.mjs tests/crash",
    },
    { name: "types", command: "npm run types" },
  ],
  [
    {
      name: "chaos: 90 seconds of killed, stopped and cut off workers",
      command: "node scripts/chaos.mjs --seconds=90",
    },
    {
      name: "random programs in killed processes: three minutes on each storage",
      command: `npx vitest run ${PROGRAMS}`,
      env: { ...process.env, WAYMARK_TESTS: "slow", WAYMARK_PROGRAM_SECONDS: "180" },
    },
    { name: "format and lint", command: "npm run lint" },
    { name: "unused code and dependencies", command: "npm run unused" },
  ],
  [
    { name: "half a minute of fuzzing", command: "node tests/fuzz/run.mjs --seconds 30" },
    {
      name: "random tests with all their cases",
      command: `npx vitest run ${listFiles("tests/**/*.test.ts").filter(countsCases).join(" ")}`,
      env: { ...process.env, WAYMARK_TESTS: "full" },
    },
    {
      name: "histories at random, 25 runs",
      command: "npx vitest run tests/unit/adapters/sqlite/histories.test.ts -t random",
      env: { ...process.env, WAYMARK_RUNS: "25" },
    },
    { name: "memory of the command over 20,000 checkpoints", command: "node scripts/cli-memory.mjs" },
    { name: "soak, a fiftieth of it", command: "node --expose-gc scripts/soak.mjs --scale=0.02" },
    { name: "the example of a custom adapter", command: "npm run examples -w waymark-example-custom-adapter" },
    { name: "the example of an adapter for Redis", command: "npm run examples -w waymark-example-redis-adapter" },
  ],
  { name: "Bun: the conformance suite with its SQLite", command: "node tests/bun/run.mjs" },
  // This step runs alone, because it builds again and the other steps load the build.
  ...(isAfterTests ? [] : [{ name: "the packages: publint, attw, installed elsewhere", command: "npm run package" }]),
]);

/** Whether scripts/crash.mjs runs this test. @param {string} path */
function isCrashTest(path) {
  return path.startsWith("tests/crash/");
}

/** Whether a file's random tests have fewer cases in `npm test`. @param {string} path */
function countsCases(path) {
  return readFileSync(path, "utf8").includes("casesOf(");
}

/** @param {string} pattern */
function listFiles(pattern) {
  const listed = execFileSync("git", ["ls-files", `:(glob)${pattern}`], { encoding: "utf8" });
  return listed.split("\n").filter((path) => path !== "");
}
