import Database from "better-sqlite3";

/** The deeds, and how often each was asked for. */
export interface Deed {
  readonly key: string;
  readonly what: string;
  readonly asked: number;
}

/** The world outside: a shop and a mail server that do nothing twice for the same key, as payment services do. */
export class Ledger {
  readonly #database: Database.Database;

  constructor(path: string) {
    this.#database = new Database(path);
    this.#database.exec(
      "CREATE TABLE IF NOT EXISTS deeds (key TEXT PRIMARY KEY, what TEXT NOT NULL, asked INTEGER NOT NULL)",
    );
  }

  /** Does it, unless something was done under this key. Returns what was done. */
  enter(key: string, what: string): string {
    const deed = this.#database
      .prepare<[string, string], Pick<Deed, "what">>(
        "INSERT INTO deeds VALUES (?, ?, 1) ON CONFLICT (key) DO UPDATE SET asked = asked + 1 RETURNING what",
      )
      .get(key, what);
    return `Done: ${deed?.what}`;
  }

  deeds(): Deed[] {
    return this.#database.prepare<[], Deed>("SELECT key, what, asked FROM deeds ORDER BY rowid").all();
  }

  close(): void {
    this.#database.close();
  }
}
