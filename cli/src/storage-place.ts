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
  /**
   * The kind of storage that has left checkpoints there: the URL's own if there are several. `text` is a text file, which
   * is no storage. `undefined` if neither is seen.
   */
  readonly holds: FileScheme | "text" | undefined;
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
    if (stats?.isFile()) return { ...location, isThere, holds: await kindOf(path) };
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

/** By the size of a database's header: what that begins with, and the application id `WYMK`. */
async function kindOf(path: string): Promise<"sqlite" | "text" | undefined> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(100), 0, 100, 0);
    const start = buffer.toString("latin1", 0, bytesRead);
    if (start.startsWith("SQLite format 3\0")) return start.slice(68, 72) === "WYMK" ? "sqlite" : undefined;
    // Only line breaks, tabs and the like, while a database's header has zeros, even a damaged one.
    return /^[\s -\xff]+$/.test(start) ? "text" : undefined;
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
