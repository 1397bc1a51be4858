import { createRequire } from "node:module";
import { StorageError } from "../../src/contract/errors.js";

/** One row, its values in the order of the statement's columns. */
export type SqliteRow = readonly unknown[];

/** What the adapter uses of better-sqlite3's `Statement`. */
export interface SqliteStatement {
  run(...values: unknown[]): { readonly changes: number; readonly lastInsertRowid: number | bigint };
  get(...values: unknown[]): unknown;
  all(...values: unknown[]): unknown[];
  raw(): SqliteStatement;
}

/** What the adapter uses of better-sqlite3's `Database`. */
export interface SqliteDatabase {
  readonly inTransaction: boolean;
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  pragma(sql: string, options: { readonly simple: true }): unknown;
  close(): unknown;
}

/**
 * What better-sqlite3 exports, as far as the adapter uses it: a structural type, so that these declarations need
 * neither that package nor its types, and a build of it under another name fits too.
 */
export type SqliteDriver = new (
  path: string,
  options: { readonly fileMustExist: boolean; readonly timeout: number },
) => SqliteDatabase;

/**
 * better-sqlite3, which is an optional peer and therefore loaded only where it is needed.
 *
 * @throws {StorageError} It isn't installed, or it doesn't load.
 */
function loadDriver(): SqliteDriver {
  let loaded: unknown;
  try {
    loaded = createRequire(import.meta.url)("better-sqlite3");
  } catch (error) {
    if (!isNotInstalled(error)) throw doesNotLoad(error);
    throw new StorageError(
      "Storage in SQLite needs the package better-sqlite3, which isn't installed. Nothing was read or written. " +
        "Run `npm install better-sqlite3`.",
      { cause: error },
    );
  }
  if (typeof loaded !== "function") throw doesNotLoad(new TypeError("The package exports no constructor."));
  // Nothing but the package's own declarations could prove more than this.
  return loaded as SqliteDriver;
}

/** The driver given, or better-sqlite3, loaded at the first call. */
export function lazyDriver(given: SqliteDriver | undefined): () => SqliteDriver {
  let driver = given;
  return () => {
    driver ??= loadDriver();
    return driver;
  };
}

/** Opens a database that exists. The native part of better-sqlite3 is loaded here, at the first one. */
export function openDatabase(driver: SqliteDriver, path: string, timeout: number): SqliteDatabase {
  try {
    return new driver(path, { fileMustExist: true, timeout });
  } catch (error) {
    throw isNativePartMissing(error) ? doesNotLoad(error) : error;
  }
}

function isNotInstalled(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === "MODULE_NOT_FOUND" && error.message.includes("'better-sqlite3'");
}

/** `bindings`, by which better-sqlite3 finds its native part, has no code for it where nothing was built. */
function isNativePartMissing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return code === "ERR_DLOPEN_FAILED" || code === "MODULE_NOT_FOUND" || error.message.includes("bindings file");
}

function doesNotLoad(cause: unknown): StorageError {
  const reason = cause instanceof Error ? cause.message.split("\n", 1)[0] : String(cause);
  return new StorageError(
    `better-sqlite3 is installed, but its native build doesn't load in Node ${process.version} on ${process.platform} ` +
      `${process.arch}: ${reason} Nothing was read or written. Run \`npm rebuild better-sqlite3\`, with install scripts allowed.`,
    { cause },
  );
}

function codeOf(error: Error): unknown {
  return "code" in error ? error.code : undefined;
}
