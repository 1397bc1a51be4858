import { dirname } from "node:path";
import { makeFolders, syncFolder } from "../adapters/files/file-io.js";
import { type FolderLock, turns, withLock as withFolderLock } from "../adapters/files/lock.js";
import { readCode } from "../src/contract/errors.js";
import { SharedFileLock } from "./shared-file-lock.js";

/** How long a write waits for other processes' writes in the same folder. */
const LOCK_TIMEOUT_MS = 15_000;

/** The file operations that a system may call while it holds a folder's lock. */
export interface LockedFiles {
  /** Writes a whole file, atomically. Resolves once it is on the disk. */
  write(target: string, content: Uint8Array, options?: { readonly mode?: number }): Promise<void>;
  /** Removes a file. Resolves once the removal is on the disk; false if there was no file. */
  remove(target: string): Promise<boolean>;
}

/**
 * Runs `work` under a lock that processes share. Within this process, calls run in call order. Creates the folder if it
 * is missing. If the lock is stolen before a write is committed, `work` runs again from the start.
 *
 * @throws {StorageError} Other processes held the lock for all 15 s; retryable.
 */
export function withLock<Result>(
  folder: string,
  name: string,
  work: (lock: LockedFiles) => Promise<Result>,
): Promise<Result> {
  const options = { name, timeoutMs: LOCK_TIMEOUT_MS, makeFolder: () => makeFolders(folder) };
  return withFolderLock(folder, options, (lock) => work(filesUnder(lock)));
}

/**
 * Like {@link withLock}, for a file that other programs write too: takes the lock of `proper-lockfile` on the file,
 * which other Node programs respect, and the folder's lock inside it. It writes or removes only while it holds both.
 *
 * @param file - An absolute path.
 * @throws {StorageError} Another program held the file's lock all the time, or took it meanwhile; retryable.
 */
export function withLockedFile<Result>(
  file: string,
  name: string,
  work: (lock: LockedFiles) => Promise<Result>,
): Promise<Result> {
  const folder = dirname(file);
  // proper-lockfile keeps no queue: without this, calls of this process could overtake each other.
  return turns.run(`${file}.lock`, async () => {
    const shared = await SharedFileLock.acquire(file).catch(async (error: unknown) => {
      if (readCode(error) !== "ENOENT") throw error;
      await makeFolders(folder);
      return SharedFileLock.acquire(file);
    });
    try {
      const result = await withLock(folder, name, (lock) => work(filesUnderBoth(shared, lock)));
      shared.assertHeld();
      return result;
    } finally {
      await shared.release();
    }
  });
}

function filesUnderBoth(shared: SharedFileLock, lock: LockedFiles): LockedFiles {
  return {
    async write(target, content, options) {
      shared.assertHeld();
      await lock.write(target, content, options);
    },
    async remove(target) {
      shared.assertHeld();
      return lock.remove(target);
    },
  };
}

function filesUnder(lock: FolderLock): LockedFiles {
  return {
    write: (target, content, options) => lock.write(target, content, options?.mode),
    async remove(target) {
      const isRemoved = lock.remove(target);
      if (isRemoved) await syncFolder(dirname(target));
      return isRemoved;
    },
  };
}
