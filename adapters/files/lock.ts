import { existsSync, readdirSync, renameSync, rmdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { StorageError } from "../../src/contract/errors.js";
import { filesFolderOf, isClaim, isStale, makeClaim, newOwner, removeClaim, renewClaim } from "./claims.js";
import { makeFolder, syncFolder, writeDurably } from "./durable-write.js";
import { codeOf } from "./failure.js";

const RENEWAL_MS = 1_500;
const LONGEST_PAUSE_MS = 20;
/** Far more thefts, or removals of the folder, than happen in a row by accident. */
const MAX_ATTEMPTS = 20;
const THIS_PROCESS = newOwner();

/** The lock was stolen before a commit: nothing of it was stored, so {@link withLock} starts over. */
export class LockLostError extends Error {
  override readonly name = "LockLostError";
}

/**
 * A lock that processes share through a folder. It gives progress alone: a holder may be asleep for longer than its
 * claim stays fresh. Safety comes from how a holder commits (docs/decisions/0003):
 *
 * 1. A claim is a file in the lock's folder. It holds the lock if it was the only one when its maker looked.
 * 2. A holder writes files in a folder of its own in there, and commits by a rename out of it.
 * 3. Stealing renames the lock's folder away for good, and deletes what is in it. Only then does the thief read.
 *
 * So a holder's rename either came before the theft, and the thief sees what it did, or it fails with ENOENT. That
 * holds too for a rename that the system had begun: its file is deleted before the thief reads.
 */
export class FolderLock {
  /** Nobody else has held the lock since this owner held it last. */
  readonly isUninterrupted: boolean;
  readonly #claim: string;
  readonly #filesFolder: string;
  readonly #renewal: NodeJS.Timeout;
  #files = 0;

  private constructor(claim: string, owner: string) {
    const lockFolder = dirname(claim);
    this.#claim = claim;
    this.#filesFolder = join(lockFolder, filesFolderOf(owner));
    this.isUninterrupted = existsSync(this.#filesFolder);
    if (!this.isUninterrupted) {
      for (const name of readdirSync(lockFolder)) {
        if (!isClaim(name)) rmSync(join(lockFolder, name), { recursive: true, force: true });
      }
      makeFolder(this.#filesFolder);
    }
    this.#renewal = setInterval(() => renewClaim(claim), RENEWAL_MS).unref();
  }

  /**
   * Waits until the lock is free, or its holder is dead.
   *
   * @param lockFolder - Made where it isn't there; the one above it must exist, or the error is the system's ENOENT.
   * @param owner - Who {@link isUninterrupted} is about. Default: this process.
   * @throws {StorageError} Others held it for all of `timeoutMs`; retryable.
   */
  static async acquire(lockFolder: string, timeoutMs: number, owner = THIS_PROCESS): Promise<FolderLock> {
    const deadlineMs = performance.now() + timeoutMs;
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const claim = makeClaim(lockFolder, owner);
      let others: readonly string[];
      try {
        others = readdirSync(lockFolder).filter((name) => isClaim(name) && name !== basename(claim));
        if (others.length === 0) return new FolderLock(claim, owner);
      } catch (error) {
        removeClaim(claim);
        throw error;
      }
      removeClaim(claim);
      if (others.every((name) => isStale(join(lockFolder, name)))) steal(lockFolder, basename(claim));
      else if (performance.now() >= deadlineMs) throw heldByOthers(lockFolder, others, timeoutMs);
      // Two that claim at once both step back. Pauses of random length part them.
      else await delay(pauseMs * (0.5 + Math.random()));
    }
  }

  /**
   * Puts the content under the name `target`, replacing what is there, and resolves once it is durable. One
   * call at a time.
   *
   * @param options.mode - Default 0600.
   * @throws {LockLostError} Nothing was stored.
   */
  async write(
    target: string,
    content: Uint8Array,
    options: { readonly mode?: number | undefined } = {},
  ): Promise<void> {
    const path = this.#newPath();
    try {
      await writeDurably(path, content, options.mode);
      renameSync(path, target);
    } catch (error) {
      if (codeOf(error) === "ENOENT") this.assertHeld();
      rmSync(path, { force: true });
      throw error;
    }
    await syncFolder(dirname(target));
  }

  /**
   * Removes a file. The caller syncs its folder.
   *
   * @returns False where it isn't there.
   * @throws {LockLostError} Nothing was removed.
   */
  remove(target: string): boolean {
    const path = this.#newPath();
    try {
      // Not by unlink, which would work for a holder that the lock was stolen from.
      renameSync(target, path);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      this.assertHeld();
      return false;
    }
    rmSync(path, { force: true });
    return true;
  }

  /** @throws {LockLostError} It was stolen: what was read since it was taken may be out of date. */
  assertHeld(): void {
    if (!existsSync(this.#claim)) throw new LockLostError("The lock was stolen.");
  }

  /** Frees the lock. Idempotent. */
  release(): void {
    clearInterval(this.#renewal);
    removeClaim(this.#claim);
  }

  /** Frees the lock and removes its folder, and the one above, as far as nothing else is in them. */
  releaseAndRemoveFolder(): void {
    const lockFolder = dirname(this.#claim);
    rmSync(this.#filesFolder, { recursive: true, force: true });
    this.release();
    try {
      rmdirSync(lockFolder);
      rmdirSync(dirname(lockFolder));
    } catch (error) {
      if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes(codeOf(error) ?? "")) throw error;
    }
  }

  #newPath(): string {
    return join(this.#filesFolder, `${basename(this.#claim)}-${this.#files++}`);
  }
}

/** How {@link withLock} takes the lock. */
export interface LockOptions {
  /** The lock's folder, in the one that it locks. */
  readonly name: string;
  /** How long it waits for other processes' locks, in milliseconds. */
  readonly timeoutMs: number;
  /** See {@link FolderLock.acquire}. */
  readonly owner?: string | undefined;
  /** Makes the folder that it locks, where it is missing. Without it, that is the system's ENOENT. */
  readonly makeFolder?: (() => Promise<void>) | undefined;
}

/**
 * Does `work` under a folder's lock, after the calls of this process that came before. Where the lock was stolen before
 * a commit, it does `work` once more from the beginning: so `work` reads what it goes by after it was called.
 *
 * @throws {StorageError} The lock couldn't be had, or was stolen time and again; retryable.
 */
export function withLock<Result>(
  folder: string,
  { name, timeoutMs, owner, makeFolder }: LockOptions,
  work: (lock: FolderLock) => Promise<Result>,
): Promise<Result> {
  const lockFolder = join(folder, name);
  return inTurn(lockFolder, async () => {
    for (let attempt = 1; ; attempt++) {
      let lock: FolderLock | undefined;
      try {
        lock = await FolderLock.acquire(lockFolder, timeoutMs, owner);
        return await work(lock);
      } catch (error) {
        const isGone = lock === undefined && makeFolder !== undefined && codeOf(error) === "ENOENT";
        if (error instanceof LockLostError && attempt === MAX_ATTEMPTS) throw stolenAgain(folder, error);
        if (!(error instanceof LockLostError) && !(isGone && attempt < MAX_ATTEMPTS)) throw error;
        if (isGone) await makeFolder();
      } finally {
        lock?.release();
      }
    }
  });
}

/** The end of the last call for each lock. */
const turns = new Map<string, Promise<void>>();

function inTurn<Result>(key: string, run: () => Promise<Result>): Promise<Result> {
  const before = turns.get(key);
  const running = before ? before.then(run) : run();
  const dequeue = (): void => {
    if (turns.get(key) === ended) turns.delete(key);
  };
  // The next one goes its own way, however this one ends.
  const ended: Promise<void> = running.then(dequeue, dequeue);
  turns.set(key, ended);
  return running;
}

/** Renames the whole lock away, then deletes what is in it: see {@link FolderLock} for why in this order. */
function steal(lockFolder: string, claim: string): void {
  const stolen = `${lockFolder}-${claim}`;
  try {
    renameSync(lockFolder, stolen);
    rmSync(stolen, { recursive: true, force: true });
  } catch (error) {
    // Another thief was first, or a claim was made in it just now: it doesn't hold, since its folder is gone.
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTEMPTY") throw error;
  }
}

function heldByOthers(lockFolder: string, claims: readonly string[], timeoutMs: number): StorageError {
  const holders = claims.map((claim) => claim.replace(/\+.*/, "")).join(" and ");
  return new StorageError(
    `Could not lock ${dirname(lockFolder)}: ${holders} held ${lockFolder} for the ${timeoutMs} ms that were waited. ` +
      "Nothing was changed. Try again; the lock of a program that has ended frees itself in seconds.",
    { retryable: true },
  );
}

function stolenAgain(folder: string, cause: LockLostError): StorageError {
  return new StorageError(
    `The lock in ${folder} was stolen ${MAX_ATTEMPTS} times before a write could be committed. Nothing was changed. ` +
      "Try again once this machine is under less load.",
    { cause, retryable: true },
  );
}
