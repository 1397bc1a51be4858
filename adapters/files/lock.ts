import { randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  utimes,
} from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { readCode, StorageError } from "../../src/contract/errors.js";
import { processHasEnded } from "../../src/contract/holder.js";
import { Turns } from "../../src/contract/turns.js";
import { type FileContent, isFolder, listNames, makeFolder, readStats, syncFolder, writeDurably } from "./file-io.js";
import { toFileName } from "./names.js";

/**
 * The lock's folder, in the folder that it locks. While the lock is free, the folder contains no files, so Git ignores
 * it.
 */
const LOCK_NAME = ".lock";
const RENEWAL_MS = 1_500;
/** A claim that wasn't renewed for this long is stale. */
const STALE_MS = 5_000;
const MAX_PAUSE_MS = 20;
/** How often a call tries to lock. A lock isn't stolen or removed this many times in a row by chance. */
const MAX_ATTEMPTS = 20;
const HOST = toFileName(hostname() || "unknown");
/** The name of this process or worker thread. The name of each claim adds a number that is never used again. */
const OWNER = `${process.pid}@${HOST}+${randomBytes(8).toString("hex")}`;
const FILES = ".files";
/**
 * The subfolder of a lock's folder in which this process writes files. The subfolder stays until another process holds
 * the lock.
 */
const OWN_FILES = `${OWNER}${FILES}`;
/**
 * The token of a clean lock: an empty folder in the lock's folder, which a theft removes. See
 * {@link FolderLock.isClean}.
 */
const CLEAN = "clean";
let count = 0;

/** The lock was stolen before a commit. Nothing of the commit was stored, so {@link withLock} starts over. */
export class LockLostError extends StorageError {
  constructor(lockFolder: string) {
    super(
      `The lock ${lockFolder} was stolen before a write could be committed. ` +
        "Nothing was changed. Try again once this machine is under less load.",
      { retryable: true },
    );
  }
}

/**
 * A lock that processes share through a folder. The lock only avoids contention: if a holder sleeps until its claim is
 * stale, another process steals the lock. The steps of a commit prevent lost updates (docs/decisions/0003):
 *
 * - A claim is a file in the lock's folder. Its process holds the lock if it found no other claim after making its own.
 * - A holder writes a file in the lock's folder (the claim, or one in its own subfolder), and commits by renaming it to
 *   its target.
 * - A thief renames the lock's folder to a new name and deletes its content before it reads the locked data.
 *
 * If the holder's rename comes before the theft, the thief sees the new file. If it comes after, the rename fails with
 * ENOENT. The same is true if the system has begun the rename, because its file is deleted before the thief reads.
 *
 * A log is written in place, without a rename, so a holder that sleeps may still write to it after a theft. A process
 * that takes a lock that isn't clean therefore first moves the end of the log (docs/formats.md).
 */
export class FolderLock {
  /** True if no other process has held the lock since this process last held it. */
  readonly isUninterrupted: boolean;
  readonly #claim: string;
  readonly #renewal: NodeJS.Timeout;
  #isHeld = true;
  #isClean = false;

  private constructor(claim: string, names: readonly string[]) {
    const lockFolder = dirname(claim);
    this.#claim = claim;
    this.isUninterrupted = names.includes(OWN_FILES);
    if (!this.isUninterrupted) {
      makeFolder(join(lockFolder, OWN_FILES));
      if (this.isLost) {
        // A thief has renamed the lock's folder in the meantime, so OWN_FILES was made in another process's lock.
        rmdirSync(join(lockFolder, OWN_FILES));
        throw new LockLostError(lockFolder);
      }
      // Remove the leftovers of earlier holders. If this lock was stolen, the thief's files aren't touched.
      for (const name of names.filter((name) => name.endsWith(FILES))) this.remove(join(lockFolder, name));
    }
    this.#isClean = names.includes(CLEAN);
    // A failed renewal is ignored. It usually means that the lock was stolen, and then the next commit fails.
    this.#renewal = setInterval(() => utimes(claim, new Date(), new Date(), () => undefined), RENEWAL_MS).unref();
  }

  /**
   * Takes the lock. If another process holds it, waits until the lock is free or its holder is dead.
   *
   * @param lockFolder - Made if it is missing. If the folder above doesn't exist, the system's ENOENT is thrown.
   * @throws {StorageError} Other processes held the lock for all of `timeoutMs` (retryable), or a link or a file is in
   *   the lock's place.
   */
  static async acquire(lockFolder: string, timeoutMs: number): Promise<FolderLock> {
    const deadlineMs = performance.now() + timeoutMs;
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const claim = join(lockFolder, `${OWNER}-${count++}`);
      // A holder deletes files in the lock's folder, so the folder must not be a link.
      if (!isFolder(lockFolder)) makeFolder(lockFolder);
      const others: string[] = [];
      try {
        closeSync(openSync(claim, "wx", 0o600));
        const names = readdirSync(lockFolder);
        others.push(...names.filter((name) => isClaim(name) && name !== basename(claim)));
        if (others.length === 0) return new FolderLock(claim, names);
      } catch (error) {
        removeClaim(claim);
        throw error;
      }
      removeClaim(claim);
      if (others.every((name) => isStale(join(lockFolder, name)))) steal(lockFolder, claim);
      else if (performance.now() >= deadlineMs) throw makeHeldError(lockFolder, others, timeoutMs);
      // If two processes claim at once, both retry, after random pauses.
      else await delay(pauseMs * (0.5 + Math.random()));
    }
  }

  /**
   * Whether no earlier holder can still write to a log in the locked folder. Each one has finished, or the log's end
   * was moved after the theft of its lock.
   */
  get isClean(): boolean {
    return this.#isClean;
  }

  /**
   * Declares the lock clean, until another process steals it. Never throws, since the caller may have stored records,
   * and a missing token only costs the next holder more work.
   */
  markClean(): void {
    if (this.#isClean) return;
    const made = join(dirname(this.#claim), OWN_FILES, CLEAN);
    try {
      // The token is made in this holder's own subfolder, so that a thief's lock doesn't get it.
      makeFolder(made);
      renameSync(made, this.#cleanToken);
      this.#isClean = true;
    } catch {
      // Ignored: the lock was stolen, or the disk is full.
    }
  }

  /** Makes the next holder move the end of the log, and sync the log and its name. */
  markUnclean(): void {
    this.#isClean = false;
    rmSync(this.#cleanToken, { recursive: true, force: true });
  }

  /**
   * Stores the content at `target`, replacing any file there, and resolves once it is durable. Make one call at a time.
   *
   * @throws {LockLostError} Nothing was stored.
   */
  write(target: string, content: FileContent, mode?: number): Promise<void> {
    return this.#put(this.#makePath(), target, content, mode);
  }

  /**
   * Like {@link FolderLock.write}, for a holder's last write. Writes into the claim and renames it, which frees the
   * lock, because making and removing another file would take longer than the rest of the save. If the lock is clean,
   * writes another file and keeps the claim, so the lock stays held and clean.
   *
   * @throws {LockLostError} Nothing was stored.
   */
  writeLast(target: string, content: Uint8Array): Promise<void> {
    return this.#put(this.#isClean ? this.#makePath() : this.#claim, target, content);
  }

  /**
   * Removes a file or a folder. The caller must sync the folder above it.
   *
   * @returns False if there is no such file or folder.
   * @throws {LockLostError} Nothing was removed.
   */
  remove(target: string): boolean {
    const path = this.#makePath();
    try {
      // This renames the file, because unlink would succeed even if the lock was stolen.
      renameSync(target, path);
    } catch (error) {
      if (readCode(error) !== "ENOENT") throw error;
      this.assertHeld();
      return false;
    }
    rmSync(path, { recursive: true, force: true });
    return true;
  }

  /** True if another process stole the lock, or removed the lock's folder, before this one freed it. */
  get isLost(): boolean {
    return this.#isHeld && !existsSync(this.#claim);
  }

  /** @throws {LockLostError} The lock was stolen, so data read under it may be out of date. */
  assertHeld(): void {
    if (!existsSync(this.#claim)) throw new LockLostError(dirname(this.#claim));
  }

  release(): void {
    clearInterval(this.#renewal);
    if (this.#isHeld) removeClaim(this.#claim);
    this.#isHeld = false;
  }

  /** Frees the lock. Then removes the lock's folder and the locked folder if they are empty. */
  releaseAndRemoveFolder(): void {
    const lockFolder = dirname(this.#claim);
    rmSync(join(lockFolder, OWN_FILES), { recursive: true, force: true });
    this.markUnclean();
    this.release();
    try {
      rmdirSync(lockFolder);
      rmdirSync(dirname(lockFolder));
    } catch (error) {
      if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes(readCode(error))) throw error;
    }
  }

  async #put(path: string, target: string, content: FileContent, mode?: number): Promise<void> {
    const isClaim = path === this.#claim;
    try {
      await writeDurably(path, content, { mode, isEmptyFile: isClaim });
      renameSync(path, target);
    } catch (error) {
      if (readCode(error) === "ENOENT") this.assertHeld();
      if (!isClaim) rmSync(path, { force: true });
      throw error;
    }
    this.#isHeld = !isClaim;
    try {
      await syncFolder(dirname(target));
    } catch (error) {
      // The next holder syncs the folder.
      this.markUnclean();
      // ENOENT is ignored after the last write. The file was stored and the lock freed, so another process may have
      // removed the folder since.
      if (this.#isHeld || readCode(error) !== "ENOENT") throw error;
    }
  }

  #makePath(): string {
    return join(dirname(this.#claim), OWN_FILES, String(count++));
  }

  get #cleanToken(): string {
    return join(dirname(this.#claim), CLEAN);
  }
}

/**
 * Runs `work` under a folder's lock, after earlier calls of this process. If the lock is stolen before a commit, runs
 * `work` again from the beginning, so `work` must read all its data itself.
 *
 * @param options.timeoutMs - How long to wait while other processes hold the lock.
 * @param options.makeFolder - Makes the folder to lock if it is missing.
 * @param options.absent - Returns the result if the folder to lock is missing. Without `makeFolder` and `absent`, the
 *   call fails with the system's ENOENT.
 * @throws {StorageError} The lock couldn't be taken, or was stolen {@link MAX_ATTEMPTS} times. Retryable.
 */
export function withLock<Result>(
  folder: string,
  options: {
    readonly name?: string;
    readonly timeoutMs: number;
    readonly makeFolder?: (() => void | Promise<void>) | undefined;
    readonly absent?: (() => Result | Promise<Result>) | undefined;
  },
  work: (lock: FolderLock) => Promise<Result>,
): Promise<Result> {
  const { name = LOCK_NAME, timeoutMs, makeFolder, absent } = options;
  const lockFolder = join(folder, name);
  return turns.run(lockFolder, async () => {
    for (let attempt = 1; ; attempt++) {
      let lock: FolderLock | undefined;
      try {
        lock = await FolderLock.acquire(lockFolder, timeoutMs);
        return await work(lock);
      } catch (error) {
        // Another process removed the folder, or the lock in it. Either may exist again by now.
        const isGone = readCode(error) === "ENOENT" && (lock?.isLost ?? true);
        if (isGone && absent && readStats(folder) === undefined) return await absent();
        if (attempt === MAX_ATTEMPTS || !(isGone || error instanceof LockLostError)) throw error;
        if (isGone) await makeFolder?.();
      } finally {
        lock?.release();
      }
    }
  });
}

/** Whether this process was the last to hold a folder's lock. */
export function wasHeldLastHere(folder: string): boolean {
  return existsSync(join(folder, LOCK_NAME, OWN_FILES));
}

/**
 * Lists the leftovers of killed processes in a folder: claims and other files in the folder's lock, and stolen locks.
 *
 * @throws {StorageError} A link or a file is in the lock's place.
 */
export function listAbandoned(folder: string): string[] {
  const lockFolder = join(folder, LOCK_NAME);
  const files = isFolder(lockFolder) ? listNames(lockFolder).filter(isClaim) : [];
  const thefts = listNames(folder).filter((name) => name.startsWith(`${LOCK_NAME}-`));
  return [...files.map((name) => join(LOCK_NAME, name)), ...thefts].map((name) => join(folder, name)).filter(isStale);
}

/** Queues this process's calls by the folder that they lock. */
export const turns = new Turns();

function isClaim(name: string): boolean {
  return name !== CLEAN && !name.endsWith(FILES);
}

function removeClaim(claim: string): void {
  try {
    unlinkSync(claim);
  } catch (error) {
    // After any other error, the claim still exists and would block other processes. So remove the whole lock's folder.
    if (readCode(error) !== "ENOENT") steal(dirname(claim), claim);
  }
}

/** Whether the claim seems abandoned. Stealing the lock is safe even if it isn't. */
function isStale(claim: string): boolean {
  const stats = readStats(claim);
  if (stats === undefined) return false;
  const [pid, host] = basename(claim).replace(/\+.*/, "").split("@");
  const isDead = host === HOST && processHasEnded(Number(pid));
  return isDead || Math.abs(Date.now() - stats.mtimeMs) > STALE_MS;
}

/** Renames the lock's folder away, then deletes it. {@link FolderLock} explains the order. */
function steal(lockFolder: string, thief: string): void {
  const stolen = `${lockFolder}-${basename(thief)}`;
  try {
    renameSync(lockFolder, stolen);
    rmSync(stolen, { recursive: true, force: true });
  } catch (error) {
    // Either another thief was first, or another process has just made a claim in the stolen folder. Such a claim
    // doesn't hold the lock.
    if (readCode(error) !== "ENOENT" && readCode(error) !== "ENOTEMPTY") throw error;
  }
}

function makeHeldError(lockFolder: string, claims: readonly string[], timeoutMs: number): StorageError {
  const holders = claims.map((claim) => claim.replace(/\+.*/, "")).join(" and ");
  return new StorageError(
    `Could not lock ${dirname(lockFolder)}: ${holders} held ${lockFolder} for all ${timeoutMs} ms of lockTimeoutMs. ` +
      "Nothing was changed. Try again; if a program has ended, its lock becomes free within seconds.",
    { retryable: true },
  );
}
