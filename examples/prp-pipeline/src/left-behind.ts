import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 5;
const PATIENCE_MS = 10_000;

/** Waits for a process that must end without a signal from this program. Returns false if it is still running. */
export async function hasEnded(pid: number): Promise<boolean> {
  for (let waitedMs = 0; isRunning(pid); waitedMs += POLL_MS) {
    if (waitedMs > PATIENCE_MS) return false;
    await delay(POLL_MS);
  }
  return true;
}

/** Whether a process is running. A zombie doesn't count. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== "linux" || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
