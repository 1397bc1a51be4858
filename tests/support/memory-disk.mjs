// @ts-check
import { statfsSync } from "node:fs";

/**
 * The folder for tests' files: in memory, because tests mostly wait for disks. `undefined` if there is no such disk, or
 * less than two free gigabytes: a container's mostly has 64 MB. No test depends on it: a kill doesn't lose unsynced
 * data, and power losses are simulated by the disk model.
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
