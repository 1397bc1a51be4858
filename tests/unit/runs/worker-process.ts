import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const PROGRAM = fileURLToPath(new URL("../../fixtures/work-on-sqlite.mjs", import.meta.url));

/** Starts a worker. `line` resolves once it has printed that line. */
export function startWorker(path: string, how = "quick") {
  const child = spawn(process.execPath, [PROGRAM, path, how], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const lines: string[] = [];
  const printed = createInterface(child.stdout).on("line", (line) => lines.push(line));
  const line = async (wanted: string) => {
    while (!lines.includes(wanted)) await once(printed, "line");
  };
  const ends = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    return exited;
  };
  return { child, lines, line, ends };
}
