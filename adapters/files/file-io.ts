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

// Only calls that wait for the disk are asynchronous. The others take microseconds, a tenth of a round trip to another
// thread.
const fsyncFile = promisify(fsync);

// Don't follow a link out of the store, and don't block on a pipe. Windows has neither flag.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const REWRITE_FLAGS = constants.O_RDWR | (constants.O_NOFOLLOW ?? 0);
/** After so many synchronous calls, a loop lets timers, sockets and other tasks run. */
export const SLICE = 100;
const START_BYTES = 4096;
const LINE_FEED = 0x0a;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Says why stored data can't be read. It never leaves the adapter: a CorruptRecord or a typed error takes its place.
 */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

/**
 * Writes a file and resolves once its content is on the disk. Its name is on the disk only after {@link syncFolder}.
 *
 * @param options.isEmptyFile - An empty file exists there. Default: nothing exists there, not even a link.
 */
export async function writeDurably(
  path: string,
  content: Uint8Array,
  { mode = 0o600, isEmptyFile = false }: { readonly mode?: number | undefined; readonly isEmptyFile?: boolean } = {},
): Promise<void> {
  await withOpenFile(
    () => openSync(path, isEmptyFile ? REWRITE_FLAGS : "wx", mode),
    (file) => {
      // A write may be short. If the disk is full, the next one fails.
      for (let done = 0; done < content.length; ) done += writeSync(file, content, done);
      // A failed fsync is final: the system may have dropped the pages, so a second fsync would succeed without them.
      // The caller deletes the file, and the next try writes another.
      return fsyncFile(file);
    },
  );
}

/** Resolves once the folder's names are on the disk: a rename is atomic, but without this a power cut can undo it. */
export async function syncFolder(path: string): Promise<void> {
  // Windows can't sync a folder; NTFS writes names to its own journal.
  if (process.platform === "win32") return;
  await withOpenFile(() => openFolder(path), fsyncFile);
}

/** {@link syncFolder} for SQLite, whose calls are synchronous. */
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

/** Far below any limit of open files, and more than the four threads on which Node syncs. */
const MAX_OPEN_FILES = 16;
let openFiles = 0;
const waiting: (() => void)[] = [];

/**
 * Opens a file, and closes it after `use`. If {@link MAX_OPEN_FILES} are open, waits until one is closed: otherwise
 * many saves at once would use up the process's descriptors. All other files are open for one synchronous call.
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
 * Makes a folder and the missing ones above it, with mode 0700, and resolves once its name is on the disk. Each
 * folder's name is synced before the next one is made. If a process dies in between, only the last folder's name may
 * not be on the disk, and the next call syncs it.
 *
 * Doesn't use mkdir's `recursive`: if a file system answers ENOENT to any new name, as /proc does, Node tries forever.
 *
 * @param path - Absolute. Whatever exists there is left as it is, even a file.
 * @throws The file system's error.
 */
export async function makeFolders(path: string): Promise<void> {
  for (const above of makingFolders(path)) await syncFolder(above).catch(unlessDenied);
}

export function makeFoldersSync(path: string): void {
  for (const above of makingFolders(path)) {
    try {
      syncFolderSync(above);
    } catch (error) {
      unlessDenied(error);
    }
  }
}

/** Makes the folders. After each, yields the one above it, which the caller must sync before the next one is made. */
function* makingFolders(path: string): Generator<string, void, void> {
  const above = dirname(path);
  if (unlessAbsent(() => statSync(path)) === undefined) {
    if (above !== path) yield* makingFolders(above);
    makeFolder(path);
  }
  yield above;
}

/** Ignores denied access: we have made nothing in a folder that we may not read. */
function unlessDenied(error: unknown): void {
  if (codeOf(error) !== "EACCES" && codeOf(error) !== "EPERM") throw error;
}

/**
 * Checks that a missing or empty folder or file could be made, but makes nothing. So the first read reports a store
 * that can't be made, instead of a save an hour later. A folder or file with content isn't checked, since it may be
 * read-only.
 *
 * @throws The file system's error.
 */
export function assertCanBeMade(path: string): void {
  const stats = unlessAbsent(() => statSync(path));
  if (stats === undefined) assertWritable(dirname(path));
  else if (isEmpty(path, stats))
    accessSync(path, stats.isDirectory() ? constants.W_OK | constants.X_OK : constants.W_OK);
}

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

/** Makes one folder, with mode 0700. Leaves whatever exists there as it is, even a file. */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/** Reads the whole file; `undefined` if it doesn't exist. @throws {UnreadableError} It isn't a file. */
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

/** A shared buffer; only one synchronous call at a time uses it. */
const scratch = Buffer.allocUnsafe(START_BYTES);

/**
 * Reads the beginning of a file, at least up to the end of its first line, and the file's size; `undefined` if it
 * doesn't exist. A line of usual length takes one read.
 *
 * @returns Bytes that are valid until the next call.
 * @throws {UnreadableError} It isn't a file.
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
 * The stats of the file, folder or link at that path; `undefined` if there is none. Doesn't use `throwIfNoEntry:
 * false`: newer versions of Node then hide ENOTDIR too, which means a wrong path.
 */
export function statsOf(path: string): Stats | undefined {
  return unlessAbsent(() => lstatSync(path));
}

/**
 * Whether there is a folder. Call it for each folder of the store: a link planted in its place would lead writes and
 * removals out of the store.
 *
 * @throws {StorageError} A link or a file is in the folder's place.
 */
export function isFolder(path: string): boolean {
  const stats = statsOf(path);
  if (stats === undefined || stats.isDirectory()) return stats !== undefined;
  throw new StorageError(
    `${path} is ${stats.isSymbolicLink() ? "a symbolic link, and Waymark follows none inside the store" : "not a folder"}. ` +
      "It was left untouched; move it away.",
  );
}

export function namesIn(folder: string): string[] {
  return unlessAbsent(() => readdirSync(folder)) ?? [];
}

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
    // Waymark can't have written this: no text is so long.
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
    if (codeOf(error) === "ELOOP") throw new UnreadableError("it is a symbolic link, which Waymark doesn't follow");
    if (codeOf(error) === "ENXIO") throw new UnreadableError("it is not a file");
    throw error;
  }
}
