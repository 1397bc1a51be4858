import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import { SqliteConnection } from "./connection.js";
import type { SqliteDatabase } from "./driver.js";
import { refusePlanted } from "./planted.js";
import { QUARANTINE } from "./quarantine.js";

/** `WYMK`: what tells a database of ours from anybody else's. */
export const APPLICATION_ID = 0x57594d4b;

/**
 * From each version to the next one; the database's `user_version` says how many of them it has had.
 *
 * A checkpoint and its payload have the same number, in two tables: so a list doesn't pass over payloads, and a new
 * status doesn't write the payload anew, which SQLite does with all of a row.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE waymark_tasks (
    task_id TEXT NOT NULL PRIMARY KEY,
    -- No sequence up to this one is given again, nor up to the task's newest: appending needn't write here.
    given_sequence INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE waymark_checkpoints (
    number INTEGER NOT NULL PRIMARY KEY,
    task_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    stage TEXT,
    label TEXT,
    parent_id TEXT,
    metadata TEXT, -- JSON
    status TEXT NOT NULL,
    error TEXT, -- JSON
    state_version INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    seal TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX waymark_checkpoints_by_sequence ON waymark_checkpoints (task_id, sequence);
  CREATE UNIQUE INDEX waymark_checkpoints_by_id ON waymark_checkpoints (task_id, id);

  CREATE TABLE waymark_payloads (
    number INTEGER NOT NULL PRIMARY KEY,
    body ANY NOT NULL -- TEXT is JSON, a BLOB is whatever the checkpoint's encoding says
  ) STRICT;
  `,
];

const TABLES: readonly string[] = ["waymark_tasks", "waymark_checkpoints", "waymark_payloads", "waymark_quarantine"];

/**
 * Whether the database holds a store. If not, one may be added: there is nothing of another program in its way.
 *
 * @throws {UnsupportedFormatError} A newer program made it, or another one that would be disturbed, or somebody has
 *   changed its tables; or its texts aren't in UTF-8.
 * @throws {CheckpointCorruptError} It says that it is ours, of a version that there never was, or something of it is
 *   missing.
 */
export function holdsStore(database: SqliteDatabase, path: string): boolean {
  const version = Number(database.pragma("user_version", { simple: true }));
  const application = Number(database.pragma("application_id", { simple: true }));
  const newest = MIGRATIONS.length;
  if (application === APPLICATION_ID && version > newest) {
    throw new UnsupportedFormatError(
      `The database ${path} has the schema version ${version}; this program knows versions up to ${newest}. ` +
        "It was left untouched; run the newer program, or choose another path.",
    );
  }
  if (application === APPLICATION_ID && version > 0) {
    refuseEncoding(database, path);
    refuseChangedTables(new SqliteConnection(database), path);
    return true;
  }
  if (application === APPLICATION_ID) {
    // Both are set in one transaction, so this was never written: it is no empty store.
    throw new CheckpointCorruptError(
      `The database ${path} has the schema version ${version}, which no program writes: its header is damaged. ` +
        "It was left untouched; restore it from a backup, or copy it and set PRAGMA user_version by hand.",
    );
  }
  if (application !== 0 || version !== 0) {
    throw new UnsupportedFormatError(
      `The database ${path} belongs to another program: it has the application_id ${application} and the user_version ${version}, ` +
        `where a store of Waymark has ${APPLICATION_ID} and up to ${newest}. It was left untouched; choose another path.`,
    );
  }
  const table = database.prepare("SELECT name FROM sqlite_schema WHERE name >= 'waymark_' AND name < 'waymark`'").get();
  if (table === undefined) {
    refuseEncoding(database, path);
    return false;
  }
  throw new UnsupportedFormatError(
    `The database ${path} has tables named waymark_… that are not a store of Waymark. ` +
      "It was left untouched; choose another path.",
  );
}

/** @throws {UnsupportedFormatError} Its texts aren't in UTF-8, in which sizes are counted and ids are ordered. */
function refuseEncoding(database: SqliteDatabase, path: string): void {
  const encoding = database.pragma("encoding", { simple: true });
  if (encoding === "UTF-8") return;
  throw new UnsupportedFormatError(
    `The database ${path} keeps its texts in ${String(encoding)}, and a store of Waymark keeps them in UTF-8, so another program ` +
      "has made it. It was left untouched; choose another path. If it holds checkpoints, bring them into a new database: " +
      "`.dump` it in the sqlite3 shell, and run there what that gives, then " +
      `\`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${MIGRATIONS.length};\`.`,
  );
}

/**
 * @throws {UnsupportedFormatError} One of our tables has a trigger, or isn't as it was made.
 * @throws {CheckpointCorruptError} A table or an index of ours is missing.
 */
export function refuseChangedTables(connection: SqliteConnection, path: string): void {
  refusePlanted(connection, path, TABLES, MIGRATIONS, [QUARANTINE]);
}

/** Brings the database to the newest schema, in one transaction; concurrent calls wait for each other. */
export function migrate(database: SqliteDatabase, path: string): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    // Looked at again, under the lock: another process may have done it in between.
    const from = holdsStore(database, path) ? Number(database.pragma("user_version", { simple: true })) : 0;
    for (const migration of MIGRATIONS.slice(from)) database.exec(migration);
    if (from < MIGRATIONS.length) {
      database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${MIGRATIONS.length};`);
    }
    database.exec("COMMIT");
  } catch (error) {
    if (database.inTransaction) database.exec("ROLLBACK");
    throw error;
  }
}
