import { chmodSync, renameSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { lock } from "proper-lockfile";
import { StorageError } from "../../src/contract/errors.js";
import { STALE_MS } from "./claim-sightings.js";
import { emptyFile, makeFile, syncFolder, writeDurably } from "./durable-write.js";
import { type ClaimOptions, describeHolders, LockClaim } from "./lock-claim.js";
import { codeOf } from "./storage-failure.js";

const LONGEST_PAUSE_MS = 20;

/** The lock was stolen before a commit: nothing of it was stored, so the caller takes the lock and starts over. */
export class LockLostError extends Error {
  override readonly name = "LockLostError";
}

/**
 * A lock that processes share through a folder, by proper-lockfile. It gives progress alone. A holder may be stopped,
 * suspended or starved for longer than its lock stays fresh, and two thieves of one stale lock may both believe they
 * have it: so safety comes from how a holder commits.
 *
 * 1. Its claim has a name in the lock's folder that is never used again, and it went on only because it was alone in
 *    there; see LockClaim.
 * 2. It writes files inside its claim, and commits by a rename out of it; it removes files by a rename into it.
 * 3. Stealing renames the lock's folder away, for good, and deletes what is in it; a thief reads the task's state only
 *    after that. A new folder takes the lock's name.
 *
 * So a holder's rename either came before the theft, and the thief sees what it did, or fails with ENOENT: its path
 * leads nowhere any more. That holds too for a rename that the system had begun and not finished, because the file it
 * was to move is deleted before the thief reads. Nothing that was stolen is ever put back under the lock's name, not
 * even where it turns out to have been fresh: that would make an old path lead somewhere again.
 */
export class FolderLock {
  readonly #claim: LockClaim;
  readonly #loss: Loss;
  readonly #letGo: () => Promise<void>;
  #begun: Begun | undefined;
  #files = 0;
  #isReleased = false;

  private constructor(claim: LockClaim, loss: Loss, letGo: () => Promise<void>) {
    this.#claim = claim;
    this.#loss = loss;
    this.#letGo = letGo;
  }

  /**
   * Waits until the lock is free or stale.
   *
   * @param lockFolder - Made where it isn't there; the one above it must exist, or the error is the system's ENOENT.
   * @param options.kind - `file` for one write, which frees the lock as it commits and costs hardly more than without a
   *   lock. `folder` for any number of writes and removals.
   * @throws {StorageError} Others held it for all of `timeoutMs`; retryable.
   */
  static async acquire(lockFolder: string, options: ClaimOptions, timeoutMs: number): Promise<FolderLock> {
    const deadlineMs = performance.now() + timeoutMs;
    for (let attempt = 0; ; attempt++) {
      const claim = new LockClaim(lockFolder, options, attempt > 0);
      const loss: Loss = { isLost: false };
      // Called from a timer, where throwing would end the process.
      const onCompromised = (): void => {
        loss.isLost = true;
      };
      try {
        const how = { lockfilePath: lockFolder, realpath: false, stale: STALE_MS, fs: claim, onCompromised };
        return new FolderLock(claim, loss, await lock(lockFolder, how));
      } catch (error) {
        claim.giveUp();
        if (!isHeld(error)) throw error;
        if (performance.now() >= deadlineMs) throw heldByOthers(lockFolder, timeoutMs, error);
      }
      // Waiters that don't keep step meet a free lock sooner.
      await delay(1 + Math.random() * Math.min(2 ** attempt, LONGEST_PAUSE_MS));
    }
  }

  /**
   * Lets the disk work on what `write` is likely to commit, while the caller finds out whether it is right. `write`
   * goes on with it if it is given this very array. Once, and only under a claim of the kind `file`.
   */
  begin(content: Uint8Array): void {
    const file = this.#claim.takeFile();
    if (file === undefined) return;
    const written = writeDurably(file, content);
    // Told to whoever commits. If nobody does, it doesn't matter.
    written.catch(() => undefined);
    this.#begun = { content, written };
  }

  /**
   * Puts the content under the name `target`, in the place of what may be there, and resolves once it is durable.
   *
   * @param options.firstInFolder - No file was committed in the target's folder yet, so the folder's own name may not
   *   be on the disk: it is put there before anything is committed under it.
   * @param options.mode - Permissions, for a file in whose place another's stood. Default 0600.
   * @throws {LockLostError} Nothing was stored.
   */
  async write(
    target: string,
    content: Uint8Array,
    options: { readonly firstInFolder: boolean; readonly mode?: number | undefined },
  ): Promise<void> {
    const folder = dirname(target);
    const claimed = this.#claim.takeFile();
    const isClaim = claimed !== undefined || this.#begun !== undefined;
    const path = isClaim ? this.#claim.path : this.#newPath();
    try {
      const written = this.#begun ? this.#goOn(this.#begun, content) : writeDurably(claimed ?? makeFile(path), content);
      await (options.firstInFolder ? Promise.all([written, syncFolder(dirname(folder))]) : written);
      this.#assertNotLost();
      if (options.mode !== undefined) chmodSync(path, options.mode);
      renameSync(path, target);
    } catch (error) {
      throw codeOf(error) === "ENOENT" ? new LockLostError("The lock was stolen before the commit.") : error;
    }
    const durable = syncFolder(folder);
    if (isClaim) {
      // The rename freed the lock, so the next one may go on. There is time for this while the disk works.
      this.#claim.markCommitted();
      this.release();
    }
    await durable;
  }

  /**
   * Removes a file. The caller syncs its folder. Only under a claim of the kind `folder`.
   *
   * @returns False where it isn't there.
   * @throws {LockLostError} Nothing was removed.
   */
  discard(target: string): boolean {
    this.#assertNotLost();
    const path = this.#newPath();
    try {
      renameSync(target, path);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      if (!this.#claim.isThere()) throw new LockLostError("The lock was stolen before a removal.");
      return false;
    }
    try {
      unlinkSync(path);
    } catch (error) {
      // A thief has deleted it.
      if (codeOf(error) !== "ENOENT") throw error;
    }
    return true;
  }

  /** Frees the lock. Idempotent. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#letGo().catch(() => {
      // It was lost in the meantime, and proper-lockfile has let go of it already.
    });
    this.#claim.giveUp();
  }

  async #goOn(begun: Begun, content: Uint8Array): Promise<void> {
    await begun.written;
    if (begun.content !== content) await writeDurably(emptyFile(this.#claim.path), content);
  }

  #newPath(): string {
    return join(this.#claim.path, String(this.#files++));
  }

  #assertNotLost(): void {
    if (this.#loss.isLost) throw new LockLostError("The lock could not be renewed in time.");
  }
}

interface Loss {
  isLost: boolean;
}

/** What is being written before it is sure that it will be committed. */
interface Begun {
  readonly content: Uint8Array;
  readonly written: Promise<void>;
}

/** proper-lockfile's own error, which isn't the system's. */
function isHeld(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ELOCKED";
}

function heldByOthers(lockFolder: string, timeoutMs: number, cause: unknown): StorageError {
  return new StorageError(
    `Could not lock ${dirname(lockFolder)}: ${describeHolders(lockFolder)} held ${lockFolder} for the ${timeoutMs} ms ` +
      "that were waited. Nothing was changed. Try again; the lock of a program that has ended frees itself in seconds.",
    { cause, retryable: true },
  );
}
