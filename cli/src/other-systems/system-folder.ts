import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The folder `.sdp/checkpoints`, named by any of its parts, if it has checkpoints. */
export async function systemFolder(path: string, name: string): Promise<string | undefined> {
  const folders = [join(path, name, "checkpoints")];
  if (basename(path) === name) folders.push(join(path, "checkpoints"));
  if (basename(dirname(path)) === name) folders.push(path);
  for (const folder of folders) {
    if ((await namesIn(folder)).some((file) => file.endsWith(".json"))) return folder;
  }
  return undefined;
}

/** Nothing for what isn't there, or is no folder. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}
