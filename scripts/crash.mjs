// @ts-check
// npm run crash: runs all tests of tests/crash in full, and the hostile strings. Prints how many cases each test tried
// and how many lost data.
//   -- --every-call   also kills at reads and locks, which takes some minutes more
//   -- --tenth        tries only a tenth of the kills
// Other arguments are passed to vitest, which then runs only these tests: `-- tests/crash/kills.test.ts -t sqlite`.
// With WAYMARK_CRASH_TENTH from 0 to 9, all kills are tried, but only that tenth of the faults, power cuts and damaged
// bytes.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundled } from "../tests/support/bundled.mjs";

/**
 * A line of counts that a test has written (see tests/crash/counts.ts). @typedef {{ what: string, store: string,
 * operation: string, tried: number, lost: number }} Count
 */

/** What a complete run must have tried. */
const WHAT = [
  ...[
    "kill points",
    "power losses after a kill",
    "power losses",
    "faults injected",
    "power losses after a failed sync",
  ],
  ...["processes killed", "calls before kills of histories", "event loops stalled for 15 s", "saves to a full disk"],
  ...["bytes flipped, and files cut", "hostile strings"],
];

const folder = mkdtempSync(join(tmpdir(), "waymark-crash-counts-"));
const file = join(folder, "counts");
const startedMs = Date.now();
const tenth = process.env["WAYMARK_CRASH_TENTH"];
try {
  const named = process.argv.slice(2).filter((argument) => !/^--(every-call|tenth)$/.test(argument));
  const tests = named.length > 0 ? named : ["tests/crash", "tests/hostile/naughty-strings"];
  const { status } = spawnSync("npx", ["vitest", "run", ...tests, "--testTimeout=600000"], {
    stdio: "inherit",
    shell: process.platform === "win32",
    env: {
      ...process.env,
      WAYMARK_TESTS: "full",
      WAYMARK_CRASH_CALLS: /--(every|tenth)/.exec(process.argv.join(" "))?.[1] ?? "",
      WAYMARK_CRASH_COUNTS: file,
      // Thousands of processes load this program, and one bundled file loads faster than twenty files.
      WAYMARK_CRASH_PROGRAM: fileURLToPath(await bundled("tests/crash/program.mjs")),
    },
  });
  const counts = counted(file);
  print(counts);
  const wanted = named.length > 0 ? [] : WHAT;
  const missing = wanted.filter((what) => !counts.some((count) => count.what === what && count.tried > 0));
  // Skipped tests also pass. Tests are skipped if strace is missing or no disk can be mounted.
  if (missing.length > 0) console.log(`\nNOT TRIED, for the reasons above: ${missing.join("; ")}.`);
  if (tenth !== undefined) {
    const kills = process.argv.includes("--tenth") ? "A tenth of the kills" : "All kills";
    console.log(`\n${kills}, and a tenth of the rest (WAYMARK_CRASH_TENTH=${tenth}); npm run crash tries all.`);
  }
  const passed = missing.length === 0 ? "Passed" : "Passed as far as it was tried";
  const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
  console.log(`\n${status === 0 ? passed : "FAILED"} in ${minutes} minutes, on Node ${process.versions.node}.`);
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** @param {string} path @returns {Count[]} */
function counted(path) {
  try {
    return readFileSync(path, "utf8")
      .split("\n")
      .flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
  } catch {
    return [];
  }
}

/**
 * Prints a Markdown table for docs/durability.md, with a line per kind of fault and storage. @param {Count[]} counts
 */
function print(counts) {
  console.log("\n| what | storage | tried | lost |\n| --- | --- | ---: | ---: |");
  for (const [what, ofKind] of grouped(counts, "what")) {
    for (const [store, ofStore] of grouped(ofKind, "store")) {
      console.log(`| ${what} | ${store} | ${sum(ofStore, "tried")} | ${sum(ofStore, "lost")} |`);
    }
  }
}

/**
 * Groups the counts, in the order of each group's first count. @param {readonly Count[]} counts @param {"what" |
 * "store"} by
 */
function grouped(counts, by) {
  /** @type {Map<string, Count[]>} */
  const groups = new Map();
  for (const count of counts) groups.set(count[by], [...(groups.get(count[by]) ?? []), count]);
  return groups;
}

/** @param {readonly Count[]} counts @param {"tried" | "lost"} of */
function sum(counts, of) {
  return counts.reduce((total, count) => total + count[of], 0);
}
