import { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * Runs an example from its start to its end, as a person would.
 *
 * @param args - The program and its arguments.
 * @param interruptedAt - A text. The first line that contains it triggers SIGINT.
 */
export async function runExample(
  args: readonly string[],
  options: Pick<SpawnOptions, "cwd" | "env">,
  interruptedAt: string | undefined,
): Promise<{ readonly exitCode: unknown; readonly output: string }> {
  const child = spawn(process.execPath, args, { ...options, stdio: ["ignore", "pipe", "inherit"] });
  const exit = once(child, "exit");
  let output = "";
  for await (const line of createInterface({ input: child.stdout })) {
    output += `${line}\n`;
    if (interruptedAt !== undefined && line.includes(interruptedAt)) child.kill("SIGINT");
  }
  const [exitCode]: unknown[] = await exit;
  return { exitCode, output };
}
