import { constants as bufferLimits } from "node:buffer";
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  fsync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { codeOf, StorageError } from "../../src/contract/errors.js";

// Only what waits for the disk is asynchronous. The other calls take microseconds each, a tenth of what a round trip to
// another thread takes.
const fsyncFile = promisify(fsync);

// A link isn't followed out of the store, and a pipe doesn't block. Windows knows neither flag.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const REWRITE_FLAGS = constants.O_RDWR | (constants.O_NOFOLLOW ?? 0);
/** After so many synchronous calls, a loop lets timers, sockets and other tasks have their turn. */
export const SLICE = 100;
const START_BYTES = 4096;
const LINE_FEED = 0x0a;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Why what is stored can't be read. It never leaves the adapter: a CorruptRecord or a typed error takes its place. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

/**
 * Writes a file and resolves once its content is on the disk. Its name isn't yet: that takes {@link syncFolder}.
 *
 * @param options.isEmptyFile - An empty file is there. Default: nothing is there, not even a link.
 */
export async function writeDurably(
  path: string,
  content: Uint8Array,
  { mode = 0o600, isEmptyFile = false }: { readonly mode?: number | undefined; readonly isEmptyFile?: boolean } = {},
): Promise<void> {
  await withOpenFile(
    () => openSync(path, isEmptyFile ? REWRITE_FLAGS : "wx", mode),
    (file) => {
      // A write may be short: a full disk or a signal shows in the next one.
      for (let done = 0; done < content.length; ) done += writeSync(file, content, done);
      // A failed fsync is final: the system may have dropped the pages, so a second one would succeed without them.
      // The caller throws the file away, and the next try writes another.
      return fsyncFile(file);
    },
  );
}

/** Resolves once the folder's names are on the disk: a rename is atomic, but without this a power cut can undo it. */
export async function syncFolder(path: string): Promise<void> {
  // Windows opens no folder for this; NTFS writes names to its journal itself.
  if (process.platform === "win32") return;
  await withOpenFile(() => openFolder(path), fsyncFile);
}

/** The same, while the caller waits: SQLite's calls are synchronous. */
export function syncFolderSync(path: string): void {
  if (process.platform === "win32") return;
  const folder = openFolder(path);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function openFolder(path: string): number {
  return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
}

/** Far below any limit of open files, and more than the four threads that Node syncs by. */
const MAX_OPEN_FILES = 16;
let openFiles = 0;
const waiting: (() => void)[] = [];

/**
 * Opens a file, and closes it after `use`. While too many are open for that, it waits for one to be closed: otherwise saves
 * that come at once would use up the process's descriptors and fail. All other files are open for one synchronous call.
 */
async function withOpenFile(open: () => number, use: (file: number) => Promise<void>): Promise<void> {
  if (openFiles < MAX_OPEN_FILES) openFiles += 1;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    const file = open();
    try {
      await use(file);
    } finally {
      closeSync(file);
    }
  } finally {
    const next = waiting.shift();
    if (next) next();
    else openFiles -= 1;
  }
}

/**
 * Makes a folder and those above it that are missing, with mode 0700, and resolves once its name is on the disk. Each
 * folder's name is synced before the next one is made. So where a process dies in between, only the last folder may
 * have a name that isn't on the disk, and the next call begins with it.
 *
 * Not by mkdir's `recursive`: where a file system answers ENOENT to any new name, as /proc does, Node tries for ever.
 *
 * @param path - Absolute. If something is there already, even a file, it is left as it is.
 * @throws The file system's error.
 */
export async function makeFolders(path: string): Promise<void> {
  for (const above of makingFolders(path)) await syncFolder(above).catch(unlessDenied);
}

/** The same, while the caller waits. */
export function makeFoldersSync(path: string): void {
  for (const above of makingFolders(path)) {
    try {
      syncFolderSync(above);
    } catch (error) {
      unlessDenied(error);
    }
  }
}

/** Makes the folders, and gives after each the one above it, whose names must be on the disk before the next is made. */
function* makingFolders(path: string): Generator<string, void, void> {
  const above = dirname(path);
  if (unlessAbsent(() => statSync(path)) === undefined) {
    if (above !== path) yield* makingFolders(above);
    makeFolder(path);
  }
  yield above;
}

/** If we may not read a folder, we have made nothing in it. */
function unlessDenied(error: unknown): void {
  if (codeOf(error) !== "EACCES" && codeOf(error) !== "EPERM") throw error;
}

/**
 * Looks whether a folder or file that isn't there, or is empty, could be made, and makes nothing: so a store that can't be
 * made is found out by the first read, and not by a save an hour later. One with content may be one that can only be read.
 *
 * @throws The file system's error.
 */
export function assertCanBeMade(path: string): void {
  const stats = unlessAbsent(() => statSync(path));
  if (stats === undefined) assertWritable(dirname(path));
  else if (isEmpty(path, stats))
    accessSync(path, stats.isDirectory() ? constants.W_OK | constants.X_OK : constants.W_OK);
}

/** The folder, or the nearest one above it that is there. */
function assertWritable(folder: string): void {
  if (unlessAbsent(() => statSync(folder)) === undefined) assertWritable(dirname(folder));
  else accessSync(folder, constants.W_OK | constants.X_OK);
}

function isEmpty(path: string, stats: Stats): boolean {
  if (!stats.isDirectory()) return stats.size === 0;
  const folder = opendirSync(path);
  try {
    return folder.readSync() === null;
  } finally {
    folder.closeSync();
  }
}

/** Makes one folder, with mode 0700. If something is there already, even a file, it is left as it is. */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/**
 * The whole file; `undefined` if it doesn't exist.
 *
 * @throws {UnreadableError} It is no file.
 */
export function readStored(path: string): Buffer | undefined {
  return reading(path, (file, size) => {
    const bytes = Buffer.allocUnsafe(size);
    for (let done = 0; done < size; ) {
      const got = readSync(file, bytes, done, size - done, done);
      if (got === 0) return bytes.subarray(0, done);
      done += got;
    }
    return bytes;
  });
}

/** Used by one synchronous call at a time. */
const scratch = Buffer.allocUnsafe(START_BYTES);

/**
 * The beginning of a file, up to its first line's end at least, and the size of the whole; `undefined` if it doesn't
 * exist. A line of usual length takes one read.
 *
 * @returns Bytes that are valid until the next call.
 * @throws {UnreadableError} It is no file.
 */
export function readFirstLine(path: string): { readonly bytes: Buffer; readonly size: number } | undefined {
  return reading(path, (file, size) => {
    let bytes = scratch.subarray(0, readSync(file, scratch, 0, START_BYTES, 0));
    while (!bytes.includes(LINE_FEED) && bytes.length < size) {
      const larger = Buffer.allocUnsafe(Math.min(size, 4 * bytes.length));
      const got = readSync(file, larger, 0, larger.length, 0);
      if (got <= bytes.length) break;
      bytes = larger.subarray(0, got);
    }
    return { bytes, size };
  });
}

/** @throws {UnreadableError} Not UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new UnreadableError("it is not UTF-8 text", { cause: error });
  }
}

/**
 * The stats of the file, folder or link at that path; `undefined` if there is none. Not by `throwIfNoEntry: false`:
 * newer versions of Node take it to mean ENOTDIR too, and that is a wrong path.
 */
export function statsOf(path: string): Stats | undefined {
  return unlessAbsent(() => lstatSync(path));
}

/**
 * Whether there is a folder. For every folder of a store's own: a link that somebody has planted in its place would lead
 * writes and removals out of the store.
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

/** The names in a folder; none if it doesn't exist. */
export function namesIn(folder: string): string[] {
  return unlessAbsent(() => readdirSync(folder)) ?? [];
}

/** `undefined` if the system answers ENOENT. */
export function unlessAbsent<Result>(call: () => Result): Result | undefined {
  try {
    return call();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

function reading<Result>(path: string, read: (file: number, size: number) => Result): Result | undefined {
  const file = openToRead(path);
  if (file === undefined) return undefined;
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) throw new UnreadableError("it is not a file");
    // A text can't be longer, so Waymark didn't write this.
    if (stats.size > bufferLimits.MAX_STRING_LENGTH)
      throw new UnreadableError(`it has ${stats.size} bytes, too many to read`);
    return read(file, stats.size);
  } finally {
    closeSync(file);
  }
}

function openToRead(path: string): number | undefined {
  try {
    return unlessAbsent(() => openSync(path, READ_FLAGS));
  } catch (error) {
    if (codeOf(error) === "ELOOP") throw new UnreadableError("it is a symbolic link, which is not followed");
    if (codeOf(error) === "ENXIO") throw new UnreadableError("it is not a file");
    throw error;
  }
}
