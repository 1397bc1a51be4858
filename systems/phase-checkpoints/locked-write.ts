import { dirname } from "node:path";
import { makeFolder } from "../../adapters/files/durable-write.js";
import { FolderLock } from "../../adapters/files/folder-lock.js";
import type { ClaimKind } from "../../adapters/files/lock-claim.js";
import { LOCK_TIMEOUT_MS, type LockedWrite, LockTurns, underLock } from "../../adapters/files/lock-turns.js";
import { codeOf } from "../../adapters/files/storage-failure.js";

interface Write<Result> extends Pick<LockedWrite<Result>, "absent" | "work"> {
  /** Stands in the folder that it locks; is there only as long as somebody holds it. */
  readonly lockFolder: string;
  readonly claim: ClaimKind;
}

const turns = new LockTurns();

/**
 * Does a write under a lock that processes share, those of this process in call order.
 *
 * @throws {StorageError} Others held the lock for 15 s, or it kept being stolen; retryable.
 */
export function writeUnderLock<Result>({ lockFolder, claim, absent, work }: Write<Result>): Promise<Result> {
  const folder = dirname(lockFolder);
  const acquire = async (): Promise<FolderLock | undefined> => {
    try {
      return await FolderLock.acquire(lockFolder, { kind: claim, leavesFolder: false }, LOCK_TIMEOUT_MS);
    } catch (error) {
      if (codeOf(error) === "ENOENT") return undefined;
      throw error;
    }
  };
  const make = (): Promise<void> => makeFolder(folder);
  return turns.take(lockFolder, () => underLock(folder, { acquire, absent, make, work }));
}
