import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { StorageError } from "../../src/errors.js";
import { openDatabase, type SqliteDatabase, type SqliteDriver } from "./driver.js";
import { holdsStore, migrate } from "./schema.js";
import { SqliteStore } from "./store.js";

/** Where a store is, and how it is to be opened. */
export interface StorePlace {
  /** Absolute. */
  readonly path: string;
  readonly durability: "full" | "normal";
  /** Called only where there is a database to open. */
  readonly driver: () => SqliteDriver;
}

/** An open store, and which file it is: its path may come to name another one. */
export interface OpenStore {
  readonly store: SqliteStore;
  readonly file: FileIdentity;
}

interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/**
 * How long SQLite itself waits for a lock, in milliseconds. Nothing else runs in this process meanwhile, so longer
 * waits are the caller's, between two tries.
 */
const LOCK_SLICE_MS = 3;

/** Opens the store at that place; gives `undefined` where there is none, and creates nothing. */
export function openStore(place: StorePlace): OpenStore | undefined {
  const file = identityOf(place.path);
  if (file === undefined) return undefined;
  return connect(place, (database) => {
    if (holdsStore(database, place.path)) return ready(place, database, file);
    database.close();
    return undefined;
  });
}

/** Opens the store at that place; where there is none, makes one, and the folders above it. */
export function createStore(place: StorePlace): OpenStore {
  const { path } = place;
  const madeFolder = createFile(path);
  const file = identityOf(path);
  if (file === undefined) {
    throw new StorageError(`${path} was removed while it was being opened. Nothing was written; try again.`, {
      retryable: true,
    });
  }
  return connect(place, (database) => {
    // Before anything is changed: a database of another program stays as it is.
    holdsStore(database, path);
    return ready(place, database, file, madeFolder);
  });
}

/** Whether the path still names that file. Somebody may have removed the store, or put a backup in its place. */
export function isSameFile(path: string, file: FileIdentity): boolean {
  const now = identityOf(path);
  return now !== undefined && now.ino === file.ino && now.dev === file.dev;
}

function connect<Result>(place: StorePlace, use: (database: SqliteDatabase) => Result): Result {
  const database = openDatabase(place.driver(), place.path, LOCK_SLICE_MS);
  try {
    return use(database);
  } catch (error) {
    database.close();
    throw error;
  }
}

function ready(place: StorePlace, database: SqliteDatabase, file: FileIdentity, madeFolder?: string): OpenStore {
  const { path, durability } = place;
  configure(database, path, durability);
  migrate(database, path);
  // The file's name isn't safe before its folder is, and who made it may have died before it came to this.
  syncFolders(dirname(path), madeFolder);
  return { store: new SqliteStore(database, path), file };
}

function configure(database: SqliteDatabase, path: string, durability: StorePlace["durability"]): void {
  const mode = database.pragma("journal_mode = WAL", { simple: true });
  if (mode !== "wal") {
    throw new StorageError(
      `The database ${path} can't be switched to write-ahead logging: it stays in the mode "${String(mode)}". ` +
        "Nothing was written. Put it on a local disk: SQLite needs shared memory beside the file.",
    );
  }
  // FULL syncs the log at each commit; NORMAL only when it is copied into the database, which a power loss may precede.
  database.exec(`PRAGMA synchronous = ${durability === "full" ? "FULL" : "NORMAL"}`);
  // On macOS fsync alone leaves what was written in the drive's cache. Elsewhere this does nothing.
  if (durability === "full") database.exec("PRAGMA fullfsync = ON");
}

/**
 * Creates the file and the folders above it, where they don't exist, for their owner alone.
 *
 * @returns The topmost folder it made.
 */
function createFile(path: string): string | undefined {
  const madeFolder = mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    // Never opened where it exists: closing it would drop the locks that SQLite holds on it in this process.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error;
  }
  return madeFolder;
}

/** Makes the names in the folder durable, and in the folders above it up to the one that holds `topmost`. */
function syncFolders(folder: string, topmost: string | undefined): void {
  // Windows can't sync folders.
  if (process.platform === "win32") return;
  const last = topmost === undefined ? folder : dirname(topmost);
  for (let current = folder; ; current = dirname(current)) {
    const descriptor = openSync(current, "r");
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    if (current === last || current === dirname(current)) return;
  }
}

function identityOf(path: string): FileIdentity | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
