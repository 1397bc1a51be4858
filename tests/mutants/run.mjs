// @ts-check
// Makes mutants of the files that keep a run's promises, and checks whether the random programs and the chaos find
// them: `node tests/mutants/run.mjs`. Works in clones of the committed state, and takes hours.
//
//   --count=200     number of mutants, chosen by --seed=1 among all mutants of FILES
//   --from=0        number of the first mutant to try
//   --jobs=1        number of mutants tried at once, each in its own clone
//   --seconds=600   longest time for one mutant; the time of each check is below
//   --list          prints the mutants without trying them
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundled } from "../support/bundled.mjs";
import { memoryDisk } from "../support/memory-disk.mjs";
import { apply, mutantsOf } from "./operators.mjs";

/** The files of leases, the log, events, runs and the worker. */
const FILES = [
  "src/contract/{leases,log,conditions,task-queue,run-note,run-record}.ts",
  "src/manager/lease.ts",
  "src/runs/*.ts",
  "adapters/memory.ts",
  "adapters/sqlite/{log,leases,due,writer,call-queue}.ts",
  "adapters/files/{log,log-scan,log-pages,log-file,held-log,lock,leases,due}.ts",
  "adapters/postgres/{log,leases,appender,writer}.ts",
];

/** A check that takes this long hangs, because every check takes less than two minutes. */
const HANGS_MS = 300_000;

const CACHES = new Set([".cache", ".vite", ".vitest"]);

const SLOW = { WAYMARK_TESTS: "slow", WAYMARK_SEED: "1" };
const PROGRAMS = "node tests/mutants/programs.mjs";
const IN_MEMORY = { name: "random programs", command: `${PROGRAMS} 300 1`, env: {} };
const MORE_IN_MEMORY = { name: "more programs", command: `${PROGRAMS} 1500 2`, env: {} };
const onDisk = (/** @type {string} */ kind) => ({ name: `on ${kind}`, command: `${PROGRAMS} 60 1 ${kind}`, env: {} });
/** All calls of an adapter, by killed processes, beside a model in memory. Their history is checked. */
const RANDOM_CALLS = {
  name: "random calls",
  command: "npx vitest run tests/crash/random-histories.slow.test.ts",
  env: { ...SLOW, WAYMARK_CRASH_TENTH: "0" },
};
const IN_PROCESSES = {
  name: "in processes",
  command: "npx vitest run tests/programs/in-processes.slow.test.ts",
  env: { ...SLOW, WAYMARK_PROGRAM_SECONDS: "30" },
};

/**
 * Returns the checks for a mutant of a file, the quickest first. For an adapter's file, only checks that load the
 * adapter.
 *
 * @param {string} file
 */
function checksFor(file) {
  const calls = (/** @type {string} */ kinds) => ({
    ...RANDOM_CALLS,
    command: `${RANDOM_CALLS.command} -t "${kinds}:"`,
  });
  if (file === "adapters/memory.ts") return [IN_MEMORY, calls("sqlite")];
  const [, adapter] = /^adapters\/(\w+)\//.exec(file) ?? [];
  if (adapter === undefined) {
    const contract = file.startsWith("src/contract/") ? [calls("sqlite")] : [];
    return [IN_MEMORY, ...contract, onDisk("sqlite"), MORE_IN_MEMORY, ...inProcesses("sqlite")];
  }
  const storage = adapter === "files" ? "json-file" : adapter;
  const kinds = { files: ["files", "tasks"], sqlite: ["sqlite"], postgres: [] }[adapter] ?? [];
  return [...kinds.map(onDisk), calls(adapter === "files" ? "(files|tasks)" : adapter), ...inProcesses(storage)];
}

/** @param {string} storage */
function inProcesses(storage) {
  return [
    { ...IN_PROCESSES, env: { ...IN_PROCESSES.env, WAYMARK_PROGRAM_STORAGE: storage } },
    { name: "chaos", command: `node scripts/chaos.mjs --seconds=30 --seed=1 --storage=${storage}`, env: {} },
  ];
}

/** @type {typeof import("../support/seeded.js")} */
const { randomFrom } = await import(await bundled("tests/support/seeded.ts"));
const root = join(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    count: { type: "string", default: "200" },
    from: { type: "string", default: "0" },
    jobs: { type: "string", default: "1" },
    seconds: { type: "string", default: "600" },
    seed: { type: "string", default: "1" },
    list: { type: "boolean", default: false },
  },
});
const disk = memoryDisk();
if (disk !== undefined) process.env["TMPDIR"] ??= disk;
const chosen = choose(Number(values.count), Number(values.seed)).slice(Number(values.from));
if (values.list) for (const mutant of chosen) console.log(describe(mutant));
else await tryAll();

async function tryAll() {
  const counts = { found: 0, survived: 0, undecided: 0, invalid: 0 };
  const left = chosen.values();
  await Promise.all(Array.from({ length: Number(values.jobs) }, () => tryIn(left, counts)));
  const { found, survived, undecided, invalid } = counts;
  const others = `${undecided} took longer than ${values.seconds} s, ${invalid} can't be built`;
  console.log(`\n${found} found, ${survived} survived, ${others}, on Node ${process.versions.node}.`);
}

/**
 * Tries mutants in a new clone until none is left.
 *
 * @param {Iterable<(typeof chosen)[number]>} mutants
 * @param {{ found: number, survived: number, undecided: number, invalid: number }} counts
 */
async function tryIn(mutants, counts) {
  const clone = mkdtempSync(join(tmpdir(), "waymark-mutants-"));
  try {
    execFileSync("git", ["clone", "--quiet", root, clone]);
    // Each clone has its own caches, because they contain bundles of the mutant.
    const modules = join(clone, "node_modules");
    mkdirSync(modules);
    for (const entry of readdirSync(join(root, "node_modules")).filter((name) => !CACHES.has(name)))
      symlinkSync(join(root, "node_modules", entry), join(modules, entry));
    for (const mutant of mutants) {
      const path = join(clone, mutant.file);
      const source = readFileSync(path, "utf8");
      writeFileSync(path, apply(source, mutant));
      const { verdict, by, seconds } = await look(clone, mutant.file);
      writeFileSync(path, source);
      counts[verdict] += 1;
      console.log(`${verdict.padEnd(9)} ${by.padEnd(19)} ${String(seconds).padStart(4)} s  ${describe(mutant)}`);
    }
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
}

/**
 * @param {string} clone
 * @param {string} file
 * @returns {Promise<{ readonly verdict: "found" | "survived" | "undecided" | "invalid", readonly by: string, readonly seconds: number }>}
 */
async function look(clone, file) {
  const startedMs = performance.now();
  const end = (/** @type {"found" | "survived" | "undecided" | "invalid"} */ verdict, /** @type {string} */ by) => ({
    verdict,
    by,
    seconds: Math.round((performance.now() - startedMs) / 1000),
  });
  const limitMs = Number(values.seconds) * 1000;
  if (!(await passes("npx rolldown -c --log-level warn", clone, {}, limitMs))) return end("invalid", "build");
  for (const { name, command, env } of checksFor(file)) {
    const leftMs = limitMs - (performance.now() - startedMs);
    const isPassed = await passes(command, clone, env, Math.min(leftMs, HANGS_MS));
    if (performance.now() - startedMs >= limitMs) return end("undecided", name);
    if (!isPassed) return end("found", name);
  }
  return end("survived", "");
}

/**
 * Returns whether a command ends with 0. A command that hangs doesn't pass.
 *
 * @param {string} command
 * @param {string} cwd
 * @param {NodeJS.ProcessEnv} env
 * @param {number} limitMs
 */
async function passes(command, cwd, env, limitMs) {
  const child = spawn(command, { cwd, env: { ...process.env, ...env }, shell: true, stdio: "ignore", detached: true });
  // Kills the command's whole process group.
  const kill = () => child.pid !== undefined && process.kill(-child.pid, "SIGKILL");
  const timer = setTimeout(kill, Math.max(1, limitMs));
  const [code] = await once(child, "exit");
  clearTimeout(timer);
  return code === 0;
}

/** @param {number} count @param {number} seed */
function choose(count, seed) {
  const pathspecs = FILES.flatMap(expand).map((pattern) => `:(glob)${pattern}`);
  const files = execFileSync("git", ["ls-files", ...pathspecs], { cwd: root, encoding: "utf8" })
    .trim()
    .split("\n");
  const all = files.flatMap((file) => {
    const source = readFileSync(join(root, file), "utf8");
    return mutantsOf(source).map((mutant) => ({ ...mutant, file, source }));
  });
  const next = randomFrom(seed);
  for (let last = all.length - 1; last > 0; last--) {
    const other = Math.floor(next() * (last + 1));
    [all[last], all[other]] = [
      /** @type {(typeof all)[number]} */ (all[other]),
      /** @type {(typeof all)[number]} */ (all[last]),
    ];
  }
  console.log(`${count} of ${all.length} mutants of ${files.length} files, seed ${seed}.`);
  return all.slice(0, count);
}

/** Expands the braces of a pattern, which git doesn't support. @param {string} pattern */
function expand(pattern) {
  const [whole, list] = /\{(.*)\}/.exec(pattern) ?? [];
  if (whole === undefined || list === undefined) return [pattern];
  return list.split(",").map((one) => pattern.replace(whole, one));
}

/** @param {ReturnType<typeof choose>[number]} mutant */
function describe({ file, source, start, end, text, operator }) {
  const line = source.slice(0, start).split("\n").length;
  const short = (/** @type {string} */ code) => code.replaceAll(/\s+/g, " ").slice(0, 60);
  return `${file}:${line} ${operator}: ${short(source.slice(start, end))} → ${short(text)}`;
}
