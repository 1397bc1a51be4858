// @ts-check
import { statfsSync } from "node:fs";

/**
 * Where tests keep their files: in memory, since they wait for disks more than for anything else. `undefined` where there is
 * no such disk, or less than two free gigabytes: a container's mostly has 64 MB. No test depends on it: a kill leaves what
 * the system has, synced or not, and what a power loss takes the disk model takes.
 */
export function memoryDisk() {
  const folder = "/dev/shm";
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize > 2 * 1024 ** 3 ? folder : undefined;
  } catch {
    return undefined;
  }
}
