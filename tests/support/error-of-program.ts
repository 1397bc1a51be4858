import { spawnSync } from "node:child_process";

/**
 * Runs the lines as a module in a new process, against the build. Kills the process if it doesn't end.
 *
 * @returns The name, code and message of the error that the lines threw, if any.
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
