import { readdir } from "node:fs/promises";

/** The names that `ls` shows of a folder, in order. A hidden lock folder may remain in one. */
export async function visibleIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => !name.startsWith(".") || name === ".sdp").sort();
}
