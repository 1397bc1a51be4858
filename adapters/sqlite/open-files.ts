import { randomUUID } from "node:crypto";
import { linkSync, realpathSync, renameSync, rmSync, type Stats, statSync } from "node:fs";
import { StorageError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";

/**
 * The files that a connection has open. Their names may belong to other files by now. This happens if somebody deletes
 * or replaces the files, or if another SQLite library in this process closes the database, which frees this library's
 * locks and removes the log. SQLite doesn't notice it, and a new process wouldn't see later writes.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #logPath: string;
  readonly database: Stats;
  readonly #log: Stats | undefined;

  /** @param hasLog - False for a copy, which nobody writes to. */
  constructor(path: string, hasLog: boolean) {
    this.#path = path;
    // If the path is a link, SQLite puts the log beside the link's target.
    this.#logPath = `${realpathSync(path)}-wal`;
    this.database = statSync(path);
    this.#log = hasLog ? statsAt(this.#logPath) : undefined;
  }

  get isNamed(): boolean {
    return isSame(this.database, statsAt(this.#path));
  }

  get isLogNamed(): boolean {
    return this.#log === undefined || isSame(this.#log, statsAt(this.#logPath));
  }

  /**
   * Whether the open database is this file. All of SQLite's connections to a file in one process share their view of
   * its log.
   */
  isOf(file: Stats): boolean {
    return isSame(this.database, file);
  }

  /**
   * Closes the connection. If the path still belongs to the open database file, first copies the log's content into it.
   *
   * @param close - Closes all connections of this process. An open one would pass its view of the old log on to the
   *   next one.
   * @throws {StorageError} Another process has begun a new log, or uses the old one, so the content can't be copied. In
   *   the second case the connection stays open.
   */
  leave(connection: SqliteConnection, close: () => void): void {
    if (this.#log === undefined) {
      close();
      return;
    }
    const named = statsAt(this.#logPath);
    if (named !== undefined && named.size > 0 && !isSame(this.#log, named)) {
      this.#closeKeepingLog(close);
      if (!this.isNamed) return;
      throw this.#failure(
        "Another process has begun a new log. Saves that either process made since then may be lost; older checkpoints are intact. " +
          "Run `waymark verify`, and look at the newest checkpoints. The next call opens the database anew.",
      );
    }
    const isCopied = copyLog(connection);
    const { isNamed } = this;
    if (!isCopied && isNamed) {
      throw this.#failure(
        "Another process uses it, so it can't be copied into the database yet. A change that was made is lost if both " +
          "processes end now. The next call tries again.",
      );
    }
    close();
    // Otherwise SQLite would mistake the old log for the log of the database that has the path now.
    if (isCopied && !isNamed && named !== undefined) rmSync(this.#logPath, { force: true });
  }

  /**
   * Closes the connection, and keeps the other process's log. Otherwise the last connection to close would remove
   * whatever log has the name, even that of a process that has ended.
   */
  #closeKeepingLog(close: () => void): void {
    const kept = `${this.#logPath}-${randomUUID()}`;
    linkSync(this.#logPath, kept);
    close();
    // If both names still exist, rename does nothing, so the second name is removed below.
    renameSync(kept, this.#logPath);
    rmSync(kept, { force: true });
  }

  #failure(then: string): StorageError {
    return new StorageError(`The log ${this.#logPath} was removed or replaced while the database was open. ${then}`, {
      retryable: true,
    });
  }
}

/** Copies the log's content into the database. Returns whether all of it was copied. */
function copyLog(connection: SqliteConnection): boolean {
  const [isBusy, frames, copied] = connection.one("PRAGMA wal_checkpoint(FULL)") ?? [];
  return isBusy === 0 && frames === copied;
}

function statsAt(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

function isSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}
