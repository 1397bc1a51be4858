import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/**
 * Returns the folder `<name>/checkpoints` (`.sdp/checkpoints`) if it has checkpoints. `path` may be that folder, the
 * folder above it, or the project's folder.
 */
export async function systemFolder(path: string, name: string): Promise<string | undefined> {
  const folders = [join(path, name, "checkpoints")];
  if (basename(path) === name) folders.push(join(path, "checkpoints"));
  if (basename(dirname(path)) === name) folders.push(path);
  for (const folder of folders) {
    if ((await namesIn(folder)).some((file) => file.endsWith(".json"))) return folder;
  }
  return undefined;
}

/** Returns the names in a folder. If the path doesn't exist or is no folder, the result is empty. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}
