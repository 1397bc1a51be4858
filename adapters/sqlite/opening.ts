import { randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { CheckpointCorruptError, StorageError } from "../../src/contract/errors.js";
import { makeFile } from "../files/durable-write.js";
import { makeFolders } from "../files/make-folders.js";
import { openDatabase, type SqliteDatabase, type SqliteDriver } from "./driver.js";

/** What is kept in a database: its tables, and what works with them. */
export interface StoreFormat<Store> {
  /**
   * What a file without a byte is, where there is no log beside it. `new`: a database that another program has opened and
   * not written to yet. `damage`: a database that was cut off, since nobody else makes one of this format.
   */
  readonly emptyFile: "new" | "damage";
  /**
   * Whether the database holds its tables. If not, they may be added: there is nothing of another program in their way.
   *
   * @throws {UnsupportedFormatError} A newer program made them, or another one that would be disturbed.
   */
  readonly holds: (database: SqliteDatabase, path: string) => boolean;
  /** Makes the tables, or brings them to their newest form, in one transaction; concurrent calls wait for each other. */
  readonly migrate: (database: SqliteDatabase, path: string) => void;
  readonly store: (database: SqliteDatabase, path: string) => Store;
}

/** Where a store is, and how it is to be opened. */
export interface StorePlace {
  /** Absolute. */
  readonly path: string;
  readonly durability: "full" | "normal";
  /**
   * How long SQLite itself waits for a lock, in milliseconds. Nothing else runs in this process meanwhile, so where
   * callers can wait without blocking, longer waits are theirs, between two tries.
   */
  readonly lockWaitMs: number;
  /** Called only where there is a database to open. */
  readonly driver: () => SqliteDriver;
}

/** An open store, and which file it is: its path may come to name another one. */
export interface OpenStore<Store> {
  readonly store: Store;
  readonly file: FileIdentity;
}

/** One page of the smallest size. SQLite takes some smaller files for new databases. */
const SMALLEST_DATABASE_BYTES = 512;

interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
  isFile(): boolean;
}

/**
 * Opens the store at that place; gives `undefined` where there is none, and creates nothing.
 *
 * @throws {CheckpointCorruptError} The file is empty and its format takes that for damage, or it is cut short, or it is
 *   empty or gone while its log is still there. SQLite would take any of these for a new database and delete the log,
 *   which may hold all that is left.
 */
export function openStore<Store>(place: StorePlace, format: StoreFormat<Store>): OpenStore<Store> | undefined {
  const { path } = place;
  const file = identityOf(path);
  // A folder, which SQLite refuses, may be of any size.
  if (file === undefined || (file.isFile() && file.size < SMALLEST_DATABASE_BYTES)) refuseLoss(path, file, format);
  if (file === undefined) return undefined;
  refusePlanted(path);
  return connect(place, path, (database) => {
    if (format.holds(database, path)) return ready(place, format, database, file);
    database.close();
    return undefined;
  });
}

/** Opens the store at that place; where there is none, makes one, and the folders above it. */
export function createStore<Store>(place: StorePlace, format: StoreFormat<Store>): OpenStore<Store> {
  const { path } = place;
  if (identityOf(path) === undefined) createFile(place, format);
  const file = identityOf(path);
  if (file === undefined) {
    throw new StorageError(`${path} was removed while it was being opened. Nothing was written; try again.`, {
      retryable: true,
    });
  }
  refusePlanted(path);
  return connect(place, path, (database) => {
    // Before anything is changed: a database of another program stays as it is.
    format.holds(database, path);
    return ready(place, format, database, file);
  });
}

/**
 * The names beside a database at which SQLite opens what is there, and waits for it where it is a pipe. It follows no
 * link there, but what it says of one doesn't help; and it writes to a file that has another name elsewhere.
 */
const SIDE_FILES = ["-wal", "-shm", "-journal"];

/**
 * The database itself may be a link, and then what belongs to it is beside the file that the link leads to.
 *
 * @throws {StorageError} Something that SQLite doesn't make has the name of a file that it does.
 */
function refusePlanted(path: string): void {
  const database = targetOf(path);
  for (const suffix of SIDE_FILES) {
    const beside = `${database}${suffix}`;
    const stats = lstatSync(beside, { throwIfNoEntry: false });
    if (stats === undefined || (stats.isFile() && stats.nlink === 1)) continue;
    const [what, advice] = stats.isFile()
      ? [
          "has a second name, and SQLite would write to it under both",
          "Put a copy of it in its place; it may hold what was saved last",
        ]
      : [
          `is ${stats.isSymbolicLink() ? "a symbolic link" : "not a file"}, which SQLite never makes it`,
          "Move it away",
        ];
    throw new StorageError(`${beside} ${what}. The database was not opened, and nothing was changed. ${advice}.`);
  }
}

/** A database and all that SQLite may make beside it, be it there or not. */
export function databaseFiles(path: string): string[] {
  return ["", ...SIDE_FILES].map((suffix) => `${path}${suffix}`);
}

/** Whether the path still names that file. Somebody may have removed the store, or put a backup in its place. */
export function isSameFile(path: string, file: FileIdentity): boolean {
  const now = identityOf(path);
  return now !== undefined && now.ino === file.ino && now.dev === file.dev;
}

/** Refuses a file that is gone, empty or cut short where that is no beginning: where there is a log, or the format says so. */
function refuseLoss<Store>(path: string, file: FileIdentity | undefined, { emptyFile }: StoreFormat<Store>): void {
  const log = `${targetOf(path)}-wal`;
  const hasLog = (identityOf(log)?.size ?? 0) > 0;
  if (!hasLog && (file === undefined || (file.size === 0 && emptyFile === "new"))) return;
  const what = file === undefined ? "gone" : file.size === 0 ? "empty" : "cut short";
  const besides = hasLog ? `, and its log ${log} is still there` : "";
  throw new CheckpointCorruptError(
    `The database ${path} is ${what}${besides}, which Waymark never leaves it. It was left untouched, and so was its log; ` +
      "put back a backup, or move both away to begin anew.",
  );
}

function connect<Result>(place: StorePlace, path: string, use: (database: SqliteDatabase) => Result): Result {
  const database = openDatabase(place.driver(), path, place.lockWaitMs);
  try {
    // What the file itself holds (a view, a default, an index on an expression) calls no function that does something:
    // SQLite's own that do are never called so, but a program's own driver may add some.
    database.exec("PRAGMA trusted_schema = OFF");
    // Nor does it change other rows than a statement says: better-sqlite3 turns foreign keys on, and ours have none.
    database.exec("PRAGMA foreign_keys = OFF");
    return use(database);
  } catch (error) {
    database.close();
    throw error;
  }
}

function ready<Store>(
  place: StorePlace,
  format: StoreFormat<Store>,
  database: SqliteDatabase,
  file: FileIdentity,
): OpenStore<Store> {
  const { path, durability } = place;
  configure(database, path, durability);
  format.migrate(database, path);
  // Who made the file may have died before it came to this.
  syncFolder(dirname(path));
  return { store: format.store(database, path), file };
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
 * Creates the database and the folders above it, for their owner alone. It is made whole under another name first, so
 * that a process which dies here leaves no empty file under this one.
 */
function createFile<Store>(place: StorePlace, format: StoreFormat<Store>): void {
  const { path, durability } = place;
  // Where the driver is missing, nothing is made.
  place.driver();
  for (const changed of makeFolders(dirname(path))) syncFolder(changed);
  const draft = `${path}.new-${process.pid}-${randomBytes(6).toString("hex")}`;
  try {
    closeSync(makeFile(draft));
    connect(place, draft, (database) => {
      configure(database, draft, durability);
      format.migrate(database, draft);
      // Closing brings the log into the database too, but tells nobody where that fails: half a database would be left.
      const busy = database.pragma("wal_checkpoint(TRUNCATE)", { simple: true });
      if (busy !== 0)
        throw new StorageError(`Another program uses ${draft}. Nothing was saved; try again.`, { retryable: true });
      database.close();
    });
    linkSync(draft, path);
  } catch (error) {
    // Another process has made it meanwhile.
    if (!hasCode(error, "EEXIST")) throw error;
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${draft}${suffix}`, { force: true });
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

/** The file that the path leads to, by links or as it is, be that file there or not. */
function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if (!hasCode(error, "ENOENT")) throw error;
  }
  // A link to nothing. One that leads to itself is no ENOENT.
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  return isLink ? targetOf(resolve(dirname(path), readlinkSync(path))) : path;
}

function identityOf(path: string): FileIdentity | undefined {
  try {
    return statSync(path);
  } catch (error) {
    // Not by `throwIfNoEntry: false`, which newer versions of Node take to mean ENOTDIR too: that is a wrong path.
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
