import { closeSync, fdatasync, fstatSync, openSync, realpathSync, type Stats, statSync } from "node:fs";
import { unlessAbsent } from "../files/file-io.js";

/**
 * The files that a connection has open. A person or a script may delete or replace them. Another SQLite library in this
 * process may close the database, which frees this library's locks and removes the log. SQLite doesn't notice it, and a
 * new process wouldn't see later writes.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #database: Stats;
  /** A descriptor of the log. (One of the database would free SQLite's locks when it is closed.) */
  readonly #log: number | undefined;
  /** The sync that hasn't begun. */
  #nextSync: Promise<boolean> | undefined;
  /** The last sync. If it fails, so do all later ones: the system would report success without the pages that were lost. */
  #lastSync: Promise<unknown> = Promise.resolve();

  /** @param hasLog - False for a copy, which nobody writes to. */
  constructor(path: string, hasLog: boolean) {
    this.#path = path;
    this.#database = statSync(path);
    // If the path is a link, SQLite puts the log beside the link's target.
    this.#log = hasLog ? unlessAbsent(() => openSync(`${realpathSync(path)}-wal`, "r+")) : undefined;
  }

  get hasLog(): boolean {
    return this.#log !== undefined;
  }

  /**
   * Syncs the log off the event loop. The sync begins after this call, and serves every commit before it, also those of
   * other processes. Resolves to false if the log was deleted meanwhile.
   */
  syncLog(): Promise<boolean> {
    this.#nextSync ??= this.#syncAfterLast();
    return this.#nextSync;
  }

  /** Resolves once no sync is left. */
  async idle(): Promise<void> {
    // Whoever waits for a sync gets its failure.
    while (this.#nextSync !== undefined) await Promise.allSettled([this.#nextSync]);
    await Promise.allSettled([this.#lastSync]);
  }

  /** Whether the database is still at its path, and the log beside it. */
  get areNamed(): boolean {
    return !this.#isLogDeleted && this.isDatabaseNamed;
  }

  get isDatabaseNamed(): boolean {
    return this.isOf(statSync(this.#path, { throwIfNoEntry: false }));
  }

  /** Whether the open database is this file. */
  isOf(file: Stats | undefined): boolean {
    return file?.ino === this.#database.ino && file.dev === this.#database.dev;
  }

  isSame(other: OpenFiles): boolean {
    return this.isOf(other.#database);
  }

  /** Closes the log once no sync is left. */
  close(): void {
    const log = this.#log;
    if (log !== undefined) void this.idle().then(() => closeSync(log));
  }

  async #syncAfterLast(): Promise<boolean> {
    // What is committed until then shares the sync.
    try {
      await this.#lastSync;
    } finally {
      this.#nextSync = undefined;
    }
    const syncing = this.#sync();
    this.#lastSync = syncing;
    return syncing;
  }

  async #sync(): Promise<boolean> {
    const log = this.#log;
    if (log === undefined) return true;
    await new Promise<void>((resolve, reject) => {
      fdatasync(log, (error) => (error === null ? resolve() : reject(error)));
    });
    return !this.#isLogDeleted;
  }

  get #isLogDeleted(): boolean {
    return this.#log !== undefined && fstatSync(this.#log).nlink === 0;
  }
}
