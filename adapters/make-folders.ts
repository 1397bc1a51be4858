import { chmodSync, lstatSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes a folder and those above it that are missing, with mode 0700. Their names may not be on the disk yet.
 *
 * Not by mkdir's `recursive`: where a file system answers ENOENT to any new name, as /proc does, Node tries for ever.
 *
 * @param path - Absolute. What is there already is left as it is, a file too.
 * @returns Those it made, the topmost first.
 * @throws What the file system answers.
 */
export function makeFolders(path: string): string[] {
  try {
    return makePrivateFolder(path) ? [path] : [];
  } catch (error) {
    const above = dirname(path);
    if (codeOf(error) !== "ENOENT" || above === path) throw error;
    const made = makeFolders(above);
    // What is above it is there now: one more ENOENT is final.
    return makePrivateFolder(path) ? [...made, path] : made;
  }
}

/**
 * Makes one folder, with mode 0700.
 *
 * @returns False where something has that name already.
 */
export function makePrivateFolder(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
  // A umask takes bits away, the owner's too. Only then: a file system without permissions refuses to change them.
  if ((lstatSync(path).mode & 0o700) !== 0o700) chmodSync(path, 0o700);
  return true;
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
