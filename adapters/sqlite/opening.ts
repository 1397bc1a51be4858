import {
  accessSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { checkInteger, MAX_DELAY_MS } from "../../src/contract/arguments.js";
import { StorageError } from "../../src/contract/errors.js";
import { assertCanBeMade, makeFoldersSync, syncFolderSync, unlessAbsent } from "../files/file-io.js";
import { loadDriver, SqliteConnection, type SqliteDriver } from "./connection.js";
import { isBusy } from "./errors.js";
import { OpenFiles } from "./open-files.js";

/** A database's path, its settings and its tables. */
export interface DatabaseFileOptions<Store> {
  /** Absolute. */
  readonly path: string;
  readonly durability: "full" | "normal";
  /** How long SQLite itself waits for a lock, in milliseconds. This wait blocks the process. */
  readonly lockWaitMs: number;
  /** Default: the installed better-sqlite3. It is loaded when a database is opened. */
  readonly driver: SqliteDriver | undefined;
  /**
   * Whether the database has Waymark's tables. If not, they may be added.
   *
   * @throws {UnsupportedFormatError} A newer program made the tables, or the database belongs to another program.
   */
  readonly isPresent: (database: SqliteConnection, path: string) => boolean;
  /** Makes the tables in one transaction; concurrent calls wait for each other. */
  readonly makeTables: (database: SqliteConnection, path: string) => void;
  readonly store: (database: SqliteConnection, path: string) => Store;
}

/** Calls check this often whether the database was removed or replaced. Each call checks whether the log was deleted. */
const CHECK_AGAIN_MS = 100;
/**
 * The size to which the log shrinks. SQLite copies the log into the database from 1,000 pages on, each of 4,096 bytes
 * and 24 of a header. With a smaller limit, SQLite would shorten the log each time, and the next saves would have to
 * extend it again.
 */
const LOG_BYTES = 1100 * (4096 + 24);

/**
 * Connections to databases that were removed or replaced. They stay open, since SQLite would delete the log that has the
 * name now, perhaps that of another process.
 */
const ABANDONED = new Set<unknown>();
/** The instances with an open connection. When an instance is garbage-collected, the driver closes its connection. */
const OPEN = new Set<WeakRef<DatabaseFile<unknown>>>();

/**
 * The database at a path. It is opened at its first use. If its files are removed or replaced, it is closed, and the
 * next call opens what is there.
 */
export class DatabaseFile<Store> {
  readonly #options: DatabaseFileOptions<Store>;
  readonly #self = new WeakRef<DatabaseFile<unknown>>(this);
  #open: { readonly store: Store; readonly database: SqliteConnection; readonly files: OpenFiles } | undefined;
  #checkAgainAtMs = 0;

  constructor(options: DatabaseFileOptions<Store>) {
    this.#options = options;
  }

  /**
   * The store, if there is one. Creates nothing.
   *
   * @throws There is no database, and none could be made. This is thrown now, since the first save may come an hour
   *   later.
   */
  existing(): Store | undefined {
    if (!this.#hasItsFiles()) this.#closeAll();
    if (this.#open !== undefined) return this.#open.store;
    const { path } = this.#options;
    const file = unlessAbsent(() => statSync(path));
    // A file of one byte counts as empty too, as in SQLite.
    const isEmpty = file === undefined || (file.isFile() && file.size <= 1);
    if (!isEmpty) return this.#connect({ mayCreate: false });
    // Opened once, so that a driver that can't be loaded is reported now.
    const { driver = loadDriver() } = this.#options;
    new SqliteConnection(driver, ":memory:", 0).close();
    assertCanBeMade(path);
    return undefined;
  }

  /** The store. If there is none, creates it and the folders above it, so that only their owner can read them. */
  orNew(): Store {
    return this.existing() ?? this.#connect({ mayCreate: true });
  }

  /**
   * Changes the store, which is undefined if there is none. Returns once a new process would find the change.
   *
   * @param isLazy - Doesn't look at the files: the task's next durable change does.
   * @throws {StorageError} The files were removed or replaced meanwhile.
   */
  change<Result>(work: (store: Store | undefined) => Result, isLazy = false): Result {
    const result = work(this.#open?.store ?? this.existing());
    if (isLazy || this.#hasItsFiles()) return result;
    this.#closeAll();
    throw new StorageError(
      `The database ${this.#options.path}, or the log beside it, was deleted or replaced while it was open. This change, and ` +
        "earlier ones that were in the log alone, may be lost. Find the program that does that. The next call opens what is " +
        "there now; `waymark verify` shows whether it is whole.",
      { retryable: true },
    );
  }

  close(): void {
    OPEN.delete(this.#self);
    const { database, files } = this.#open ?? {};
    this.#open = undefined;
    files?.close();
    if (files?.isNamed === false) ABANDONED.add(database);
    else database?.close();
  }

  /** Whether the files that are open are those at the path. */
  #hasItsFiles(): boolean {
    if (this.#open === undefined) return true;
    if (this.#open.files.isLogDeleted) return false;
    const nowMs = performance.now();
    if (nowMs < this.#checkAgainAtMs) return true;
    this.#checkAgainAtMs = nowMs + CHECK_AGAIN_MS;
    return this.#open.files.isNamed;
  }

  /** Closes all connections of this process to the file: an open one would pass its view of the old log on to the next. */
  #closeAll(): void {
    const { files } = this.#open ?? {};
    const connected = [...opened()];
    for (const other of connected) if (other.#open !== undefined && files?.isSame(other.#open.files)) other.close();
  }

  #connect(options: { readonly mayCreate: true }): Store;
  #connect(options: { readonly mayCreate: boolean }): Store | undefined;
  #connect({ mayCreate }: { readonly mayCreate: boolean }): Store | undefined {
    const { path, store } = this.#options;
    if (mayCreate) {
      makeFoldersSync(dirname(path));
      // "a" keeps the content that another process may have written by now. The file is only opened if it is missing,
      // because closing a file that SQLite has open in this process would free SQLite's locks.
      if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
    }
    const file = statSync(path);
    // SQLite gives a new connection the view of the log that this process's other connections have. So connections with
    // an outdated view are closed first.
    for (const other of opened()) if (other.#open?.files.isOf(file) && !other.#hasItsFiles()) other.close();
    const database = this.#openFile(mayCreate);
    if (database === undefined) return undefined;
    const isCopy = database.pragma("query_only") === 1;
    try {
      this.#open = { store: store(database, path), database, files: new OpenFiles(path, !isCopy) };
    } finally {
      if (this.#open === undefined) database.close();
    }
    OPEN.add(this.#self);
    this.#checkAgainAtMs = performance.now() + CHECK_AGAIN_MS;
    return this.#open.store;
  }

  /** Opens the file. Returns `undefined` if it has no tables and `mayCreate` is false. */
  #openFile(mayCreate: boolean): SqliteConnection | undefined {
    const { path, durability, isPresent, makeTables } = this.#options;
    try {
      return this.#connection(path, (database) => {
        // This check must come before any write, since it refuses a database of another program.
        if (!isPresent(database, path) && !mayCreate) return false;
        // The process that made the file may have died before syncing its name. The name is synced before the log is
        // made, so that a power loss can't leave a log without its database.
        syncFolderSync(dirname(path));
        writeAhead(database, path);
        database.setDurability(durability);
        // If many saves have made the log large, it shrinks to this size once it is copied.
        database.pragma(`journal_size_limit = ${LOG_BYTES}`);
        makeTables(database, path);
        syncFolderSync(dirname(path));
        return true;
      });
    } catch (error) {
      if (mayCreate || isWritable(dirname(path))) throw error;
      return this.#openCopy();
    }
  }

  /**
   * Opens a copy for reading. It is needed because SQLite must make a file beside an open database, and can't do so in
   * this folder. Writes to the copy fail.
   */
  #openCopy(): SqliteConnection | undefined {
    const { path, isPresent } = this.#options;
    const folder = mkdtempSync(join(tmpdir(), "waymark-"));
    try {
      const copy = join(folder, "copy.db");
      copyFileSync(path, copy);
      unlessAbsent(() => copyFileSync(`${path}-wal`, `${copy}-wal`));
      return this.#connection(copy, (database) => {
        database.pragma("query_only = ON");
        return isPresent(database, path);
      });
    } finally {
      // The copy is open, so it stays readable after its name is removed.
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /** @param prepare - Returns true if the connection is wanted. If not, it is closed. */
  #connection(path: string, prepare: (database: SqliteConnection) => boolean): SqliteConnection | undefined {
    const { lockWaitMs, driver = loadDriver() } = this.#options;
    const database = new SqliteConnection(driver, path, lockWaitMs);
    let isWanted = false;
    try {
      isWanted = prepare(database);
    } finally {
      if (!isWanted) database.close();
    }
    return isWanted ? database : undefined;
  }
}

function* opened(): Generator<DatabaseFile<unknown>> {
  for (const one of OPEN) {
    const file = one.deref();
    if (file === undefined) OPEN.delete(one);
    else yield file;
  }
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
  checkInteger(`${what}.busyTimeoutMs`, busyTimeoutMs, 0, MAX_DELAY_MS);
  if (driver !== undefined && !isDriver(driver)) {
    throw new TypeError(`${what}.driver must be better-sqlite3's Database, or a class with the same methods.`);
  }
}

function isDriver(driver: unknown): boolean {
  const methods = Object(typeof driver === "function" ? driver.prototype : undefined);
  return ["prepare", "exec", "pragma", "close"].every((name) => typeof methods[name] === "function");
}

function writeAhead(database: SqliteConnection, path: string): void {
  // This uses `exec`, since `pragma` stops at the first row and would hide a later failure of fsync.
  const enable = () => database.database.exec("PRAGMA journal_mode = WAL");
  try {
    enable();
  } catch (error) {
    if (!isBusy(error)) throw error;
    // Another process is switching the mode, too. SQLite waits for that process in BEGIN IMMEDIATE, but not in the
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

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    // The caller throws the first error, so this one is ignored.
    return false;
  }
}
