import { closeSync, fstatSync, openSync, realpathSync, type Stats, statSync } from "node:fs";
import { unlessAbsent } from "../files/file-io.js";

/**
 * The files that a connection has open. A person or a script may delete or replace them. Another SQLite library in this
 * process may close the database, which frees this library's locks and removes the log. SQLite doesn't notice it, and a
 * new process wouldn't see later writes.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #database: Stats;
  /** A descriptor of the log. (One of the database would free SQLite's locks when it is closed.) */
  readonly #log: number | undefined;

  /** @param hasLog - False for a copy, which nobody writes to. */
  constructor(path: string, hasLog: boolean) {
    this.#path = path;
    this.#database = statSync(path);
    // If the path is a link, SQLite puts the log beside the link's target.
    this.#log = hasLog ? unlessAbsent(() => openSync(`${realpathSync(path)}-wal`, "r")) : undefined;
  }

  get isLogDeleted(): boolean {
    return this.#log !== undefined && fstatSync(this.#log).nlink === 0;
  }

  /** Whether the path still belongs to the database. */
  get isNamed(): boolean {
    return this.isOf(statSync(this.#path, { throwIfNoEntry: false }));
  }

  /** Whether the open database is this file. */
  isOf(file: Stats | undefined): boolean {
    return file?.ino === this.#database.ino && file.dev === this.#database.dev;
  }

  isSame(other: OpenFiles): boolean {
    return this.isOf(other.#database);
  }

  close(): void {
    if (this.#log !== undefined) closeSync(this.#log);
  }
}
