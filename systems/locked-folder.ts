import { dirname, join } from "node:path";
import { makeFolder, syncFolder } from "../adapters/files/durable-write.js";
import { FolderLock } from "../adapters/files/folder-lock.js";
import { LOCK_TIMEOUT_MS, LockTurns, underLock } from "../adapters/files/lock-turns.js";
import { codeOf } from "../adapters/files/storage-failure.js";

/** What a system does to files while it holds a folder's lock. */
export interface LockedFiles {
  /** Puts a whole file in place, atomically. Resolves once it is on the disk. */
  write(target: string, content: Uint8Array, options?: { readonly mode?: number }): Promise<void>;
  /** Removes a file. Resolves once that is on the disk, with false where there was none. */
  remove(target: string): Promise<boolean>;
}

const turns = new LockTurns();

/**
 * Runs `work` under a lock that processes share. Within this process, calls run in the order they were made. Makes the
 * folder if it is missing. If the lock is stolen before a write is committed, `work` runs again from the start.
 *
 * @throws {StorageError} Others held the lock all the time; retryable.
 */
export function withLock<Result>(
  folder: string,
  name: string,
  work: (lock: LockedFiles) => Promise<Result>,
): Promise<Result> {
  const lockFolder = join(folder, name);
  const acquire = async (): Promise<FolderLock | undefined> => {
    try {
      return await FolderLock.acquire(lockFolder, { kind: "folder", leavesFolder: false }, LOCK_TIMEOUT_MS);
    } catch (error) {
      if (codeOf(error) === "ENOENT") return undefined;
      throw error;
    }
  };
  const make = (): Promise<void> => makeFolder(folder);
  return turns.take(lockFolder, () =>
    underLock(folder, { acquire, absent: undefined, make, work: (lock) => work(filesUnder(lock)) }),
  );
}

function filesUnder(lock: FolderLock): LockedFiles {
  return {
    write: (target, content, { mode } = {}) => lock.write(target, content, { firstInFolder: true, mode }),
    async remove(target) {
      const isRemoved = lock.discard(target);
      if (isRemoved) await syncFolder(dirname(target));
      return isRemoved;
    },
  };
}
