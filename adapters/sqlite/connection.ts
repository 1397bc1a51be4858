import { readCode } from "../../src/contract/errors.js";
import { loadPackage, resolvePackage } from "../../src/contract/load-package.js";
import { processState } from "../../src/contract/process-state.js";
import type { SqlRow } from "../sql/rows.js";
import { builtInDriver } from "./built-in-drivers.js";
import type { SqliteDatabase, SqliteDriver, SqliteDriverName, SqliteStatement } from "./driver.js";
import { driverFailure } from "./errors.js";

/** An open database and its prepared statements. */
export class SqliteConnection {
  readonly database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();

  /**
   * @param timeoutMs - How long SQLite itself waits for a lock, in milliseconds. The wait blocks the process.
   * @throws {StorageError} The driver can't be loaded.
   */
  constructor(driver: SqliteDriver, path: string, timeoutMs: number) {
    try {
      this.database = new driver(path, { fileMustExist: true, timeout: timeoutMs });
    } catch (error) {
      throw readCode(error).startsWith("SQLITE_") ? error : driverFailure(error, "The driver");
    }
    // The application's class may have turned on safe integers, which would make every row look damaged.
    this.database.defaultSafeIntegers?.(false);
  }

  close(): void {
    this.database.close();
  }

  /** Makes each later commit sync the log. Without this call, the log is synced when it is copied into the database. */
  syncCommits(): void {
    this.pragma("synchronous = FULL");
    // On macOS, fsync leaves data in the drive's cache. On other systems, this setting does nothing.
    this.pragma("fullfsync = ON");
  }

  /** Runs `work` in one transaction, so that all of its changes are stored or none. */
  atomically<Result>(work: () => Result): Result {
    // IMMEDIATE takes the lock at once. A transaction that reads first and then finds the database locked can only
    // fail.
    this.run("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.run("COMMIT");
      return result;
    } catch (error) {
      // After some errors, SQLite has already rolled back.
      if (this.database.inTransaction) this.run("ROLLBACK");
      throw error;
    }
  }

  /** Runs a statement, and returns the number of changed rows. */
  run(sql: string, ...values: readonly unknown[]): number {
    return this.#statement(sql, false).run(...values).changes;
  }

  one(sql: string, ...values: readonly unknown[]): SqlRow | undefined {
    return this.#statement(sql, true).get(...values) as SqlRow | undefined;
  }

  all(sql: string, ...values: readonly unknown[]): readonly SqlRow[] {
    return this.#statement(sql, true).all(...values) as readonly SqlRow[];
  }

  /**
   * Streams rows. Until the iteration has finished, this connection can't write, and its other reads see the same
   * snapshot.
   */
  each(sql: string, ...values: readonly unknown[]): Iterable<SqlRow> {
    return this.#statement(sql, true).iterate(...values) as Iterable<SqlRow>;
  }

  pragma(name: string): unknown {
    return this.database.pragma(name, { simple: true });
  }

  #statement(sql: string, givesRows: boolean): SqliteStatement {
    const prepared = this.#statements.get(sql);
    if (prepared !== undefined) return prepared;
    const plain = this.database.prepare(sql);
    const statement = givesRows ? plain.raw() : plain;
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** A driver, and the module that a thread requires to load the same driver. */
export interface LoadedDriver {
  readonly driver: SqliteDriver;
  readonly module: string;
}

/**
 * Loads a driver. Default: better-sqlite3 if it can be loaded, else the runtime's own SQLite. All copies of this
 * package in a process use the driver that was loaded first, because two SQLite libraries in one process free each
 * other's locks, and the first one that closes a database removes the log that the other writes to.
 *
 * @throws {StorageError} The driver can't be loaded.
 */
export function loadDriver(name?: SqliteDriverName): LoadedDriver {
  if (name === undefined) return processState("sqlite-driver.1", loadFirst);
  if (name === "better-sqlite3") return loadBetterSqlite();
  const driver = builtInDriver(name);
  if (driver !== undefined) return { driver, module: name };
  throw driverFailure(new Error(`this runtime has no ${name} that returns rows as arrays`), name);
}

function loadFirst(): LoadedDriver {
  try {
    return loadBetterSqlite();
  } catch (error) {
    const module = "bun" in process.versions ? "bun:sqlite" : "node:sqlite";
    const driver = builtInDriver(module);
    if (driver === undefined) throw error;
    return { driver, module };
  }
}

function loadBetterSqlite(): LoadedDriver {
  try {
    // The type is asserted, since only better-sqlite3's own declarations could prove it.
    const driver = loadPackage("better-sqlite3") as SqliteDriver;
    // The driver loads its native part with the first database, so open one now.
    new driver(":memory:", { fileMustExist: false, timeout: 0 }).close();
    return { driver, module: resolvePackage("better-sqlite3") };
  } catch (cause) {
    throw driverFailure(cause, "better-sqlite3");
  }
}
