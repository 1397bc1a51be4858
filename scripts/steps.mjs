// @ts-check
import { spawnSync } from "node:child_process";

/**
 * Runs named commands one after the other, goes on after a failure, and ends with the line that programs look for.
 *
 * @param {readonly { name: string, command: string, env?: NodeJS.ProcessEnv, cwd?: string }[]} steps
 */
export function runSteps(steps) {
  const results = steps.map(({ name, command, env = process.env, cwd = process.cwd() }) => {
    console.log(`\n=== ${name}: ${command}`);
    const startedMs = Date.now();
    const { status } = spawnSync(command, { shell: true, stdio: "inherit", env, cwd });
    return { name, passed: status === 0, seconds: Math.round((Date.now() - startedMs) / 1000) };
  });
  console.log("");
  for (const { name, passed, seconds } of results) console.log(`${passed ? "PASS" : "FAIL"}  ${name} (${seconds} s)`);
  const failed = results.filter(({ passed }) => !passed).length;
  console.log(`${results.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}
