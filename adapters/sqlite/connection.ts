import type { SqliteDatabase, SqliteRow, SqliteStatement } from "./driver.js";

/** An open database and its prepared statements: what everything but a save goes through. */
export class SqliteConnection {
  readonly database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();

  constructor(database: SqliteDatabase) {
    this.database = database;
  }

  close(): void {
    this.database.close();
  }

  /** Does the work in one transaction: all of it is stored, or nothing. */
  atomically<Result>(work: () => Result): Result {
    // IMMEDIATE: one that reads first and then finds the database locked could only fail.
    return this.#transaction("BEGIN IMMEDIATE", "COMMIT", work);
  }

  /** Reads by several statements what is stored at one moment. */
  atOneMoment<Result>(work: () => Result): Result {
    // Where it met damage, COMMIT would fail.
    return this.#transaction("BEGIN", "ROLLBACK", work);
  }

  /** How many rows it changed. */
  run(sql: string, ...values: readonly unknown[]): number {
    return this.#statement(sql, false).run(...values).changes;
  }

  /** The first row. */
  one(sql: string, ...values: readonly unknown[]): SqliteRow | undefined {
    return rowOf(this.#statement(sql, true).get(...values));
  }

  /** Every row. */
  all(sql: string, ...values: readonly unknown[]): readonly SqliteRow[] {
    return this.#statement(sql, true)
      .all(...values)
      .map((row) => rowOf(row) ?? []);
  }

  /** A setting's value. */
  pragma(name: string): unknown {
    return this.database.pragma(name, { simple: true });
  }

  #transaction<Result>(begin: string, end: string, work: () => Result): Result {
    this.run(begin);
    try {
      const result = work();
      this.run(end);
      return result;
    } catch (error) {
      // After some errors SQLite has rolled back already.
      if (this.database.inTransaction) this.run("ROLLBACK");
      throw error;
    }
  }

  /** Each is prepared once, at its first use. */
  #statement(sql: string, givesRows: boolean): SqliteStatement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.database.prepare(sql);
      if (givesRows) statement = statement.raw();
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** A row, as a statement in raw mode gives it. */
export function rowOf(value: unknown): SqliteRow | undefined {
  return Array.isArray(value) ? value : undefined;
}
