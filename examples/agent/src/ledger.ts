import Database from "better-sqlite3";

/** A deed, and how many times it was requested. */
export interface Deed {
  readonly key: string;
  readonly what: string;
  readonly asked: number;
}

/** The outside world: a shop and a mail server. Like payment services, they do nothing twice under the same key. */
export class Ledger {
  readonly #database: Database.Database;

  constructor(path: string) {
    this.#database = new Database(path);
    this.#database.exec(
      "CREATE TABLE IF NOT EXISTS deeds (key TEXT PRIMARY KEY, what TEXT NOT NULL, asked INTEGER NOT NULL)",
    );
  }

  /** Does the deed, unless a deed was already done under this key. Returns the deed that belongs to the key. */
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
