import { StorageError } from "../../src/contract/errors.js";
import { type FolderLock, LockLostError } from "./folder-lock.js";

/** How long a write waits for other processes' locks, unless told: longer than a dead holder's takes to go stale. */
export const LOCK_TIMEOUT_MS = 15_000;
/** Far more than are lost in a row by accident. */
const MAX_LOST_LOCKS = 20;

/** Lets the writes of this process to one folder take turns, in call order. */
export class LockTurns {
  /** The end of each folder's last write. */
  readonly #queues = new Map<string, Promise<void>>();

  take<Result>(folder: string, run: () => Promise<Result>): Promise<Result> {
    const before = this.#queues.get(folder);
    const running = before ? before.then(run) : run();
    const dequeue = (): void => {
      if (this.#queues.get(folder) === ended) this.#queues.delete(folder);
    };
    // The next one goes its own way, however this one ends.
    const ended: Promise<void> = running.then(dequeue, dequeue);
    this.#queues.set(folder, ended);
    return running;
  }
}

/** A write to a folder under its lock. */
export interface LockedWrite<Result> {
  /** `undefined` where there is no folder. */
  readonly acquire: () => Promise<FolderLock | undefined>;
  /** The answer where there is no folder. Without it, `make` makes one. */
  readonly absent?: (() => Result) | undefined;
  readonly make: () => Promise<void>;
  /** Reads what it goes by after it was called: what was known before the lock was taken may no longer be true. */
  readonly work: (lock: FolderLock) => Promise<Result>;
}

/**
 * Does a write under the lock, and once more from the beginning where the lock was stolen before it could commit.
 *
 * @throws {StorageError} It was stolen time and again (retryable), or the folder can't be made.
 */
export async function underLock<Result>(
  folder: string,
  { acquire, absent, make, work }: LockedWrite<Result>,
): Promise<Result> {
  let lost: LockLostError | undefined;
  for (let attempt = 0; attempt < MAX_LOST_LOCKS; attempt++) {
    const lock = await acquire();
    if (lock === undefined) {
      if (absent) return absent();
      await make();
      continue;
    }
    try {
      return await work(lock);
    } catch (error) {
      if (!(error instanceof LockLostError)) throw error;
      lost = error;
    } finally {
      lock.release();
    }
  }
  if (lost === undefined) {
    throw new StorageError(
      `${folder} was gone each of the ${MAX_LOST_LOCKS} times that it was to be locked. Nothing was changed. ` +
        "Something keeps removing it, or it is a symbolic link that leads nowhere: remove that, or choose another path.",
    );
  }
  throw new StorageError(
    `The lock in ${folder} was stolen ${MAX_LOST_LOCKS} times before a write could be committed. Nothing was changed. ` +
      "Try again once this machine is under less load.",
    { cause: lost, retryable: true },
  );
}
