import { randomBytes } from "node:crypto";
import { closeSync, existsSync, fsyncSync, linkSync, mkdirSync, openSync, rmSync, type Stats, statSync } from "node:fs";
import { dirname } from "node:path";
import { CheckpointCorruptError, StorageError } from "../../src/contract/errors.js";
import { SqliteConnection } from "./connection.js";
import { openDatabase, type SqliteDriver } from "./driver.js";

/** What is kept in a database: its tables, and what works with them. */
export interface StoreFormat<Store> {
  /**
   * What an empty file is that has no log beside it. `new`: another program has opened a database and not written yet.
   * `damage`: a database was cut off, since nobody else makes one of this format.
   */
  readonly emptyFile: "new" | "damage";
  /**
   * Whether the database has its tables. If not, they may be added.
   *
   * @throws {UnsupportedFormatError} A newer program made them, or they would disturb another one.
   */
  readonly isPresent: (database: SqliteConnection, path: string) => boolean;
  /** Makes the tables in one transaction; concurrent calls wait for each other. */
  readonly migrate: (database: SqliteConnection, path: string) => void;
  readonly store: (database: SqliteConnection, path: string) => Store;
}

/** Where a database is, and how to open it. */
export interface DatabasePlace {
  /** Absolute. */
  readonly path: string;
  readonly durability: "full" | "normal";
  /** How long SQLite itself waits for a lock, in milliseconds, and blocks this process. */
  readonly lockWaitMs: number;
  /** Called only where there is a database to open. */
  readonly driver: () => SqliteDriver;
}

/** One page of the smallest size. SQLite takes some smaller files for new databases. */
const SMALLEST_DATABASE_BYTES = 512;

/** The database at a path: opened at the first need, and again where somebody has removed or replaced the file. */
export class DatabaseFile<Store extends { close(): void }> {
  readonly #place: DatabasePlace;
  readonly #format: StoreFormat<Store>;
  #open: { readonly store: Store; readonly identity: Stats } | undefined;

  constructor(place: DatabasePlace, format: StoreFormat<Store>) {
    this.#place = place;
    this.#format = format;
  }

  /**
   * The store, if there is one. Creates nothing.
   *
   * @throws {CheckpointCorruptError} The file is gone, empty or cut short while its log is there. SQLite would take it
   *   for a new database and delete the log, which may hold all that is left.
   */
  existing(): Store | undefined {
    const { path } = this.#place;
    const identity = statsOf(path);
    if (this.#open && identity?.ino === this.#open.identity.ino && identity.dev === this.#open.identity.dev) {
      return this.#open.store;
    }
    this.close();
    // SQLite itself refuses a folder.
    const isWhole = identity && (!identity.isFile() || identity.size >= SMALLEST_DATABASE_BYTES);
    if (!isWhole) refuseLoss(path, identity, this.#format.emptyFile);
    return identity && this.#connect(identity, (database) => this.#format.isPresent(database, path));
  }

  /** The store; where there is none, it makes one, and the folders above it. */
  orNew(): Store {
    const existing = this.existing();
    if (existing !== undefined) return existing;
    const { path } = this.#place;
    if (statsOf(path) === undefined) this.#create();
    // Looking comes first: a database of another program is refused unchanged.
    const made = this.#connect(statSync(path), (database) => this.#format.isPresent(database, path) || true);
    if (made !== undefined) return made;
    throw new StorageError(`The database ${path} can't be opened. Nothing was written.`);
  }

  close(): void {
    this.#open?.store.close();
    this.#open = undefined;
  }

  /** Opens the file, and its store where that is wanted; else closes it again. */
  #connect(identity: Stats, isWanted: (database: SqliteConnection) => boolean): Store | undefined {
    const { path, durability } = this.#place;
    const database = this.#openDatabase(path);
    try {
      if (!isWanted(database)) {
        database.close();
        return undefined;
      }
      configure(database, path, durability);
      this.#format.migrate(database, path);
      // The process that made the file may have died before it synced the name.
      syncFolder(dirname(path));
    } catch (error) {
      database.close();
      throw error;
    }
    const store = this.#format.store(database, path);
    this.#open = { store, identity };
    return store;
  }

  /**
   * Creates the database and the folders above it, for their owner alone. It is made whole under another name first: a
   * process that dies here leaves no empty file under this one.
   */
  #create(): void {
    const { path, durability, driver } = this.#place;
    // Without a driver nothing is made.
    driver();
    makeFolders(dirname(path));
    const draft = `${path}.new-${process.pid}-${randomBytes(6).toString("hex")}`;
    try {
      closeSync(openSync(draft, "wx", 0o600));
      const database = this.#openDatabase(draft);
      try {
        configure(database, draft, durability);
        this.#format.migrate(database, draft);
        // Closing brings the log into the database too, but doesn't say where that fails.
        const busy = database.pragma("wal_checkpoint(TRUNCATE)");
        const message = `Another program uses ${draft}. Nothing was saved; try again.`;
        if (busy !== 0) throw new StorageError(message, { retryable: true });
      } finally {
        database.close();
      }
      linkSync(draft, path);
    } catch (error) {
      // Another process made it in the meantime.
      if (!hasCode(error, "EEXIST")) throw error;
    } finally {
      for (const suffix of ["", "-wal", "-shm"]) rmSync(`${draft}${suffix}`, { force: true });
    }
  }

  #openDatabase(path: string): SqliteConnection {
    return new SqliteConnection(openDatabase(this.#place.driver(), path, this.#place.lockWaitMs));
  }
}

function refuseLoss(path: string, file: Stats | undefined, emptyFile: "new" | "damage"): void {
  const hasLog = (statsOf(`${path}-wal`)?.size ?? 0) > 0;
  if (!hasLog && (file === undefined || (file.size === 0 && emptyFile === "new"))) return;
  const what = file === undefined ? "gone" : file.size === 0 ? "empty" : "cut short";
  throw new CheckpointCorruptError(
    `The database ${path} is ${what}${hasLog ? `, and its log ${path}-wal is still there` : ""}; Waymark never leaves it so. ` +
      "It was left untouched, and so was its log; put back a backup, or move both away to begin anew.",
  );
}

function configure(database: SqliteConnection, path: string, durability: DatabasePlace["durability"]): void {
  const mode = database.pragma("journal_mode = WAL");
  if (mode !== "wal") {
    throw new StorageError(
      `The database ${path} can't be switched to write-ahead logging: it stays in the mode "${String(mode)}". ` +
        "Nothing was written. Put it on a local disk: SQLite needs shared memory beside the file.",
    );
  }
  // FULL syncs the log at each commit; NORMAL only when the log is copied into the database.
  database.pragma(`synchronous = ${durability === "full" ? "FULL" : "NORMAL"}`);
  // On macOS fsync alone leaves data in the drive's cache. Elsewhere this does nothing.
  if (durability === "full") database.pragma("fullfsync = ON");
}

/** Makes the folder and those above it that are missing, with mode 0700, and syncs their names. */
function makeFolders(folder: string): void {
  const above = dirname(folder);
  const isMissing = above !== folder && !existsSync(folder);
  if (isMissing) makeFolders(above);
  // `recursive` makes one folder here, and doesn't mind another process that was first.
  if (isMissing) mkdirSync(folder, { mode: 0o700, recursive: true });
  try {
    // Also for a folder that is there: a killed process may have made it and not synced its name.
    syncFolder(above);
  } catch (error) {
    // Somebody else made it, where we may not look.
    if (isMissing || !hasCode(error, "EACCES")) throw error;
  }
}

/** Makes the names in the folder durable. */
function syncFolder(folder: string): void {
  // Windows can't sync folders.
  if (process.platform === "win32") return;
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (error) {
    // Not by `throwIfNoEntry: false`: newer versions of Node take that to mean ENOTDIR too, which is a wrong path.
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
