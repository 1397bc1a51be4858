import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { makeFolder } from "../../adapters/files/durable-write.js";
import { StorageError } from "../../src/contract/errors.js";

/**
 * Makes a session's folder and those above it that are missing, with mode 0700.
 *
 * @throws {StorageError} It can't be made, or a file stands in its place.
 */
export async function makeSessionFolder(path: string): Promise<void> {
  const folder = resolve(path);
  try {
    await makeFolder(folder);
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
