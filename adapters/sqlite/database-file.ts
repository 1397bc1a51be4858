import { closeSync, existsSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { isError, readCode, StorageError } from "../../src/contract/errors.js";
import { assertCanBeMade, makeFoldersSync, unlessAbsent } from "../files/file-io.js";
import { loadDriver, SqliteConnection } from "./connection.js";
import { LogCopier } from "./log-copier.js";
import { OpenFiles } from "./open-files.js";
import { type DatabaseFileOptions, LOG_BYTES, openDatabase } from "./opening.js";

/**
 * The interval at which calls check whether the files were removed or replaced. Each sync also checks whether the log
 * was deleted.
 */
const CHECK_AGAIN_MS = 100;
/**
 * Connections to databases that were removed or replaced. They stay open, because closing them would make SQLite delete
 * the log that now has the name, perhaps another process's.
 */
const ABANDONED = new Set<unknown>();
/** The instances with an open connection. When an instance is garbage-collected, the driver closes its connection. */
const OPEN = new Set<WeakRef<DatabaseFile<unknown>>>();

interface OpenDatabase<Store> {
  readonly store: Store;
  readonly database: SqliteConnection;
  readonly files: OpenFiles;
  /** Copies the log into the database; `undefined` if SQLite itself does. */
  readonly copier: LogCopier | undefined;
}

/**
 * The database at a path, opened at its first use. If its files are removed or replaced, the database is closed, and
 * the next call opens the files that are there then.
 */
export class DatabaseFile<Store> {
  readonly #options: DatabaseFileOptions<Store>;
  readonly #self = new WeakRef<DatabaseFile<unknown>>(this);
  #open: OpenDatabase<Store> | undefined;
  #checkAgainAtMs = 0;
  /** Whether a sync of the log has failed, and the log hasn't been copied into the database since. */
  #isSuspect = false;

  constructor(options: DatabaseFileOptions<Store>) {
    this.#options = options;
  }

  /**
   * Returns the store, if there is one. Creates nothing.
   *
   * @throws There is no database, and none could be made. Thrown here, because the first save may come an hour later.
   */
  existing(): Store | undefined {
    if (!this.#hasItsFiles()) this.#closeAll();
    if (this.#open !== undefined) return this.#open.store;
    const { path } = this.#options;
    const file = unlessAbsent(() => statSync(path));
    // A file of one byte also counts as empty, as in SQLite.
    const isEmpty = file === undefined || (file.isFile() && file.size <= 1);
    if (!isEmpty) return this.#connect({ mayCreate: false });
    // Load the driver now, so that a missing one is reported.
    const { driver } = this.#options;
    if (typeof driver === "function") new SqliteConnection(driver, ":memory:", 0).close();
    else loadDriver(driver);
    assertCanBeMade(path);
    return undefined;
  }

  /** Returns the store. If there is none, creates it and the folders above it, readable by their owner only. */
  orNew(): Store {
    return this.existing() ?? this.#connect({ mayCreate: true });
  }

  /**
   * Changes the store. If there is none, passes `undefined` to `work`.
   *
   * @param isLazy - True to skip the check of the files, which the task's next durable change makes.
   * @throws {StorageError} The files were removed or replaced during the change.
   */
  change<Result>(work: (store: Store | undefined) => Result, isLazy = false): Result {
    const result = work(this.#open?.store ?? this.existing());
    if (!isLazy && !this.#syncsLater && !this.#hasItsFiles()) this.#refuse();
    return result;
  }

  /**
   * With `syncs: "later"`, returns a promise that resolves once all changes so far survive a power cut. Call it in the
   * same turn as the change.
   *
   * @throws {StorageError} The sync failed, or the files were removed or replaced in the meantime. The promise may also
   *   reject with this error.
   */
  synced(): Promise<void> | undefined {
    const { files } = this.#open ?? {};
    return files !== undefined && this.#syncsLater ? this.#sync(files) : undefined;
  }

  /** Resolves once no sync is running. */
  async idle(): Promise<void> {
    await this.#open?.files.idle();
  }

  /** A promise, while the log is full, for which changes should wait. It never rejects. */
  get room(): Promise<void> | undefined {
    return this.#open?.copier?.room;
  }

  /** Call this after each change. @param bytes - The bytes of the change's payloads. */
  wrote(bytes: number): void {
    this.#open?.copier?.wrote(bytes);
  }

  /** Closes the connection. The returned promise resolves once the connection's thread, if it has one, has ended. */
  close(): Promise<void> | undefined {
    OPEN.delete(this.#self);
    const { database, files, copier } = this.#open ?? {};
    this.#open = undefined;
    files?.close();
    if (files?.isDatabaseNamed === false) {
      ABANDONED.add(database);
      return undefined;
    }
    database?.close();
    return copier?.end();
  }

  get #syncsLater(): boolean {
    return this.#options.syncs === "later" && this.#open?.files.hasLog === true;
  }

  #sync(files: OpenFiles): Promise<void> {
    if (!this.#hasItsFiles()) this.#refuse();
    return files.syncLog().then(
      (isNamed) => (isNamed ? undefined : this.#refuse()),
      (cause: unknown) => this.#failSync(files, cause),
    );
  }

  /** Closes the database, because a later sync wouldn't include the pages that this sync lost, and throws. */
  #failSync(files: OpenFiles, cause: unknown): never {
    this.#isSuspect = true;
    if (this.#open?.files === files) this.#closeAll();
    throw new StorageError(
      `The log of the database ${this.#options.path} could not be synced: ${isError(cause) ? cause.message : String(cause)}. This change may be ` +
        "stored, but might not survive a power cut. Earlier checkpoints are intact. The next call opens the database again. " +
        "Check the disk and its free space, then try again.",
      { cause, retryable: ["ENOSPC", "EDQUOT"].includes(readCode(cause)) },
    );
  }

  #refuse(): never {
    this.#closeAll();
    throw new StorageError(
      `The database ${this.#options.path}, or the log beside it, was deleted or replaced while it was open. This change, and ` +
        "earlier ones that only the log had, may be lost. Find the program that did this. The next call opens the " +
        "current files; `waymark verify` checks them.",
      { retryable: true },
    );
  }

  /** Whether the open files are still the files at the path. To save time, not every call looks them up. */
  #hasItsFiles(): boolean {
    const nowMs = performance.now();
    if (this.#open === undefined || nowMs < this.#checkAgainAtMs) return true;
    this.#checkAgainAtMs = nowMs + CHECK_AGAIN_MS;
    return this.#open.files.areNamed;
  }

  /**
   * Closes all connections of this process to the file, because an open one would pass its view of the old log on to a
   * new connection.
   */
  #closeAll(): void {
    const { files } = this.#open ?? {};
    const connected = [...opened()];
    for (const other of connected)
      if (other.#open !== undefined && files?.isSame(other.#open.files)) void other.close();
  }

  #connect(options: { readonly mayCreate: true }): Store;
  #connect(options: { readonly mayCreate: boolean }): Store | undefined;
  #connect({ mayCreate }: { readonly mayCreate: boolean }): Store | undefined {
    const { path, store, syncs } = this.#options;
    if (mayCreate) {
      makeFoldersSync(dirname(path));
      // The flag "a" keeps content that another process may have written by now. An existing file isn't opened, because
      // closing a file that SQLite has open in this process would free SQLite's locks.
      if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
    }
    const file = statSync(path);
    // SQLite passes the view of the log from this process's other connections to a new one, so first close connections
    // with an outdated view.
    for (const other of opened()) if (other.#open?.files.isOf(file) && !other.#open.files.areNamed) void other.close();
    const database = openDatabase(this.#options, { mayCreate, isSuspect: this.#isSuspect });
    if (database === undefined) return undefined;
    this.#isSuspect = false;
    const isCopy = database.pragma("query_only") === 1;
    try {
      const files = new OpenFiles(path, !isCopy);
      const copier = isCopy || syncs === "by-commit" ? undefined : this.#makeCopier(database);
      this.#open = { store: store(database, path), database, files, copier };
      if (syncs === "later" && !isCopy && !files.hasLog) this.#syncOnLoop(database);
    } finally {
      if (this.#open === undefined) database.close();
    }
    OPEN.add(this.#self);
    this.#checkAgainAtMs = performance.now() + CHECK_AGAIN_MS;
    return this.#open.store;
  }

  /** Returns `undefined` if the driver is a class, which can't be passed to a thread. */
  #makeCopier(database: SqliteConnection): LogCopier | undefined {
    const { path, driver } = this.#options;
    if (typeof driver === "function") return undefined;
    database.pragma("wal_autocheckpoint = 0");
    const { module } = loadDriver(driver);
    return new LogCopier({ path, module, limitBytes: LOG_BYTES }, () => database.pragma("wal_autocheckpoint = 1000"));
  }

  #syncOnLoop(database: SqliteConnection): void {
    database.syncCommits();
    process.emitWarning(
      `The log beside the database ${this.#options.path} can't be opened, so each save blocks the event loop while SQLite syncs it.`,
      { code: "WAYMARK_SYNC_ON_LOOP" },
    );
  }
}

function* opened(): Generator<DatabaseFile<unknown>> {
  for (const one of OPEN) {
    const file = one.deref();
    if (file === undefined) OPEN.delete(one);
    else yield file;
  }
}
