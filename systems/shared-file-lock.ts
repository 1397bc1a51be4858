import { setTimeout as delay } from "node:timers/promises";
import { readStats } from "../adapters/files/file-io.js";
import { isError, StorageError } from "../src/contract/errors.js";

/** proper-lockfile's own default. A shorter time would take the locks of live programs. */
const STALE_MS = 10_000;
/** Longer than a lock takes to become stale, so that a killed process's lock is waited out. */
const TIMEOUT_MS = 15_000;
const LONGEST_PAUSE_MS = 100;

/**
 * The lock of `proper-lockfile` on one file: a folder `<file>.lock` beside it, kept fresh while it is held. Other Node
 * programs respect it. This lock can't stop a holder that slept, so our own lock is taken inside it.
 */
export class SharedFileLock {
  readonly #file: string;
  readonly #release: () => Promise<void>;
  readonly #identity: string | undefined;
  readonly #loss: { error?: Error };

  private constructor(file: string, release: () => Promise<void>, loss: { error?: Error }) {
    this.#file = file;
    this.#release = release;
    this.#loss = loss;
    this.#identity = readIdentity(file);
  }

  /**
   * Waits until the lock is free or stale.
   *
   * @param file - An absolute path in a folder that exists. The file itself need not exist.
   * @throws {StorageError} Another program held the lock for all 15 s; retryable.
   * @throws The system's ENOENT, if the folder doesn't exist.
   */
  static async acquire(file: string): Promise<SharedFileLock> {
    // proper-lockfile is loaded at the first write, because it listens to the process's signals. A program that only
    // reads doesn't need that.
    const { lock } = (await import("proper-lockfile")).default;
    const deadlineMs = performance.now() + TIMEOUT_MS;
    for (let pauseMs = 2; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const loss: { error?: Error } = {};
      // By default, proper-lockfile throws in a timer when the lock is lost, which would end the caller's process.
      const onCompromised = (error: Error): void => void Object.assign(loss, { error });
      try {
        return new SharedFileLock(file, await lock(file, { realpath: false, stale: STALE_MS, onCompromised }), loss);
      } catch (error) {
        // proper-lockfile's own retries would also repeat calls that the system refuses (EACCES).
        if (!isHeld(error)) throw error;
        if (performance.now() >= deadlineMs) throw heldByAnother(file, error);
      }
      await delay(pauseMs * (0.5 + Math.random()));
    }
  }

  /** @throws {StorageError} Another program has taken the lock, or removed it; retryable. */
  assertHeld(): void {
    if (this.#loss.error === undefined && this.#isOurs()) return;
    throw new StorageError(
      `The lock ${openLock(this.#file)} was taken or removed by another program while ${this.#file} was being changed. The ` +
        "other program may have changed the file too. Read it again, then repeat the call.",
      { cause: this.#loss.error, retryable: true },
    );
  }

  async release(): Promise<void> {
    // Without this check, proper-lockfile would even remove another holder's lock.
    if (this.#loss.error !== undefined || !this.#isOurs()) return;
    // If releasing fails, the written data is safe, and the lock becomes stale by itself.
    await this.#release().catch(() => undefined);
  }

  #isOurs(): boolean {
    const now = readIdentity(this.#file);
    return now === this.#identity || now === "unknown" || this.#identity === "unknown";
  }
}

/**
 * Identifies the lock's folder. The inode isn't enough, because the next folder may get the same one. Returns
 * `unknown` if the system has no better identity.
 */
function readIdentity(file: string): string | undefined {
  try {
    const stats = readStats(openLock(file));
    return stats && `${stats.ino} ${stats.birthtimeMs}`;
  } catch {
    // The system doesn't say.
    return "unknown";
  }
}

function openLock(file: string): string {
  return `${file}.lock`;
}

function isHeld(error: unknown): boolean {
  return isError(error) && "code" in error && error.code === "ELOCKED";
}

function heldByAnother(file: string, cause: unknown): StorageError {
  return new StorageError(
    `Could not lock ${file}: another program held ${openLock(file)} for all ${TIMEOUT_MS / 1000} seconds. Nothing was changed. ` +
      `Try again; the lock of a program that was killed is free ${STALE_MS / 1000} seconds after its last sign of life.`,
    { cause, retryable: true },
  );
}
