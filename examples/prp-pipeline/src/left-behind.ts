import { readFileSync } from "node:fs";
import type { CheckpointData } from "waymark/prp";

/** The process group that a checkpoint has let go. */
export type LeftBehind = NonNullable<NonNullable<CheckpointData["state"]["waymark"]>["process"]>;

/** Whether the group's first process runs. One that has ended and that nobody has collected doesn't. */
export function isRunning({ pid }: LeftBehind): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return process.platform !== "linux" || !isZombie(pid);
}

/** For when there is no next run to do it. */
export function endLeftBehind({ group }: LeftBehind): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return;
    throw error;
  }
}

function isZombie(pid: number): boolean {
  try {
    // The state comes after the program's name, which stands in brackets.
    return /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}
