import { StorageError } from "../../src/contract/errors.js";
import { makeFolder } from "./durable-write.js";
import { statsOf } from "./stored-file.js";

/**
 * Whether there is a folder.
 *
 * @throws {StorageError} A link or a file stands in its place.
 */
export function isFolder(path: string): boolean {
  const stats = statsOf(path);
  if (stats === undefined || stats.isDirectory()) return stats !== undefined;
  throw new StorageError(
    `${path} is ${stats.isSymbolicLink() ? "a symbolic link, and links inside the store are not followed" : "not a folder"}. ` +
      "It was left untouched; move it away.",
  );
}

/**
 * Makes a folder inside the store, and resolves once its name is on the disk.
 *
 * @param path - What is above it is there already.
 * @throws {StorageError} A link or a file stands in its place.
 */
export async function makeStoreFolder(path: string): Promise<void> {
  // Asked first, since making a folder takes a link to one for a folder.
  isFolder(path);
  await makeFolder(path);
}
