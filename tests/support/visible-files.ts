import { readdir } from "node:fs/promises";

/** Returns the names that `ls` shows for a folder, in order. Skips hidden names, because a lock folder may remain. */
export async function visibleIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => !name.startsWith(".") || name === ".sdp").sort();
}
