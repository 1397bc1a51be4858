import { open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { StorageError } from "waymark";
import { type FileLocation, type OpenStorageOptions, type ServerLocation, storageLocation } from "waymark/adapters";
import { CommandError, ExitCode } from "./exit-code.js";

/** Where a storage URL points, and what exists there. */
export type InspectedLocation = InspectedFile | InspectedServer;

/** A folder or a file. */
export interface InspectedFile extends FileLocation {
  /** False if nothing exists there; the first save would create a storage. */
  readonly isThere: boolean;
  /**
   * The kind of storage whose checkpoints are there; if there are several kinds, the URL's own. `text`: a text file,
   * which isn't a storage. `undefined`: none of these was found.
   */
  readonly holds: FileScheme | "text" | undefined;
  /** If there is no storage, names what is there instead: `a database of another program`. */
  readonly other?: string;
}

/** A database on a server, which hasn't been contacted yet. */
export interface InspectedServer extends ServerLocation {
  readonly isThere: true;
  readonly holds: "postgres";
}

type FileScheme = FileLocation["scheme"];

/** Whether two URLs point to the same storage. */
export function isSameLocation(one: InspectedLocation, other: InspectedLocation): boolean {
  if (one.scheme === "postgres") return other.scheme === "postgres" && one.name === other.name;
  return one.scheme === other.scheme && one.path === other.path;
}

/**
 * Finds out what exists where a storage URL points, without opening a storage. An adapter doesn't see checkpoints of
 * another kind, so with a wrong scheme the storage would look empty. File names and a database's header show the kind.
 *
 * @throws {CommandError} The URL names memory, which belongs to one process.
 * @throws {StorageError} The file or folder can't be read.
 * @throws The errors of {@link storageLocation}.
 */
export async function inspectLocation(url: string, options: OpenStorageOptions = {}): Promise<InspectedLocation> {
  const location = storageLocation(url, options);
  if (location.scheme === "postgres") return { ...location, isThere: true, holds: "postgres" };
  if (location.scheme === "memory") {
    throw new CommandError(
      ExitCode.usage,
      "memory: is the memory of one process, so a command finds nothing there. Name a storage on disk or on a server.",
    );
  }
  const { scheme, path } = location;
  try {
    const stats = await ifThere(stat(path));
    const isThere = stats !== undefined;
    if (stats?.isFile()) return { ...location, isThere, ...(await readKind(path)) };
    if (!stats?.isDirectory()) return { ...location, isThere, holds: undefined };
    const { kinds, other } = await kindsBelow(path, scheme);
    const holds = kinds.has(scheme) ? scheme : [...kinds][0];
    return { ...location, isThere, holds, ...(holds === undefined && other !== undefined && { other }) };
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause)) throw cause;
    throw new StorageError(`Could not look for a storage at ${path}: ${cause.message}.`, { cause });
  }
}

/** Lists the kinds of stores below a folder. Stops at the wanted kind. */
async function kindsBelow(root: string, wanted: FileScheme) {
  const kinds = new Set<FileScheme>();
  const entries = await readdir(root, { withFileTypes: true });
  const names = [basename(root), basename(dirname(root)), ...entries.map(({ name }) => name)];
  let other: string | undefined = SYSTEM_FOLDERS.find(([name]) => names.includes(name))?.[1];
  for (const entry of entries) {
    const { name } = entry;
    if (name.startsWith(".")) continue;
    const inside = entry.isDirectory() ? ((await ifThere(readdir(join(root, name)))) ?? []) : [name];
    const found = inside.map(kindOfName);
    if (!entry.isDirectory() && found[0]) other = `the folder of one task: write ${found[0]}:${dirname(root)}`;
    else if (inside.some((entry) => !entry.startsWith("."))) other ??= `a folder with other files, such as ${name}`;
    if (!entry.isDirectory()) continue;
    for (const kind of found) if (kind) kinds.add(kind);
    if (kinds.has(wanted)) break;
  }
  return { kinds, other };
}

/** Systems that have their own formats, by folder. */
const SYSTEM_FOLDERS = [
  [".sdp", 'a folder of waymark oneshot: "waymark oneshot list" shows its features'],
  [".pai", "a folder of waymark/phase-checkpoints: its listCheckpoints reads them"],
] as const;

/** Returns the kind of storage that writes files with this name into a task's folder. */
export function kindOfName(name: string): "files" | "tasks" | undefined {
  if (name === "checkpoints.json") return "tasks";
  return /^\d{12,15}(-.+\.json|\.removed)$/.test(name) ? "files" : undefined;
}

/** Reads a database's header. Its first bytes and the application id `WYMK` show the kind. */
async function readKind(path: string): Promise<Pick<InspectedFile, "holds" | "other">> {
  const file = await open(path);
  try {
    // Get the size before reading the header, because another process may fill a new database in between.
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(100), 0, 100, 0);
    const start = buffer.toString("latin1", 0, bytesRead);
    if (start.startsWith("SQLite format 3\0")) {
      if (start.slice(68, 72) === "WYMK") return { holds: "sqlite" };
      // SQLite writes the first page before any table, so a file of one page is a new database.
      const isNew = size <= 4096;
      return { holds: undefined, ...(!isNew && { other: "a database without tables of Waymark" }) };
    }
    // The only control characters in text are line breaks, tabs and the like. A database's header has zeros, even if it
    // is damaged.
    return { holds: /^[\s -\xff]+$/.test(start) ? "text" : undefined };
  } finally {
    await file.close();
  }
}

/** Returns `undefined` if the file doesn't exist. */
export async function ifThere<Result>(call: Promise<Result>): Promise<Result | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
