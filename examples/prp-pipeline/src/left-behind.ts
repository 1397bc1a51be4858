import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 5;
const PATIENCE_MS = 10_000;

/** Waits until a process has ended; only a signal of ours could have told it to. False if it still runs. */
export async function hasEnded(pid: number): Promise<boolean> {
  for (let waitedMs = 0; isRunning(pid); waitedMs += POLL_MS) {
    if (waitedMs > PATIENCE_MS) return false;
    await delay(POLL_MS);
  }
  return true;
}

/** Whether a process runs. A process that ended but wasn't collected doesn't. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== "linux" || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
