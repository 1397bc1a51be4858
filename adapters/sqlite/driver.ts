/** The part of better-sqlite3's `Statement` that the adapter uses. */
export interface SqliteStatement {
  run(...values: unknown[]): { readonly changes: number; readonly lastInsertRowid: number | bigint };
  get(...values: unknown[]): unknown;
  all(...values: unknown[]): unknown[];
  iterate(...values: unknown[]): Iterable<unknown>;
  raw(): SqliteStatement;
}

/** The part of better-sqlite3's `Database` that the adapter uses. */
export interface SqliteDatabase {
  readonly inTransaction: boolean;
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  pragma(sql: string, options: { readonly simple: true }): unknown;
  /** Whether integers are returned as bigints. A class that always returns numbers doesn't need this method. */
  defaultSafeIntegers?(isOn: boolean): unknown;
  close(): unknown;
}

/**
 * The part of better-sqlite3's export that the adapter uses. Since this is a structural type, these declarations need
 * neither better-sqlite3 nor its types, and any class with these methods fits.
 */
export type SqliteDriver = new (
  path: string,
  options: { readonly fileMustExist: boolean; readonly timeout: number },
) => SqliteDatabase;

/** The name of a driver that can be chosen. */
export type SqliteDriverName = "better-sqlite3" | "node:sqlite" | "bun:sqlite";
