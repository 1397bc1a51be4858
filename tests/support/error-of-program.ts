import { spawnSync } from "node:child_process";

/**
 * Runs these lines as a module in a process of its own, against the build. If it doesn't end, it is killed.
 *
 * @returns The name, code and message of its error, if it threw one.
 */
export function errorOfProgram(lines: string): { name: string; code: string; message: string } | undefined {
  const module = `try {\n${lines}\n} catch ({ name, code, message }) { console.log(JSON.stringify({ name, code, message })); }`;
  const args = ["--input-type=module", "-e", module];
  const { stdout, stderr, signal } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    timeout: 20_000,
    killSignal: "SIGKILL",
  });
  if (signal !== null || stderr !== "") throw new Error(`It was ended by ${signal}, and wrote: ${stderr}`);
  return stdout === "" ? undefined : JSON.parse(stdout);
}
