import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { StorageError } from "waymark";
import { type FileLocation, type OpenStorageOptions, type ServerLocation, storageLocation } from "waymark/adapters";

/** Where a storage URL leads, and what is there already. */
export type StoragePlace = FilePlace | ServerPlace;

/** A folder or a file. */
export interface FilePlace extends FileLocation {
  /** False where nothing is: the first save would make a storage there. */
  readonly isThere: boolean;
  /** The kind of storage that has left checkpoints there: the URL's own if there are several; `undefined` if none is seen. */
  readonly holds: FileScheme | undefined;
}

/** A database of a server. Nobody asks it before the command does: tables that aren't there are no checkpoints. */
export interface ServerPlace extends ServerLocation {
  readonly isThere: true;
  readonly holds: "postgres";
}

type FileScheme = FileLocation["scheme"];

/** Whether two URLs lead to one storage. */
export function isSamePlace(one: StoragePlace, other: StoragePlace): boolean {
  if (one.scheme === "postgres") return other.scheme === "postgres" && one.name === other.name;
  return one.scheme === other.scheme && one.path === other.path;
}

/**
 * Looks where a storage URL leads, and opens nothing. A storage of another kind sees no checkpoint in what is there, so a
 * wrong scheme looks like an empty storage. The names of files tell the kinds apart, and how a database begins.
 *
 * @throws {StorageError} What is there can't be read.
 * @throws What {@link storageLocation} throws.
 */
export async function storagePlace(url: string, options: OpenStorageOptions = {}): Promise<StoragePlace> {
  const location = storageLocation(url, options);
  if (location.scheme === "postgres") return { ...location, isThere: true, holds: "postgres" };
  const { scheme, path } = location;
  try {
    const stats = await ifThere(stat(path));
    const isThere = stats !== undefined;
    if (stats?.isFile() && (await isDatabase(path))) return { ...location, isThere, holds: "sqlite" };
    const kinds = stats?.isDirectory() ? await kindsBelow(path, scheme) : new Set<FileScheme>();
    return { ...location, isThere, holds: kinds.has(scheme) ? scheme : [...kinds][0] };
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause)) throw cause;
    throw new StorageError(`Could not look for a storage at ${path}: ${cause.message}.`, { cause });
  }
}

/** Looks until it meets the wanted kind. */
async function kindsBelow(root: string, wanted: FileScheme): Promise<Set<FileScheme>> {
  const kinds = new Set<FileScheme>();
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (!entry.isDirectory() || entry.name.startsWith(".")) continue;
    for (const name of (await ifThere(readdir(join(root, entry.name)))) ?? []) {
      if (name === "checkpoints.json") kinds.add("tasks");
      if (/^\d{12,15}(-.+\.json|\.removed)$/.test(name)) kinds.add("files");
    }
    if (kinds.has(wanted)) break;
  }
  return kinds;
}

/** By its header: what it begins with, and the application id `WYMK`. */
async function isDatabase(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(100), 0, 100, 0);
    return buffer.toString("latin1", 0, 16) === "SQLite format 3\0" && buffer.toString("latin1", 68, 72) === "WYMK";
  } finally {
    await file.close();
  }
}

async function ifThere<Result>(asked: Promise<Result>): Promise<Result | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
