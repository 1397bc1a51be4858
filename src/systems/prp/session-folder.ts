import { mkdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { StorageError } from "../../errors.js";

/**
 * Makes a session's folder and those above it that are missing, with mode 0700.
 *
 * @throws {StorageError} It can't be made, or a file stands in its place.
 */
export async function makeSessionFolder(path: string): Promise<void> {
  const folder = resolve(path);
  try {
    await makeFolders(folder);
    if ((await stat(folder)).isDirectory()) return;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StorageError(
      `The session's folder ${folder} can't be made: ${reason}. Nothing was run, and no checkpoint was touched. ` +
        "Choose another path, or see to it that this one can be made.",
      { cause },
    );
  }
  throw new StorageError(
    `The session's folder ${folder} is not a folder. Nothing was run. Move that file away, or choose another path.`,
  );
}

/** Not by mkdir's `recursive`: where a file system answers ENOENT to any new name, as /proc does, Node tries for ever. */
async function makeFolders(path: string): Promise<void> {
  try {
    await makeFolder(path);
  } catch (error) {
    const above = dirname(path);
    if (!hasCode(error, "ENOENT") || above === path) throw error;
    await makeFolders(above);
    // What is above it is there now: one more ENOENT is final.
    await makeFolder(path);
  }
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
