import { constants as bufferLimits } from "node:buffer";
import { closeSync, constants, fstatSync, lstatSync, openSync, read, readdirSync, readSync, type Stats } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { LARGE_BYTES } from "./durable-write.js";
import { codeOf } from "./failure.js";

const readFromFile = promisify(read);

// A link isn't followed out of the store, and a pipe doesn't block. Windows knows neither flag.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const START_BYTES = 4096;
const LINE_FEED = 0x0a;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Why what is stored can't be read. It never leaves the adapter: a CorruptRecord or a typed error takes its place. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

/**
 * The whole file; `undefined` where there is none, or no longer.
 *
 * @throws {UnreadableError} It is no file.
 */
export async function readStored(path: string): Promise<Buffer | undefined> {
  const file = open(path);
  if (file === undefined) return undefined;
  try {
    const size = sizeOf(file);
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

/** The beginning of a file, up to its first line's end at least, and how large the whole of it is. */
interface StoredStart {
  readonly bytes: Buffer;
  readonly size: number;
}

/** Used by one synchronous call at a time. */
const scratch = Buffer.allocUnsafe(START_BYTES);

/**
 * The beginning of a file; `undefined` where there is none, or no longer. Synchronous: a line of usual length takes one
 * read.
 *
 * @returns Bytes that are valid until the next call.
 * @throws {UnreadableError} It is no file.
 */
export function readFirstLine(path: string): StoredStart | undefined {
  const file = open(path);
  if (file === undefined) return undefined;
  try {
    const size = sizeOf(file);
    let bytes = scratch.subarray(0, readSync(file, scratch, 0, START_BYTES, 0));
    while (!bytes.includes(LINE_FEED) && bytes.length < size) {
      const larger = Buffer.allocUnsafe(Math.min(size, 4 * bytes.length));
      const got = readSync(file, larger, 0, larger.length, 0);
      if (got <= bytes.length) break;
      bytes = larger.subarray(0, got);
    }
    return { bytes, size };
  } finally {
    closeSync(file);
  }
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

/** What there is in a folder; nothing where there is none, or no longer. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** @throws {UnreadableError} Not UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new UnreadableError("it is not UTF-8 text", { cause: error });
  }
}

const SLICE_MS = 5;

/**
 * Lets a long run of synchronous calls pause, so that timers, sockets and other tasks get their turn. Synchronous calls
 * in slices read many small files several times faster than asynchronous ones.
 */
export class TimeSlices {
  #beganMs = performance.now();

  /** True every few milliseconds: then `await pause()`. */
  get due(): boolean {
    return performance.now() - this.#beganMs >= SLICE_MS;
  }

  async pause(): Promise<void> {
    await setImmediate();
    this.#beganMs = performance.now();
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, READ_FLAGS);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return undefined;
    if (code === "ELOOP") throw new UnreadableError("it is a symbolic link, which is not followed");
    if (code === "ENXIO") throw new UnreadableError("it is not a file");
    throw error;
  }
}

function sizeOf(file: number): number {
  const stats = fstatSync(file);
  if (!stats.isFile()) throw new UnreadableError("it is not a file");
  // A text can't be longer, so Waymark didn't write this.
  if (stats.size > bufferLimits.MAX_STRING_LENGTH)
    throw new UnreadableError(`it has ${stats.size} bytes, too many to read`);
  return stats.size;
}
