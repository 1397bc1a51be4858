import { pathToFileURL } from "node:url";
import { isError } from "../../src/contract/errors.js";
import type { SqliteDatabase, SqliteDriver, SqliteDriverName, SqliteStatement } from "./driver.js";

/** The module name of an SQLite that is built into a runtime. */
type BuiltInDriver = Exclude<SqliteDriverName, "better-sqlite3">;

/** The options for opening a database, as in better-sqlite3. */
interface OpenOptions {
  readonly fileMustExist: boolean;
  readonly timeout: number;
}

/** The part of `node:sqlite` that is used here. Node's own types don't fit the oldest supported Node. */
interface NodeDatabase {
  readonly isTransaction: boolean;
  prepare(sql: string): NodeStatement;
  exec(sql: string): void;
  close(): void;
}

interface NodeStatement {
  setReturnArrays(isOn: boolean): void;
  run(...values: readonly unknown[]): ReturnType<SqliteStatement["run"]>;
  get(...values: readonly unknown[]): unknown;
  all(...values: readonly unknown[]): unknown[];
  iterate(...values: readonly unknown[]): Iterable<unknown>;
}

/** The part of `bun:sqlite` that is used here. */
interface BunDatabase {
  readonly inTransaction: boolean;
  prepare(sql: string): BunStatement;
  exec(sql: string): unknown;
  close(): void;
}

interface BunStatement {
  run(...values: readonly unknown[]): ReturnType<SqliteStatement["run"]>;
  values(...values: readonly unknown[]): unknown[][];
}

/** Returns the driver of a runtime's own SQLite; `undefined` if this runtime has none, or too old a version. */
export function builtInDriver(name: BuiltInDriver): SqliteDriver | undefined {
  const loaded = loadQuietly(name);
  if (loaded === undefined) return undefined;
  if (name === "bun:sqlite" && "Database" in loaded) {
    // The type is asserted, since Bun's declarations aren't installed. Node's type is asserted below for the same
    // reason.
    return bunDriver(loaded.Database as new (path: string, options: object) => BunDatabase);
  }
  // Node 22.13 to 22.15 can't return rows as arrays.
  if (!("StatementSync" in loaded && "DatabaseSync" in loaded)) return undefined;
  if (!Reflect.has(Object(loaded.StatementSync).prototype, "setReturnArrays")) return undefined;
  return nodeDriver(loaded.DatabaseSync as new (path: URL | string) => NodeDatabase);
}

/** Loads the module without Node's warning that its SQLite is experimental. */
function loadQuietly(name: BuiltInDriver): object | undefined {
  const emit = process.emitWarning;
  process.emitWarning = (warning: string | Error, ...rest: readonly unknown[]) => {
    if (!String(warning).includes("SQLite")) Reflect.apply(emit, process, [warning, ...rest]);
  };
  try {
    return process.getBuiltinModule(name);
  } finally {
    process.emitWarning = emit;
  }
}

function nodeDriver(open: new (path: URL | string) => NodeDatabase): SqliteDriver {
  return class implements SqliteDatabase {
    readonly #database: NodeDatabase;

    constructor(path: string, { fileMustExist, timeout }: OpenOptions) {
      this.#database = coded(() => new open(fileMustExist ? existingFile(path) : path));
      this.exec(`PRAGMA busy_timeout = ${timeout}`);
    }

    get inTransaction(): boolean {
      return this.#database.isTransaction;
    }

    prepare(sql: string): SqliteStatement {
      const statement = coded(() => this.#database.prepare(sql));
      const prepared: SqliteStatement = {
        run: (...values) => coded(() => statement.run(...values.map(orNull))),
        get: (...values) => coded(() => statement.get(...values.map(orNull))),
        all: (...values) => coded(() => statement.all(...values.map(orNull))),
        iterate: (...values) => codedRows(() => statement.iterate(...values.map(orNull))),
        raw: () => {
          statement.setReturnArrays(true);
          return prepared;
        },
      };
      return prepared;
    }

    exec(sql: string): void {
      coded(() => this.#database.exec(sql));
    }

    pragma(sql: string): unknown {
      const row = this.prepare(`PRAGMA ${sql}`).raw().get();
      return Array.isArray(row) ? row[0] : undefined;
    }

    close(): void {
      this.#database.close();
    }
  };
}

/**
 * Makes a driver of `bun:sqlite`, whose errors already have SQLite's codes. It can't return rows as arrays one at a
 * time, so all rows are read at once, and a transaction keeps other reads at the same snapshot until the iteration has
 * finished.
 */
function bunDriver(open: new (path: string, options: object) => BunDatabase): SqliteDriver {
  return class implements SqliteDatabase {
    readonly #database: BunDatabase;

    constructor(path: string, { fileMustExist, timeout }: OpenOptions) {
      this.#database = new open(path, { readwrite: true, create: !fileMustExist });
      this.exec(`PRAGMA busy_timeout = ${timeout}`);
    }

    get inTransaction(): boolean {
      return this.#database.inTransaction;
    }

    prepare(sql: string): SqliteStatement {
      const statement = this.#database.prepare(sql);
      const all = (...values: readonly unknown[]) => statement.values(...values.map(orNull));
      const prepared: SqliteStatement = {
        run: (...values) => statement.run(...values.map(orNull)),
        get: (...values) => all(...values)[0],
        all,
        iterate: (...values) => inTransaction(this, () => all(...values)),
        raw: () => prepared,
      };
      return prepared;
    }

    exec(sql: string): void {
      this.#database.exec(sql);
    }

    pragma(sql: string): unknown {
      return this.#database.prepare(`PRAGMA ${sql}`).values()[0]?.[0];
    }

    close(): void {
      this.#database.close();
    }
  };
}

function* inTransaction(database: SqliteDatabase, read: () => readonly unknown[]): Generator<unknown, void, void> {
  const isOwn = !database.inTransaction;
  if (isOwn) database.exec("BEGIN");
  try {
    yield* read();
  } finally {
    if (isOwn) database.exec("COMMIT");
  }
}

/** Returns a URL that opens the file but doesn't create it. */
function existingFile(path: string): URL {
  const url = pathToFileURL(path);
  url.searchParams.set("mode", "rw");
  return url;
}

/** Turns `undefined` into NULL, as better-sqlite3 does and the adapter expects. */
function orNull(value: unknown): unknown {
  return value === undefined ? null : value;
}

/** Better-sqlite3's names for the SQLite result codes that the adapter tells apart. */
const CODES: Readonly<Record<number, string>> = {
  5: "SQLITE_BUSY",
  6: "SQLITE_LOCKED",
  8: "SQLITE_READONLY",
  10: "SQLITE_IOERR",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  14: "SQLITE_CANTOPEN",
  15: "SQLITE_PROTOCOL",
  19: "SQLITE_CONSTRAINT",
  26: "SQLITE_NOTADB",
  4874: "SQLITE_IOERR_SHMSIZE",
};

/** Runs a call of `node:sqlite`, and adds SQLite's name of the code to its errors. */
function coded<Result>(call: () => Result): Result {
  try {
    return call();
  } catch (error) {
    if (isError(error) && "errcode" in error && typeof error.errcode === "number") {
      const code = CODES[error.errcode] ?? CODES[error.errcode & 0xff] ?? "SQLITE_ERROR";
      Object.assign(error, { code });
    }
    throw error;
  }
}

function* codedRows(call: () => Iterable<unknown>): Generator<unknown, void, void> {
  const rows = coded(call)[Symbol.iterator]();
  try {
    for (;;) {
      const { done, value } = coded(() => rows.next());
      if (done) return;
      yield value;
    }
  } finally {
    rows.return?.();
  }
}
