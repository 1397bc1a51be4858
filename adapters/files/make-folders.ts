import { accessSync, chmodSync, constants, lstatSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes a folder and those above it that are missing, with mode 0700, one at a time: each time it gives a folder whose
 * names are to be synced before it goes on. So where a process dies in between, only the last folder that is there may
 * have a name that isn't on the disk, and whoever goes on from there begins with it.
 *
 * Not by mkdir's `recursive`: where a file system answers ENOENT to any new name, as /proc does, Node tries for ever.
 *
 * @param path - Absolute. What is there already is left as it is, a file too.
 * @throws What the file system answers.
 */
export function* makeFolders(path: string): Generator<string, void, void> {
  const above = dirname(path);
  if (isThere(path)) {
    if (isOurs(path, above)) yield above;
    return;
  }
  if (above !== path) yield* makeFolders(above);
  makeFolder(path);
  yield above;
}

/**
 * Makes one folder, with mode 0700.
 *
 * @returns False where something has that name already.
 */
export function makeFolder(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
  // Gone again where another process has removed it: it was empty.
  const made = lstatSync(path, { throwIfNoEntry: false });
  // A umask takes bits away, the owner's too. Only then: a file system without permissions refuses to change them.
  if (made && (made.mode & 0o700) !== 0o700) chmodSync(path, 0o700);
  return true;
}

function isThere(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Whether one of us may have made it: where a disk is mounted, or we may not look above it, somebody else did. */
function isOurs(path: string, above: string): boolean {
  try {
    accessSync(above, constants.R_OK);
    return lstatSync(path).isDirectory() && statSync(path).dev === statSync(above).dev;
  } catch {
    return false;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
