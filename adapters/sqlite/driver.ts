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
 * What the adapter uses of better-sqlite3's export. A structural type: these declarations need neither that package nor
 * its types, and a build of it under another name fits too.
 */
export type SqliteDriver = new (
  path: string,
  options: { readonly fileMustExist: boolean; readonly timeout: number },
) => SqliteDatabase;

/** The driver given, or better-sqlite3, an optional peer, which is loaded at the first call. */
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
    // SQLite's own errors have codes of their own.
    const isOfNode = /^(ERR_DLOPEN_FAILED|MODULE_NOT_FOUND)$|bindings file/.test(
      `${codeOf(error) ?? messageOf(error)}`,
    );
    throw isOfNode ? doesNotLoad(error) : error;
  }
}

function loadDriver(): SqliteDriver {
  try {
    const loaded: unknown = createRequire(import.meta.url)("better-sqlite3");
    if (typeof loaded !== "function") throw new TypeError("The package exports no constructor.");
    // Only the package's own declarations could prove more than this.
    return loaded as SqliteDriver;
  } catch (error) {
    if (codeOf(error) !== "MODULE_NOT_FOUND" || !messageOf(error).includes("'better-sqlite3'"))
      throw doesNotLoad(error);
    throw new StorageError(
      "Storage in SQLite needs the package better-sqlite3, which isn't installed. Nothing was read or written. " +
        "Run `npm install better-sqlite3`.",
      { cause: error },
    );
  }
}

function doesNotLoad(cause: unknown): StorageError {
  return new StorageError(
    `better-sqlite3 is installed, but its native build doesn't load in Node ${process.version} on ${process.platform} ` +
      `${process.arch}: ${messageOf(cause).split("\n", 1)[0]} Nothing was read or written. ` +
      "Run `npm rebuild better-sqlite3`, with install scripts allowed.",
    { cause },
  );
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
