// @ts-check
import { statfsSync } from "node:fs";

/**
 * Returns a folder in memory for the tests' files, because tests mostly wait for disks. Returns `undefined` if there is
 * no such disk, or less than two gigabytes are free (a container usually has 64 MB). No test needs a real disk: a kill
 * doesn't lose unsynced data, and the disk model simulates power cuts.
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
