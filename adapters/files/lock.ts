import { randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  utimesSync,
} from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { StorageError } from "../../src/contract/errors.js";
import { makeFolder, syncFolder, writeDurably } from "./durable-write.js";
import { codeOf } from "./failure.js";
import { nameOf } from "./names.js";

/** A claim that was not renewed for so long is stale. */
const STALE_MS = 5_000;
const RENEWAL_MS = 1_500;
/** A living holder renews its claim many times meanwhile. */
const CERTAINLY_STALE_MS = 60_000;
const LONGEST_PAUSE_MS = 20;
/** Far more thefts, or removals of the folder, than happen in a row by accident. */
const MAX_ATTEMPTS = 20;

/** The lock was stolen before a commit: nothing of it was stored, so {@link withLock} starts over. */
export class LockLostError extends Error {
  override readonly name = "LockLostError";
}

/**
 * A lock that processes share through a folder. It gives progress alone: a holder may be asleep for longer than its
 * claim stays fresh. Safety comes from how a holder commits (docs/decisions/0003):
 *
 * 1. A claim is an empty file in the lock's folder. It holds the lock if it was the only one when its maker looked.
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
  readonly #files: string;
  readonly #renewal: NodeJS.Timeout;

  private constructor(claim: string, files: string, others: readonly string[]) {
    this.#claim = claim;
    this.#files = files;
    this.isUninterrupted = existsSync(files);
    if (!this.isUninterrupted) {
      for (const path of others) rmSync(path, { recursive: true, force: true });
      makeFolder(files);
    }
    this.#renewal = setInterval(() => renew(claim), RENEWAL_MS).unref();
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
    for (let longestMs = 1; ; longestMs = Math.min(2 * longestMs, LONGEST_PAUSE_MS)) {
      const claim = makeClaim(lockFolder, owner);
      let others: readonly string[];
      try {
        const names = readdirSync(lockFolder).filter((name) => name !== basename(claim));
        others = names.filter((name) => !name.endsWith(FILES));
        const files = `${owner}${FILES}`;
        if (others.length === 0) {
          const abandoned = names.filter((name) => name !== files).map((name) => join(lockFolder, name));
          return new FolderLock(claim, join(lockFolder, files), abandoned);
        }
      } catch (error) {
        removeClaim(claim);
        throw error;
      }
      removeClaim(claim);
      if (others.every((name) => isStale(join(lockFolder, name), STALE_MS))) {
        steal(lockFolder, basename(claim));
        continue;
      }
      if (performance.now() >= deadlineMs) throw heldByOthers(lockFolder, others, timeoutMs);
      // Two that claim at once both step back. Pauses of random length part them.
      await delay(longestMs * (0.5 + Math.random()));
    }
  }

  /**
   * Puts the content under the name `target`, in the place of what may be there, and resolves once it is durable. One
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
      this.#assertHeldAfter(error);
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
      renameSync(target, path);
    } catch (error) {
      this.#assertHeldAfter(error);
      if (codeOf(error) === "ENOENT") return false;
      throw error;
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

  /** Frees the lock and removes its folder, and then the one above, where nothing else is in them. */
  releaseAndRemoveFolder(): void {
    const lockFolder = dirname(this.#claim);
    const folder = dirname(lockFolder);
    for (const name of readdirSync(folder)) {
      if (name.startsWith(`${basename(lockFolder)}-`)) rmSync(join(folder, name), { recursive: true, force: true });
    }
    rmSync(this.#files, { recursive: true, force: true });
    this.release();
    if (removeIfEmpty(lockFolder)) removeIfEmpty(folder);
  }

  #newPath(): string {
    return join(this.#files, String(count++));
  }

  #assertHeldAfter(error: unknown): void {
    if (codeOf(error) === "ENOENT") this.assertHeld();
  }
}

/** What {@link withLock} is to do. */
export interface LockOptions {
  /** The lock's folder, in the one that it locks. */
  readonly name: string;
  /** How long it waits for other processes' locks, in milliseconds. */
  readonly timeoutMs: number;
  /** See {@link FolderLock.acquire}. */
  readonly owner?: string | undefined;
  /** Makes the folder: called where it is missing. Without it, that is the system's ENOENT. */
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
        if (error instanceof LockLostError) {
          if (attempt === MAX_ATTEMPTS) throw stolenAgain(folder, error);
        } else if (lock === undefined && makeFolder && codeOf(error) === "ENOENT" && attempt < MAX_ATTEMPTS) {
          await makeFolder();
        } else throw error;
      } finally {
        lock?.release();
      }
    }
  });
}

/** What killed processes left of a lock: claims, and locks that they had stolen. */
export function abandonedIn(folder: string, name: string): string[] {
  const lockFolder = join(folder, name);
  const claims = namesIn(lockFolder).filter((claim) => !claim.endsWith(FILES));
  const thefts = namesIn(folder).filter((other) => other.startsWith(`${name}-`));
  const paths = [...claims.map((claim) => join(lockFolder, claim)), ...thefts.map((theft) => join(folder, theft))];
  return paths.filter((path) => isStale(path, CERTAINLY_STALE_MS));
}

/** A name for an owner of locks that no other one has. */
export function newOwner(): string {
  return `${process.pid}@${MACHINE}+${randomBytes(8).toString("hex")}`;
}

/** What the folder is named that an owner writes files in, in the lock's. It is there until another holds the lock. */
export function filesFolderOf(owner: string): string {
  return `${owner}${FILES}`;
}

const FILES = ".files";
/** Process numbers mean something only on one machine, and in a container of it. */
const MACHINE = `${nameOf(hostname() || "unknown")}+${pidNamespace()}`;
const THIS_PROCESS = newOwner();
let count = 0;

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

/** An empty file with a name that is never used again. */
function makeClaim(lockFolder: string, owner: string): string {
  const claim = join(lockFolder, `${owner}-${count++}`);
  const make = (): void => closeSync(openSync(claim, "wx", 0o600));
  try {
    make();
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    makeFolder(lockFolder);
    make();
  }
  return claim;
}

/** Never fails: a claim that stays is stale soon. */
function removeClaim(claim: string): void {
  try {
    unlinkSync(claim);
  } catch {
    // Stolen, as a rule.
  }
}

function renew(claim: string): void {
  const now = new Date();
  try {
    utimesSync(claim, now, now);
  } catch {
    // Stolen, as a rule: the next commit fails.
  }
}

/** Whether nobody holds the lock by this claim any more. Should that be wrong, stealing is safe. */
function isStale(path: string, staleMs: number): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats !== undefined && (isDead(basename(path)) || Math.abs(Date.now() - stats.mtimeMs) > staleMs);
}

/** Whether the process that a claim is named for has ended, as far as this machine can tell. */
function isDead(claim: string): boolean {
  const [, pid, machine] = /(\d+)@(.+)\+[0-9a-f]{16}-\d+$/.exec(claim) ?? [];
  if (machine !== MACHINE) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return codeOf(error) === "ESRCH";
  }
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

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** @returns False where it isn't empty, or isn't there. */
function removeIfEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    if (["ENOTEMPTY", "EEXIST", "ENOENT"].includes(codeOf(error) ?? "")) return false;
    throw error;
  }
}

/** Containers number their processes apart. Only Linux tells which numbering this is. */
function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "";
  } catch {
    return "";
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
