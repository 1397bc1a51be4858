import { randomUUID } from "node:crypto";
import { linkSync, realpathSync, renameSync, rmSync, type Stats, statSync } from "node:fs";
import { StorageError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";

/**
 * The first version of SQLite that knows `wal_checkpoint(NOOP)`, which only counts. Older versions run it as PASSIVE,
 * which copies.
 */
const COUNTS_SINCE = [3, 51] as const;

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
   * @throws {StorageError} The content can't be copied, because another process has begun a new log.
   * @throws {LogInUseError} The content can't be copied yet. The connection stays open.
   */
  leave(connection: SqliteConnection, close: () => void): void {
    const named = statsAt(this.#logPath);
    const isTheirs = this.#log !== undefined && named !== undefined && named.size > 0 && !isSame(this.#log, named);
    if (isTheirs && (!this.isNamed || isCopied(connection))) {
      this.#keepingLog(close);
    } else if (isTheirs) {
      close();
      throw this.#failure(
        "Another process has begun a new log. Saves that either process made since then may be lost; older checkpoints are intact. " +
          "Run `waymark verify`, and look at the newest checkpoints. The next call opens the database anew.",
      );
    } else if (this.#log === undefined) {
      close();
    } else {
      const isSafe = copiesLog(connection);
      const { isNamed } = this;
      if (!isSafe && isNamed)
        throw new LogInUseError("the database's log is gone from its path and can't be copied into the database yet");
      close();
      // Otherwise SQLite would mistake the old log for the log of the database that has the path now.
      if (isSafe && !isNamed && named !== undefined) rmSync(this.#logPath, { force: true });
    }
  }

  /**
   * Closes the connection, and keeps the other process's log. Otherwise the last connection to close would remove
   * whatever log has the name, even that of a process that has ended.
   */
  #keepingLog(close: () => void): void {
    const kept = `${this.#logPath}-${randomUUID()}`;
    linkSync(this.#logPath, kept);
    close();
    // If both names still exist, rename does nothing, so the second name is removed below.
    renameSync(kept, this.#logPath);
    rmSync(kept, { force: true });
  }

  #failure(then: string): StorageError {
    return new StorageError(`The log ${this.#logPath} was removed or replaced while the database was open. ${then}`);
  }
}

/** Another process uses the same log. The caller treats this like a lock, and tries again. */
class LogInUseError extends Error {
  readonly code = "SQLITE_BUSY";
}

/** Copies the log's content into the database. Returns whether all of it was copied. */
function copiesLog(connection: SqliteConnection): boolean {
  const [isBusy, frames, copied] = connection.one("PRAGMA wal_checkpoint(FULL)") ?? [];
  return isBusy === 0 && frames === copied;
}

function isCopied(connection: SqliteConnection): boolean {
  const [version] = connection.one("SELECT sqlite_version()") ?? [];
  const [major = 0, minor = 0] = String(version).split(".").map(Number);
  if (major === COUNTS_SINCE[0] && minor < COUNTS_SINCE[1]) return false;
  const [, frames, copied] = connection.one("PRAGMA wal_checkpoint(NOOP)") ?? [];
  return frames === copied;
}

function statsAt(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

function isSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}
