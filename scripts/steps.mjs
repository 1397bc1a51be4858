// @ts-check
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** The number of a failed step's last lines that are shown again at the end. */
const LAST_LINES = 25;
/** The maximum number of lines about failed tests under a failed step, and their maximum length. */
const MOST_FAILURES = 10;
const LONGEST = 200;

/** Matches a line that names a failed test, in the output of vitest and of Node. */
const NAMES_A_FAILURE = /^\s*(FAIL|×|not ok|✖) /;

// biome-ignore lint/suspicious/noControlCharactersInRegex: a color begins with the escape character.
const COLOURS = /\u001B\[[0-9;]*m/g;

/** @typedef {{ name: string, command: string, env?: NodeJS.ProcessEnv, cwd?: string }} Step */

/**
 * Runs named commands one after another, and the commands of an inner list in parallel. Continues after a failure. At
 * the end, prints the failures, because only the end of a long log is kept, and then the line that programs parse.
 *
 * @param {readonly (Step | readonly Step[])[]} steps
 */
export async function runSteps(steps) {
  const results = [];
  for (const step of steps) results.push(...(await Promise.all([step].flat().map(runStep))));
  console.log("");
  for (const { name, passed, lines } of results) {
    if (!passed) console.log([`--- the end of ${name}:`, ...lines.slice(-LAST_LINES), ""].join("\n"));
  }
  for (const { name, passed, lines, seconds } of results) {
    console.log(`${passed ? "PASS" : "FAIL"}  ${name} (${seconds} s)`);
    if (!passed) for (const failure of failuresAmong(lines)) console.log(`      ${failure}`);
  }
  const failed = results.filter(({ passed }) => !passed).length;
  console.log(`${results.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

/** @param {Step} step */
async function runStep({ name, command, env = process.env, cwd = process.cwd() }) {
  console.log(`\n=== ${name}: ${command}`);
  const startedMs = Date.now();
  const { status, lines } = await runShown(command, { env, cwd });
  return { name, passed: status === 0, lines, seconds: Math.round((Date.now() - startedMs) / 1000) };
}

/**
 * @param {string} command
 * @param {{ env: NodeJS.ProcessEnv, cwd: string }} where
 */
async function runShown(command, where) {
  const child = spawn(`(${command}) 2>&1`, { ...where, shell: true, stdio: ["ignore", "pipe", "inherit"] });
  const closed = once(child, "close");
  /** @type {string[]} */
  const lines = [];
  for await (const line of createInterface({ input: child.stdout })) {
    console.log(line);
    lines.push(line.replaceAll(COLOURS, ""));
  }
  const [status] = await closed;
  return { status, lines };
}

/**
 * Returns the names of the first failed tests, each with the first line of its error. @param {readonly string[]} lines
 */
function failuresAmong(lines) {
  const named = lines.flatMap((line, at) => (NAMES_A_FAILURE.test(line) ? lines.slice(at, at + 2) : []));
  return [...new Set(named.map((line) => line.trim().slice(0, LONGEST)))].slice(0, MOST_FAILURES);
}
