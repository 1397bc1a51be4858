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
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  type Stats,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { promisify, types } from "node:util";
import { readCode, StorageError } from "../../src/contract/errors.js";

// Only calls that wait for the disk are asynchronous. The others take microseconds, a tenth of what handing them to
// another thread would cost.
const fsyncFile = promisify(fsync);

// O_NOFOLLOW keeps a link from leading out of the store, and O_NONBLOCK keeps a pipe from blocking. Windows has neither
// flag.
export const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const REWRITE_FLAGS = constants.O_RDWR | (constants.O_NOFOLLOW ?? 0);
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
/** After this many synchronous calls, a loop lets timers, sockets and other tasks run. */
export const SLICE = 100;
/** A decoder that throws if the bytes aren't UTF-8. */
export const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The reason why stored data can't be read. Callers of the adapter never see this error, because the adapter turns it
 * into a CorruptRecord or a typed error.
 */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

/** The content of a file, whole or in parts. */
export type FileContent = Uint8Array | AsyncIterable<Uint8Array>;

/**
 * Writes a file and resolves once its content is on the disk. The file's name is on the disk only after
 * {@link syncFolder}.
 *
 * @param options.isEmptyFile - True if an empty file exists at `path`. Default: nothing may exist there, not even a
 *   link.
 */
export async function writeDurably(
  path: string,
  content: FileContent,
  { mode = 0o600, isEmptyFile = false }: { readonly mode?: number | undefined; readonly isEmptyFile?: boolean } = {},
): Promise<void> {
  await withOpenFile(
    () => openSync(path, isEmptyFile ? REWRITE_FLAGS : "wx", mode),
    async (file) => {
      if (types.isUint8Array(content)) writeAll(file, content);
      else for await (const part of content) writeAll(file, part);
      // A failed fsync isn't repeated: the system may have dropped the pages, and a second fsync would succeed without
      // them. The caller deletes the file, and the next try writes a new one.
      return fsyncFile(file);
    },
  );
}

function writeAll(file: number, content: Uint8Array): void {
  // writeSync may write only a part. If the disk is full, the next call fails.
  for (let done = 0; done < content.length; ) done += writeSync(file, content, done);
}

/**
 * Resolves once the folder's names are on the disk. A rename is atomic, but a power cut can undo it until the folder is
 * synced.
 */
export async function syncFolder(path: string): Promise<void> {
  // Windows can't sync a folder, but NTFS writes names to its own journal.
  if (process.platform !== "win32") await withOpenFile(() => openSync(path, FOLDER_FLAGS), fsyncFile);
}

/** {@link syncFolder} for SQLite, whose calls are synchronous. */
export function syncFolderSync(path: string): void {
  if (process.platform === "win32") return;
  const folder = openSync(path, FOLDER_FLAGS);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * How many files may be open at once for a sync. The number is far below any system's limit, and above the four threads
 * that Node uses for syncs.
 */
const MAX_OPEN_FILES = 16;
let openFiles = 0;
const waiting: (() => void)[] = [];

/**
 * Opens a file, and closes it after `use`. If {@link MAX_OPEN_FILES} are open, waits until one is closed, so that many
 * saves at once don't use up the process's file descriptors. (All other files are open only during one synchronous
 * call.)
 */
export async function withOpenFile(open: () => number, use: (file: number) => Promise<void>): Promise<void> {
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
 * Makes a folder and the missing folders above it, with mode 0700, and resolves once all their names are on the disk.
 * Each folder's name is synced before the next folder is made. If a process dies in between, at most the last folder's
 * name is missing on the disk, and the next call syncs it.
 *
 * Doesn't use mkdir's `recursive`, because Node then tries forever if a file system answers ENOENT to any new name, as
 * /proc does.
 *
 * @param path - An absolute path. If something exists there, even a file, it is left as it is.
 * @throws The file system's error.
 */
export async function makeFolders(path: string): Promise<void> {
  for (const above of makeMissing(path)) await syncFolder(above).catch(unlessDenied);
}

/** {@link makeFolders} for SQLite, whose calls are synchronous. */
export function makeFoldersSync(path: string): void {
  for (const above of makeMissing(path)) {
    try {
      syncFolderSync(above);
    } catch (error) {
      unlessDenied(error);
    }
  }
}

/**
 * Makes the missing folders. After each one, yields the folder above it, which the caller must sync before continuing.
 */
function* makeMissing(path: string): Generator<string, void, void> {
  const above = dirname(path);
  if (unlessAbsent(() => statSync(path)) === undefined) {
    if (above !== path) yield* makeMissing(above);
    makeFolder(path);
  }
  yield above;
}

/**
 * Rethrows the error unless access was denied. A folder that this process may not read needs no sync, since the process
 * has made nothing in it.
 */
function unlessDenied(error: unknown): void {
  if (readCode(error) !== "EACCES" && readCode(error) !== "EPERM") throw error;
}

/**
 * Checks that a missing or empty folder or file could be made, but makes nothing. This way the first read reports a
 * store that can't be made, instead of a save an hour later. A folder or file with content isn't checked, since it may
 * be read-only.
 *
 * @throws The file system's error.
 */
export function assertCanBeMade(path: string): void {
  let existing = path;
  while (unlessAbsent(() => statSync(existing)) === undefined) existing = dirname(existing);
  const stats = statSync(existing);
  const isEmpty = stats.isDirectory() ? existing !== path || readdirSync(path).length === 0 : stats.size === 0;
  if (isEmpty) accessSync(existing, constants.W_OK);
}

/** Makes one folder, with mode 0700. If something exists there, even a file, it is left as it is. */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (readCode(error) !== "EEXIST") throw error;
  }
}

/** Reads the whole file. Returns `undefined` if it doesn't exist. @throws {UnreadableError} The path isn't a file. */
export function readStored(path: string): Buffer | undefined {
  return readOpened(path, (file) => readFileSync(file));
}

/** A shared buffer; only one synchronous call at a time uses it. */
const scratch = Buffer.allocUnsafe(4096);

/**
 * Reads the beginning of a file, at least up to the end of its first line, and the file's size. One read is enough for
 * a line of usual length.
 *
 * @returns `undefined` if the file doesn't exist. The bytes are valid until the next call.
 * @throws {UnreadableError} The path isn't a file.
 */
export function readFirstLine(path: string): { readonly bytes: Buffer; readonly size: number } | undefined {
  return readOpened(path, (file, size) => {
    for (let buffer = scratch; ; buffer = Buffer.allocUnsafe(4 * buffer.length)) {
      const bytes = buffer.subarray(0, readSync(file, buffer, 0, buffer.length, 0));
      if (bytes.includes("\n") || bytes.length < buffer.length) return { bytes, size };
    }
  });
}

/** @throws {UnreadableError} The bytes aren't UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new UnreadableError("it is not UTF-8 text", { cause: error });
  }
}

/**
 * Returns the stats of the file, folder or link at this path; `undefined` if there is none. Doesn't use
 * `throwIfNoEntry: false`, because newer versions of Node then also hide ENOTDIR, which means that the path is wrong.
 */
export function readStats(path: string): Stats | undefined {
  return unlessAbsent(() => lstatSync(path));
}

/**
 * Whether there is a folder at this path. Call this for each folder of the store, because a link planted in a folder's
 * place would lead writes and removals out of the store.
 *
 * @throws {StorageError} A link or a file is in the folder's place.
 */
export function isFolder(path: string): boolean {
  const stats = readStats(path);
  if (stats === undefined || stats.isDirectory()) return stats !== undefined;
  throw new StorageError(
    `${path} is ${stats.isSymbolicLink() ? "a symbolic link, which Waymark doesn't follow inside the store" : "not a folder"}. ` +
      "It was left untouched; move it away.",
  );
}

export function listNames(folder: string): string[] {
  return unlessAbsent(() => readdirSync(folder)) ?? [];
}

export function unlessAbsent<Result>(call: () => Result): Result | undefined {
  try {
    return call();
  } catch (error) {
    if (readCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function readOpened<Result>(path: string, read: (file: number, size: number) => Result): Result | undefined {
  const file = openToRead(path);
  if (file === undefined) return undefined;
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) throw new UnreadableError("it is not a file");
    // Waymark can't have written this file, because no JavaScript string is so long.
    if (stats.size > bufferLimits.MAX_STRING_LENGTH)
      throw new UnreadableError(`it has ${stats.size} bytes, too many to read`);
    return read(file, stats.size);
  } finally {
    closeSync(file);
  }
}

export function openToRead(path: string): number | undefined {
  try {
    return unlessAbsent(() => openSync(path, READ_FLAGS));
  } catch (error) {
    if (readCode(error) !== "ELOOP") throw error;
    throw new UnreadableError("it is a symbolic link, which Waymark doesn't follow");
  }
}
