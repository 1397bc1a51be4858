import { open, opendir, stat } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, storageFailure } from "./files/failure.js";
import { isCheckpointFileName, isTombstoneName } from "./files/json-file-format.js";
import { idOf, isHashedName } from "./files/names.js";
import { TASK_FILE_NAME } from "./files/task-file-format.js";
import { locationOf, type OpenStorageOptions, type StorageLocation, type StorageScheme } from "./storage-url.js";

/** Where a storage URL leads, and what is there already. */
export interface StoragePlace extends StorageLocation {
  /** False where nothing is: a storage would be made there by the first save. */
  readonly isThere: boolean;
  /**
   * What kind of storage has left checkpoints there: the URL's own where it is one of several; `undefined` where no
   * checkpoint is to be seen.
   */
  readonly holds: StorageScheme | undefined;
}

/**
 * Looks where a storage URL leads, and opens nothing. A storage of another kind sees no checkpoint in what is there, and
 * so a wrong scheme looks like an empty storage: this tells them apart. It goes by the names of files, and by how a
 * database begins.
 *
 * @example
 * ```ts
 * import { storagePlace } from "waymark/adapters";
 *
 * const { isThere, holds } = await storagePlace("tasks:.waymark");
 * ```
 *
 * @throws {UnsupportedOperationError} No storage of that scheme is known.
 * @throws {TypeError} It is no storage URL, or an option is misspelled.
 * @throws {StorageError} What is there can't be read.
 */
export async function storagePlace(url: string, options: OpenStorageOptions = {}): Promise<StoragePlace> {
  const location = locationOf(url, options);
  try {
    return { ...location, ...(await lookAt(location)) };
  } catch (error) {
    throw storageFailure(error, { doing: "look for a storage", path: location.path, isRead: true });
  }
}

async function lookAt({ scheme, path }: StorageLocation): Promise<Pick<StoragePlace, "isThere" | "holds">> {
  const stats = await statsOf(path);
  if (stats?.isDirectory()) return { isThere: true, holds: await heldBy(path, scheme) };
  if (stats?.isFile()) return { isThere: true, holds: (await isDatabase(path)) ? "sqlite" : undefined };
  // A log without its database is damage, and the adapter's to tell.
  const isThere = stats !== undefined || (scheme === "sqlite" && (await statsOf(`${path}-wal`)) !== undefined);
  return { isThere, holds: undefined };
}

async function heldBy(root: string, wanted: StorageScheme): Promise<StorageScheme | undefined> {
  let other: StorageScheme | undefined;
  for await (const entry of await opendir(root)) {
    const isTask = entry.isDirectory() && (idOf(entry.name) !== undefined || isHashedName(entry.name));
    if (!isTask) continue;
    const held = await heldByTask(join(root, entry.name), wanted);
    if (held === wanted) return wanted;
    other ??= held;
  }
  return other;
}

async function heldByTask(folder: string, wanted: StorageScheme): Promise<StorageScheme | undefined> {
  let other: StorageScheme | undefined;
  try {
    for await (const { name } of await opendir(folder)) {
      const held = schemeOfFile(name);
      if (held === wanted) return wanted;
      other ??= held;
    }
  } catch (error) {
    // The task was removed just now.
    if (codeOf(error) !== "ENOENT") throw error;
  }
  return other;
}

function schemeOfFile(name: string): StorageScheme | undefined {
  if (name === TASK_FILE_NAME) return "tasks";
  return isTombstoneName(name) || isCheckpointFileName(name) ? "files" : undefined;
}

const DATABASE_OPENING = Buffer.from("SQLite format 3\0");

async function isDatabase(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(DATABASE_OPENING.length), 0, DATABASE_OPENING.length, 0);
    return bytesRead === DATABASE_OPENING.length && buffer.equals(DATABASE_OPENING);
  } finally {
    await file.close();
  }
}

async function statsOf(path: string) {
  try {
    return await stat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
