import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";

const FIXTURE = join(import.meta.dirname, "..", "fixtures", "killed-at-moment.mjs");

/**
 * Runs a program of an example in a new process until it ends or is killed (SIGKILL) at a moment of its run, counted
 * from 1.
 *
 * @param folder - The folder for `run.log`, which has a line for each step that begins or is recorded.
 */
export async function runKilledAt(
  program: readonly string[],
  { folder, moment, env }: { readonly folder: string; readonly moment?: number; readonly env: NodeJS.ProcessEnv },
): Promise<{ readonly isKilled: boolean; readonly output: string }> {
  const { all, signal, exitCode } = await execa(process.execPath, ["--import", FIXTURE, ...program], {
    env: { ...env, RUN_LOG: join(folder, "run.log"), ...(moment !== undefined && { KILL_AT: String(moment) }) },
    all: true,
    reject: false,
  });
  if (signal !== "SIGKILL" && exitCode !== 0) throw new Error(`The example failed: ${all}`);
  return { isKilled: signal === "SIGKILL", output: all };
}

/** Returns the steps that began again after their results were recorded. */
export function ranAfterTheirRecord(folder: string): string[] {
  const path = join(folder, "run.log");
  const lines = existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
  return lines.filter(
    (line, at) => lines.slice(0, at).includes(line.replace(/^begins /, "recorded ")) && line.startsWith("begins "),
  );
}
