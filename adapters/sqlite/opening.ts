import { accessSync, constants, copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { checkInteger, checkNoStorageUrl, MAX_DELAY_MS } from "../../src/contract/arguments.js";
import { StorageError } from "../../src/contract/errors.js";
import { syncFolderSync, unlessAbsent } from "../files/file-io.js";
import { loadDriver, SqliteConnection } from "./connection.js";
import type { SqliteDriver, SqliteDriverName } from "./driver.js";
import { isBusy } from "./errors.js";
import { FULL_AT_PAGES } from "./log-copier.js";

/** A database's path, its settings and its tables. */
export interface DatabaseFileOptions<Store> {
  /** The absolute path of the database. */
  readonly path: string;
  /**
   * When the log is synced: in each commit, on the event loop; by `DatabaseFile.synced`, off the event loop; or only
   * when the log is copied into the database.
   */
  readonly syncs: "by-commit" | "later" | "never";
  /** How long SQLite itself waits for a lock, in milliseconds. The wait blocks the process. */
  readonly lockWaitMs: number;
  /** The driver, loaded when a database is opened. Default: see {@link loadDriver}. */
  readonly driver: SqliteDriver | SqliteDriverName | undefined;
  /**
   * Whether the database has Waymark's tables. If it doesn't, they may be added.
   *
   * @throws {UnsupportedFormatError} A newer program made the tables, or the database belongs to another program.
   */
  readonly isPresent: (database: SqliteConnection, path: string) => boolean;
  /** Makes the tables in one transaction; concurrent calls wait for each other. */
  readonly makeTables: (database: SqliteConnection, path: string) => void;
  readonly store: (database: SqliteConnection, path: string) => Store;
}

/**
 * The size to which the log shrinks. A page takes 4,096 bytes and a header of 24 bytes. With a smaller limit, SQLite
 * would shorten the log after each copy, and the next saves would have to extend it again.
 */
export const LOG_BYTES = (FULL_AT_PAGES + 100) * (4096 + 24);

/**
 * Opens the database, or a read-only copy. Returns `undefined` if the database has no tables and `mayCreate` is false.
 *
 * @param how - `isSuspect` is true if a sync of the log has failed, so that the log is emptied first.
 */
export function openDatabase<Store>(
  options: DatabaseFileOptions<Store>,
  { mayCreate, isSuspect }: { readonly mayCreate: boolean; readonly isSuspect: boolean },
): SqliteConnection | undefined {
  const { path, syncs, isPresent, makeTables } = options;
  try {
    return connect(options, path, (database) => {
      // This check must come before any write, because it refuses another program's database.
      if (!isPresent(database, path) && !mayCreate) return false;
      // The process that made the file may have died before syncing its name. Sync the name before making the log, so
      // that a power loss can't leave a log without its database.
      syncFolderSync(dirname(path));
      writeAhead(database, path);
      database.pragma("synchronous = NORMAL");
      // Does for copies of the log what `fullfsync` in SqliteConnection.syncCommits does for commits.
      database.pragma("checkpoint_fullfsync = ON");
      if (syncs === "by-commit") database.syncCommits();
      if (isSuspect) emptyLog(database, path);
      // A log that many saves have made large shrinks to this size once it is copied.
      database.pragma(`journal_size_limit = ${LOG_BYTES}`);
      makeTables(database, path);
      syncFolderSync(dirname(path));
      return true;
    });
  } catch (error) {
    if (mayCreate || isWritable(dirname(path))) throw error;
    return openCopy(options);
  }
}

/**
 * Opens a copy for reading, because SQLite must make a file next to an open database and can't do so in this folder.
 * Writes to the copy fail.
 */
function openCopy<Store>(options: DatabaseFileOptions<Store>): SqliteConnection | undefined {
  const { path, isPresent } = options;
  const folder = mkdtempSync(join(tmpdir(), "waymark-"));
  try {
    const copy = join(folder, "copy.db");
    copyFileSync(path, copy);
    unlessAbsent(() => copyFileSync(`${path}-wal`, `${copy}-wal`));
    return connect(options, copy, (database) => {
      database.pragma("query_only = ON");
      return isPresent(database, path);
    });
  } finally {
    // The open copy stays readable after its name is removed.
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param prepare - Returns true to keep the connection; otherwise it is closed. */
function connect<Store>(
  { lockWaitMs, driver }: DatabaseFileOptions<Store>,
  path: string,
  prepare: (database: SqliteConnection) => boolean,
): SqliteConnection | undefined {
  const open = typeof driver === "function" ? driver : loadDriver(driver).driver;
  const database = new SqliteConnection(open, path, lockWaitMs);
  let isWanted = false;
  try {
    isWanted = prepare(database);
  } finally {
    if (!isWanted) database.close();
  }
  return isWanted ? database : undefined;
}

export const DEFAULT_BUSY_TIMEOUT_MS = 5000;

/**
 * @param what - The name of the options, for the message: `SqliteAdapterOptions`.
 * @throws {TypeError | RangeError} An option is missing or out of range; the message names it.
 */
export function checkDatabaseOptions(
  what: string,
  { path, busyTimeoutMs, driver }: { path: string; busyTimeoutMs?: number | undefined; driver?: unknown },
): void {
  if (typeof path !== "string" || path === "" || path === ":memory:" || path.includes("\0")) {
    throw new TypeError(`${what}.path must be the path of a file; for tests, use a temporary one.`);
  }
  checkNoStorageUrl(`${what}.path`, path);
  checkInteger(`${what}.busyTimeoutMs`, busyTimeoutMs, 0, MAX_DELAY_MS);
  if (driver !== undefined && !isDriver(driver)) {
    throw new TypeError(
      `${what}.driver must be one of ${DRIVER_NAMES.join(", ")}, or better-sqlite3's Database, or a class with the same methods.`,
    );
  }
}

const DRIVER_NAMES: readonly string[] = ["better-sqlite3", "node:sqlite", "bun:sqlite"] satisfies SqliteDriverName[];

function isDriver(driver: unknown): boolean {
  if (typeof driver === "string") return DRIVER_NAMES.includes(driver);
  const methods = Object(typeof driver === "function" ? driver.prototype : undefined);
  return ["prepare", "exec", "pragma", "close"].every((name) => typeof methods[name] === "function");
}

function writeAhead(database: SqliteConnection, path: string): void {
  // Uses `exec`, because `pragma` stops at the first row and would hide a later failure of fsync.
  const enable = () => database.database.exec("PRAGMA journal_mode = WAL");
  try {
    enable();
  } catch (error) {
    if (!isBusy(error)) throw error;
    // Another process is also switching the mode. SQLite waits for that process in BEGIN IMMEDIATE, but not in the
    // pragma.
    database.atomically(() => undefined);
    enable();
  }
  const mode = database.pragma("journal_mode");
  if (mode === "wal") return;
  throw new StorageError(
    `The database ${path} can't be switched to write-ahead logging: it stays in the mode "${String(mode)}". ` +
      "Nothing was written. Put it on a local disk, since SQLite needs shared memory beside the file.",
  );
}

/**
 * Copies the log into the database, with syncs, and empties it. After a failed sync, the log may have a hole that no
 * later sync would fill.
 */
function emptyLog(database: SqliteConnection, path: string): void {
  if (database.pragma("wal_checkpoint(TRUNCATE)") === 0) return;
  throw Object.assign(new Error(`The log of ${path} is in use`), { code: "SQLITE_BUSY" });
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    // The caller throws the first error, so this one is ignored.
    return false;
  }
}
