import { closeSync, constants, fsync, mkdirSync, openSync, statSync, write, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { codeOf } from "./failure.js";

/** From this size on, in bytes, a read or write would hold up the event loop, and goes to another thread. */
export const LARGE_BYTES = 512 * 1024;

const fsyncFile = promisify(fsync);
const writeFile = promisify(write);

/**
 * Makes a file and resolves once its content is on the disk. Its name isn't yet: that takes {@link syncFolder}.
 *
 * Only what waits for the disk is asynchronous. The other calls take microseconds each, a tenth of what a round trip
 * to another thread takes.
 *
 * @param path - Nothing may be there, not even a link.
 */
export async function writeDurably(path: string, content: Uint8Array, mode = 0o600): Promise<void> {
  const file = openSync(path, "wx", mode);
  try {
    let done = 0;
    while (done < content.length) {
      const left = content.length - done;
      // A write may be short: a full disk or a signal shows in the next one.
      done +=
        left < LARGE_BYTES
          ? writeSync(file, content, done, left)
          : (await writeFile(file, content, done, left, null)).bytesWritten;
    }
    // A failed fsync is final: the system may have dropped the pages, so a second one would succeed without them.
    // The caller throws the file away, and the next try writes another.
    await fsyncFile(file);
  } finally {
    closeSync(file);
  }
}

/** Resolves once the folder's names are on the disk: a rename is atomic, but without this a power cut can undo it. */
export async function syncFolder(path: string): Promise<void> {
  // Windows opens no folder for this; NTFS writes names to its journal itself.
  if (process.platform === "win32") return;
  const folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await fsyncFile(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * Makes a folder and those above it that are missing, with mode 0700, and resolves once its name is on the disk. Each
 * folder's name is synced before the next one is made. So where a process dies in between, only the last folder may
 * have a name that isn't on the disk, and the next call begins with it.
 *
 * Not by mkdir's `recursive`: where a file system answers ENOENT to any new name, as /proc does, Node tries for ever.
 *
 * @param path - Absolute. What is there already is left as it is, a file too.
 * @throws What the file system answers.
 */
export async function makeFolders(path: string): Promise<void> {
  const above = dirname(path);
  if (!isThere(path)) {
    if (above !== path) await makeFolders(above);
    makeFolder(path);
  }
  try {
    await syncFolder(above);
  } catch (error) {
    // A folder that we may not read is not one that we have made another in.
    if (codeOf(error) !== "EACCES" && codeOf(error) !== "EPERM") throw error;
  }
}

/** Makes one folder, with mode 0700. What is there already is left as it is, a file too. */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

function isThere(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}
