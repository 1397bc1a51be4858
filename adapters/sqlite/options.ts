import type { SqliteDriver } from "./driver.js";

/** What every user of a database says about it. */
export interface DatabaseOptions {
  readonly path: string;
  readonly busyTimeoutMs?: number | undefined;
  readonly database?: SqliteDriver | undefined;
}

export const DEFAULT_BUSY_TIMEOUT_MS = 5000;
/** The longest that SQLite can be told to wait: 24.8 days. */
const MAX_BUSY_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * @param what - What has the options, for the message: `SqliteAdapterOptions`.
 * @param inMemory - What to use in place of `:memory:`, for the message.
 * @throws {TypeError | RangeError} An option is missing or out of range; the message names it.
 */
export function checkDatabaseOptions(what: string, options: DatabaseOptions, inMemory: string): void {
  const { path, busyTimeoutMs, database } = options;
  if (typeof path !== "string" || path === "" || path.includes("\0")) {
    throw new TypeError(`${what}.path must be the path of a file.`);
  }
  if (path === ":memory:") throw new TypeError(`${what}.path must be a file's: ${inMemory}.`);
  if (path.trimEnd() !== path) throw new TypeError(`${what}.path ends in white space, which better-sqlite3 drops.`);
  const waitMs = busyTimeoutMs ?? 0;
  if (!Number.isSafeInteger(waitMs) || waitMs < 0 || waitMs > MAX_BUSY_TIMEOUT_MS) {
    throw new RangeError(`${what}.busyTimeoutMs must be whole milliseconds, from 0 to ${MAX_BUSY_TIMEOUT_MS}.`);
  }
  if (database !== undefined && typeof database !== "function") {
    throw new TypeError(`${what}.database must be better-sqlite3's Database, or a class like it.`);
  }
}
