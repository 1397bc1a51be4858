// @ts-check
// The full check, of which the longest parts take turns: `npm run check`. `-- --after-tests` leaves out the build and the
// quick tests, for CI, which has done both.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { memoryDisk } from "../tests/support/memory-disk.mjs";
import { runSteps } from "./steps.mjs";

const disk = memoryDisk();
if (disk !== undefined) process.env["TMPDIR"] ??= disk;
// Every kill is tried. A tenth of the faults, power losses, damaged bytes and broken adapters is tried: another tenth each
// time.
process.env["WAYMARK_CRASH_TENTH"] ??= String(Math.floor(Math.random() * 10));
// Each check makes other random tests, the same in all of its steps.
process.env["WAYMARK_SEED"] ??= String(Math.floor(Math.random() * 2 ** 31));
console.log(`WAYMARK_SEED=${process.env["WAYMARK_SEED"]} WAYMARK_CRASH_TENTH=${process.env["WAYMARK_CRASH_TENTH"]}`);

// Every slow test with kills or stopped processes runs each time. The others take turns: a tenth of their files each time.
// `WAYMARK_TESTS=slow npx vitest run` runs all.
const TURNS = 10;
/** Takes minutes, so it runs beside steps that compute. */
const PROGRAMS = "tests/programs/in-processes.slow.test.ts";
const turn = Number(process.env["WAYMARK_CRASH_TENTH"]) % TURNS;
const slowFiles = listFiles("tests/**/*.slow.test.ts").filter((path) => !isCrashTest(path) && path !== PROGRAMS);
const TRIED = slowFiles.filter((path, at) => /kills|stops/.test(path) || at % TURNS === turn);

const buildAndQuickTests = [
  { name: "build", command: "npm run build" },
  {
    name: "quick tests, with coverage",
    command: "npx vitest run",
    env: { ...process.env, WAYMARK_COVERAGE: "1" },
  },
];

// Beside tests that wait for processes and disks run steps that compute, so that no processor is idle.
await runSteps([
  ...(process.argv.includes("--after-tests") ? [] : buildAndQuickTests),
  [
    {
      name: "slow tests but the crash tests: every kill, and a tenth of the others",
      command: `npx vitest run ${TRIED.join(" ")}`,
      env: { ...process.env, WAYMARK_TESTS: "slow" },
    },
    { name: "the site and its API pages: links, and axe in Chromium", command: "node site/check.mjs" },
  ],
  [
    {
      name: "crashes: every kill, and a tenth of the faults and power losses",
      command: "node scripts/crash.mjs",
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
  // Runs by itself, because it builds anew and the other steps load the build.
  { name: "the packages: publint, attw, installed elsewhere", command: "npm run package" },
]);

/** scripts/crash.mjs runs these. @param {string} path */
function isCrashTest(path) {
  return path.startsWith("tests/crash/") || path.startsWith("tests/hostile/naughty-strings");
}

/** Whether a file has fewer random cases in `npm test`. @param {string} path */
function countsCases(path) {
  return readFileSync(path, "utf8").includes("casesOf(");
}

/** @param {string} pattern */
function listFiles(pattern) {
  const listed = execFileSync("git", ["ls-files", `:(glob)${pattern}`], { encoding: "utf8" });
  return listed.split("\n").filter((path) => path !== "");
}
