// @ts-check
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** How many of a failed step's last lines are shown again at the end. */
const LAST_LINES = 25;

/** The mark at the beginning of a line that names a failed test, in vitest's and in Node's output. */
const NAMES_A_FAILURE = /^\s*(FAIL|×|not ok|✖) /;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape is what begins a colour.
const COLOURS = /\u001B\[[0-9;]*m/g;

/** @typedef {{ name: string, command: string, env?: NodeJS.ProcessEnv, cwd?: string }} Step */

/**
 * Runs named commands one after another, and the commands of an inner list side by side. Continues after a failure. At
 * the end it prints the failures, because only the end of a long log is kept, and then the line that programs look for.
 *
 * @param {readonly (Step | readonly Step[])[]} steps
 */
export async function runSteps(steps) {
  const results = [];
  for (const step of steps) results.push(...(await Promise.all([step].flat().map(runStep))));
  console.log("");
  for (const { name, passed, lines } of results) {
    if (!passed) console.log([`--- what failed of ${name}:`, ...failuresAmong(lines), ""].join("\n"));
  }
  for (const { name, passed, seconds } of results) console.log(`${passed ? "PASS" : "FAIL"}  ${name} (${seconds} s)`);
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
    lines.push(line);
  }
  const [status] = await closed;
  return { status, lines };
}

/** @param {readonly string[]} lines */
function failuresAmong(lines) {
  const named = lines.flatMap((line, at) => {
    const words = line.replaceAll(COLOURS, "");
    return NAMES_A_FAILURE.test(words) ? lines.slice(at, at + 3).map((shown) => shown.replaceAll(COLOURS, "")) : [];
  });
  return [...new Set(named), "…", ...lines.slice(-LAST_LINES)];
}
