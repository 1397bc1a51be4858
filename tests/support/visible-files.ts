import { readdir } from "node:fs/promises";

/** What `ls` shows of a folder, in order. A hidden lock folder may stay in one. */
export async function visibleIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => !name.startsWith(".") || name === ".sdp").sort();
}
