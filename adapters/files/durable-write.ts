import { closeSync, constants, fchmodSync, fstatSync, fsync, ftruncateSync, openSync, write, writeSync } from "node:fs";
import { promisify } from "node:util";
import { makeFolders } from "./make-folders.js";

/** From this size on, in bytes, a read or write would hold up the event loop, and goes to another thread. */
export const LARGE_BYTES = 512 * 1024;

const fsyncFile = promisify(fsync);
const writeFile = promisify(write);

/**
 * Makes an empty file with mode 0600, to be written through {@link writeDurably}.
 *
 * @param path - Nothing may be there, not even a link.
 */
export function makeFile(path: string): number {
  const file = openSync(path, "wx", 0o600);
  try {
    assureOwner(file);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/** Lets its owner read and write a file that was made just now. */
export function assureOwner(file: number): void {
  // A umask takes bits away, the owner's too. Only then: a file system without permissions refuses to change them.
  if ((fstatSync(file).mode & 0o600) !== 0o600) fchmodSync(file, 0o600);
}

/** Opens a file that {@link makeFile} made, and empties it. */
export function emptyFile(path: string): number {
  // Not by the flag "w", which would make a file where there is none.
  const file = openSync(path, "r+");
  try {
    ftruncateSync(file);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/**
 * Writes an empty file, resolves once its content is on the disk, and closes it either way. The file's name isn't on
 * the disk yet: that takes {@link syncFolder}.
 *
 * Only what waits for the disk is asynchronous. The other calls take microseconds each, a tenth of what a round trip
 * to another thread takes.
 */
export async function writeDurably(file: number, content: Uint8Array): Promise<void> {
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
    // The caller throws the file away, and whoever tries again writes another.
    await fsyncFile(file);
  } finally {
    closeSync(file);
  }
}

/** Resolves once the names in the folder are on the disk: a rename is atomic, but without this a power cut can undo it. */
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

/** Makes the folder and those above it that are missing, with mode 0700, and resolves once their names are on the disk. */
export async function makeFolder(path: string): Promise<void> {
  for (const changed of makeFolders(path)) await syncFolder(changed);
}
