import { randomUUID } from "node:crypto";
import { linkSync, realpathSync, renameSync, rmSync, type Stats, statSync } from "node:fs";
import { StorageError } from "../../src/contract/errors.js";
import { unlessAbsent } from "../files/file-io.js";
import type { SqliteConnection } from "./connection.js";

/** The first SQLite whose `wal_checkpoint(NOOP)` only counts; an older one takes it for PASSIVE. */
const COUNTS_SINCE = [3, 51] as const;

/**
 * The files that a connection has open. Their names may give others by now: another SQLite library in this process opens
 * and closes the database, which frees this one's locks and removes the log; or somebody deletes or replaces the files.
 * SQLite doesn't notice, and a fresh process finds nothing of what is written then.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #logPath: string;
  readonly database: Stats;
  readonly #log: Stats | undefined;

  /** @param hasLog - False for a copy, which nobody writes to. */
  constructor(path: string, hasLog: boolean) {
    this.#path = path;
    // SQLite puts the log beside the file that a link leads to.
    this.#logPath = `${realpathSync(path)}-wal`;
    this.database = statSync(path);
    this.#log = hasLog ? unlessAbsent(() => statSync(this.#logPath)) : undefined;
  }

  /** Whether the database's name still gives this file. */
  get isNamed(): boolean {
    return isSame(
      this.database,
      unlessAbsent(() => statSync(this.#path)),
    );
  }

  /** The same of the log's name. */
  get isLogNamed(): boolean {
    return (
      this.#log === undefined ||
      isSame(
        this.#log,
        unlessAbsent(() => statSync(this.#logPath)),
      )
    );
  }

  /** Whether the database is that file. In one process, SQLite's connections of a file share what they know of its log. */
  isOf(file: Stats): boolean {
    return isSame(this.database, file);
  }

  /**
   * Closes the connection, once what its log holds is in the database, if the database's name still gives this file.
   *
   * @param close - Closes all connections of this process: one that stays would hand its view of the old log to the next.
   * @throws {StorageError} It can't be there: another process has begun a new log.
   * @throws {LogInUseError} It can't be there yet. The connection stays open.
   */
  leave(connection: SqliteConnection, close: () => void): void {
    const named = unlessAbsent(() => statSync(this.#logPath));
    const isTheirs = this.#log !== undefined && named !== undefined && named.size > 0 && !isSame(this.#log, named);
    if (isTheirs && (!this.isNamed || isCopied(connection))) {
      this.#keepingLog(close);
    } else if (isTheirs) {
      close();
      throw this.#failure(
        "Another process has begun a new log. Saves of either since then may be lost; older checkpoints are intact. " +
          "Run `waymark verify`, and look at the newest checkpoints. The next call opens the database anew.",
      );
    } else if (this.#log === undefined) {
      close();
    } else {
      const isSafe = copiesLog(connection);
      const { isNamed } = this;
      if (!isSafe && isNamed) throw new LogInUseError("its log has gone, and can't be copied into it yet");
      close();
      // SQLite would take it for the log of the database that has the name now.
      if (isSafe && !isNamed && named !== undefined) rmSync(this.#logPath, { force: true });
    }
  }

  /** SQLite removes the log by its name if the connection is the last one: that of a process that has ended, too. */
  #keepingLog(close: () => void): void {
    const kept = `${this.#logPath}-${randomUUID()}`;
    linkSync(this.#logPath, kept);
    close();
    // Where both names are there, rename does nothing.
    renameSync(kept, this.#logPath);
    rmSync(kept, { force: true });
  }

  #failure(then: string): StorageError {
    return new StorageError(`The log ${this.#logPath} was removed or replaced while the database was open. ${then}`);
  }
}

/** Another process reads or writes by the same log: the same as a lock. */
class LogInUseError extends Error {
  readonly code = "SQLITE_BUSY";
}

/** Copies all that the log holds into the database. */
function copiesLog(connection: SqliteConnection): boolean {
  const [isBusy, frames, copied] = connection.one("PRAGMA wal_checkpoint(FULL)") ?? [];
  return isBusy === 0 && frames === copied;
}

/** Whether there is nothing to copy. */
function isCopied(connection: SqliteConnection): boolean {
  const [version] = connection.one("SELECT sqlite_version()") ?? [];
  const [major = 0, minor = 0] = String(version).split(".").map(Number);
  if (major === COUNTS_SINCE[0] && minor < COUNTS_SINCE[1]) return false;
  const [, frames, copied] = connection.one("PRAGMA wal_checkpoint(NOOP)") ?? [];
  return frames === copied;
}

function isSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}
