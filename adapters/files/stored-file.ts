import { closeSync, constants, fstatSync, lstatSync, openSync, read, readSync, type Stats } from "node:fs";
import { promisify } from "node:util";
import { LARGE_BYTES } from "./durable-write.js";
import { codeOf } from "./storage-failure.js";

const readFromFile = promisify(read);

// A planted link isn't followed out of the store, and a planted pipe doesn't block. Windows knows neither flag.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * The largest file that is read: more than any text that JavaScript can hold takes. A larger one, which takes no room on
 * the disk where it is nothing but a hole, would only fill the memory.
 */
const MAX_STORED_BYTES = 1024 ** 3;

/** Why what is stored can't be read. It never leaves the adapter: a CorruptRecord or a typed error takes its place. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

/**
 * The whole file; `undefined` where there is none, or no longer.
 *
 * @throws {UnreadableError} It is no file, or larger than `maxBytes`.
 */
export async function readStored(path: string, maxBytes = MAX_STORED_BYTES): Promise<Buffer | undefined> {
  const file = open(path);
  if (file === undefined) return undefined;
  try {
    const size = sizeOf(file);
    assertSize(size, maxBytes);
    const bytes = Buffer.allocUnsafe(size);
    let done = 0;
    while (done < size) {
      const left = size - done;
      const got =
        left < LARGE_BYTES
          ? readSync(file, bytes, done, left, done)
          : (await readFromFile(file, bytes, done, left, done)).bytesRead;
      if (got === 0) break;
      done += got;
    }
    return bytes.subarray(0, done);
  } finally {
    closeSync(file);
  }
}

/** The beginning of a file, and how large the whole of it is. */
interface StoredStart {
  readonly bytes: Buffer;
  readonly size: number;
}

/**
 * The longest first line that is read or written. Metadata takes 64 KiB of it at most; a label and an error's message and
 * stack have no limit of their own.
 */
export const MAX_FIRST_LINE_BYTES = 64 * 1024 ** 2;
const START_BYTES = 4096;
const LINE_FEED = 0x0a;
/** Used by one synchronous call at a time. */
const scratch = Buffer.allocUnsafe(START_BYTES);

/**
 * The beginning of the file, up to its first line's end at least; `undefined` where there is no file, or no longer.
 * Synchronous; a line of usual length takes one read.
 *
 * @param opening - What such a file begins with. Of one that doesn't, no more than a first piece is read.
 * @returns Bytes that are valid until the next call.
 * @throws {UnreadableError} It is no file, or it or its first line is too large.
 */
export function readFirstLine(path: string, opening: Buffer): StoredStart | undefined {
  return withFile(path, (file) => {
    const got = readSync(file, scratch, 0, START_BYTES, 0);
    // Most files are smaller, and a read that gives nothing more costs less than asking for the size.
    const isWhole = got < START_BYTES && readSync(file, scratch, got, 1, got) === 0;
    if (isWhole) return { bytes: scratch.subarray(0, got), size: got };
    const size = sizeOf(file);
    assertSize(size, MAX_STORED_BYTES);
    return { bytes: readOn(file, Math.min(got, START_BYTES), size, opening), size };
  });
}

/**
 * The first piece of a file of any size; `undefined` where there is none, or no longer.
 *
 * @returns Bytes that are valid until the next call.
 * @throws {UnreadableError} It is no file.
 */
export function readStart(path: string): Buffer | undefined {
  return withFile(path, (file) => scratch.subarray(0, readSync(file, scratch, 0, START_BYTES, 0)));
}

function withFile<Result>(path: string, use: (file: number) => Result): Result | undefined {
  const file = open(path);
  if (file === undefined) return undefined;
  try {
    return use(file);
  } catch (error) {
    if (NO_FILE.has(codeOf(error) ?? "")) throw new UnreadableError("it is not a file", { cause: error });
    throw error;
  } finally {
    closeSync(file);
  }
}

/** What reading a folder or a pipe fails with. */
const NO_FILE = new Set(["EISDIR", "ESPIPE"]);

/** Reads on behind the first `done` bytes, which are in `scratch`, up to the end of the first line. */
function readOn(file: number, done: number, size: number, opening: Buffer): Buffer {
  let bytes = scratch;
  let end = done;
  let isSought = startsWith(bytes, opening) && !endsLine(bytes.subarray(0, end));
  while (isSought && end < size) {
    if (end >= MAX_FIRST_LINE_BYTES) {
      throw new UnreadableError(`its first line has more than the ${MAX_FIRST_LINE_BYTES} bytes that are read`);
    }
    const larger = Buffer.allocUnsafe(Math.min(size, end * 4, MAX_FIRST_LINE_BYTES));
    bytes.copy(larger, 0, 0, end);
    bytes = larger;
    const got = readSync(file, bytes, end, bytes.length - end, end);
    if (got === 0) break;
    isSought = !endsLine(bytes.subarray(end, end + got));
    end += got;
  }
  return bytes.subarray(0, end);
}

/** No line of ours holds a zero byte, of which a file's hole is full: there is nothing to look for behind one. */
function endsLine(piece: Buffer): boolean {
  return piece.includes(LINE_FEED) || piece.includes(0);
}

function startsWith(bytes: Buffer, opening: Buffer): boolean {
  return bytes.compare(opening, 0, opening.length, 0, opening.length) === 0;
}

function open(path: string): number | undefined {
  try {
    return openSync(path, READ_FLAGS);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    if (codeOf(error) === "ELOOP") throw new UnreadableError("it is a symbolic link, which is not followed");
    if (codeOf(error) === "ENXIO") throw new UnreadableError("it is not a file");
    throw error;
  }
}

function assertSize(size: number, maxBytes: number): void {
  if (size > maxBytes) throw new UnreadableError(`it has ${size} bytes, and more than ${maxBytes} are not read`);
}

function sizeOf(file: number): number {
  const stats = fstatSync(file);
  if (!stats.isFile()) throw new UnreadableError("it is not a file");
  return stats.size;
}

/**
 * What stands there, a link too; `undefined` where nothing does. Not by `throwIfNoEntry: false`, which newer versions of
 * Node take to mean ENOTDIR too: that is a wrong path.
 */
export function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
