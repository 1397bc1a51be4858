import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const AGENT = fileURLToPath(new URL("agent.js", import.meta.url));

export interface AgentOptions {
  readonly onLine: (line: string) => void;
  /** Kills the agent when it is aborted. */
  readonly signal: AbortSignal;
  /** Returns whether to kill the agent now. Polled while the agent runs. */
  readonly isDue?: () => Promise<boolean>;
}

/** Runs `node dist/agent.js` to its end. The agent reads the storage's URL from WAYMARK_STORAGE. */
export async function runAgent(args: readonly string[], { onLine, signal, isDue }: AgentOptions): Promise<void> {
  signal.throwIfAborted();
  const child = spawn(process.execPath, [AGENT, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    // Ctrl-C in the terminal must reach only the demonstration, which ends the agent.
    detached: true,
  });
  createInterface({ input: child.stdout }).on("line", onLine);
  const closed = once(child, "close");
  const kill = () => child.kill("SIGKILL");
  signal.addEventListener("abort", kill, { once: true });
  if (isDue !== undefined) {
    try {
      while (child.exitCode === null && child.signalCode === null && !(await isDue())) await delay(20);
    } finally {
      kill();
    }
  }
  await closed;
  signal.removeEventListener("abort", kill);
  signal.throwIfAborted();
  if (child.exitCode !== 0 && child.signalCode !== "SIGKILL") throw new Error(`The agent failed: ${args.join(" ")}`);
}
