import { readdirSync, readlinkSync } from "node:fs";

/** Returns the processes whose working folder is `folder` or below it. Works only on Linux. */
export function processesIn(folder: string): string[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc").filter((pid) => {
    try {
      return `${readlinkSync(`/proc/${pid}/cwd`)}/`.startsWith(`${folder}/`);
    } catch {
      return false;
    }
  });
}
