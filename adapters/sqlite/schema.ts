import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";

/** The letters `WYMK` as a number. It distinguishes Waymark's databases from those of other programs. */
export const APPLICATION_ID = 0x57594d4b;
/** The version of the tables. */
const VERSION = 1;

/**
 * A checkpoint and its payload are in two tables, under the same number, so that lists don't read payloads. A new
 * status also doesn't rewrite the payload, as it would in one table, because SQLite rewrites whole rows. Each 1,024
 * numbers are a history (see adapters/sql/history.ts).
 *
 * Every append of a checkpoint writes the task's row, so that one look-up returns the task's position. The row also
 * shows whether checkpoints are missing.
 */
const SCHEMA: Readonly<Record<string, string>> = {
  waymark_tasks: `CREATE TABLE waymark_tasks (
    task_id TEXT NOT NULL PRIMARY KEY,
    last_sequence INTEGER NOT NULL, -- the last one given; it outlives its checkpoint
    count INTEGER NOT NULL,
    newest_sequence INTEGER, -- NULL in a task without checkpoints
    newest_created_at TEXT, -- in a task that has records only, the last one's
    newest_status TEXT, -- '' in a task that has records only; NULL in one that has nothing
    newest_minute TEXT, -- newest_created_at up to its minute, so that the many saves of a minute don't change an index
    due_at TEXT, -- when a worker may continue the task, in ISO 8601 UTC; NULL: no worker may
    removed_up_to INTEGER -- the highest sequence of a removed record
  ) STRICT, WITHOUT ROWID`,
  waymark_tasks_by_recency:
    "CREATE INDEX waymark_tasks_by_recency ON waymark_tasks (newest_status, newest_minute DESC)",
  waymark_tasks_due: "CREATE INDEX waymark_tasks_due ON waymark_tasks (due_at) WHERE due_at IS NOT NULL",
  waymark_checkpoints: `CREATE TABLE waymark_checkpoints (
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
    due_at TEXT, -- in ISO 8601 UTC; NULL: no worker may continue the task
    state_version INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    sha256 BLOB NOT NULL, -- 32 bytes, as seal
    seal BLOB NOT NULL
  ) STRICT`,
  waymark_checkpoints_by_sequence:
    "CREATE UNIQUE INDEX waymark_checkpoints_by_sequence ON waymark_checkpoints (task_id, sequence)",
  waymark_checkpoints_by_id: "CREATE UNIQUE INDEX waymark_checkpoints_by_id ON waymark_checkpoints (task_id, id)",
  waymark_payloads: `CREATE TABLE waymark_payloads (
    number INTEGER NOT NULL PRIMARY KEY,
    form INTEGER NOT NULL, -- 0: standalone, 1: whole, 2: whole, by Brotli, 3: a delta, 4: a bundle of deltas, with the number of the last
    body ANY NOT NULL -- of form 0: TEXT is JSON, a BLOB is what the encoding says
  ) STRICT`,
  waymark_records: `CREATE TABLE waymark_records (
    task_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT,
    record_key TEXT,
    id TEXT, -- of an event
    created_at TEXT NOT NULL,
    encoding TEXT NOT NULL,
    sha256 BLOB NOT NULL, -- 32 bytes, as seal
    seal BLOB NOT NULL,
    size_bytes INTEGER NOT NULL,
    body ANY, -- TEXT is JSON, a BLOB is what the encoding says; NULL in an event whose body was removed
    PRIMARY KEY (task_id, sequence)
  ) STRICT`,
  waymark_records_by_id:
    "CREATE UNIQUE INDEX waymark_records_by_id ON waymark_records (task_id, id) WHERE id IS NOT NULL",
  // Finds the last event without reading the records after it.
  waymark_records_events:
    "CREATE INDEX waymark_records_events ON waymark_records (task_id, sequence) WHERE id IS NOT NULL",
  waymark_leases: `CREATE TABLE waymark_leases (
    task_id TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    renewed_at_ms INTEGER NOT NULL, -- by the machine's monotonic clock, as the next one
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  // Indexes the leases that are held, or that expired without a release.
  waymark_leases_unreleased:
    "CREATE INDEX waymark_leases_unreleased ON waymark_leases (task_id) WHERE expires_at_ms <> renewed_at_ms",
  // The columns have no types, so that damaged values are stored unchanged. A damaged row of waymark_tasks is stored as
  // text in `reason`.
  waymark_quarantine: `CREATE TABLE waymark_quarantine (
    quarantined_at TEXT NOT NULL, reason TEXT NOT NULL, task_id,
    number, sequence, id, created_at, stage, label, parent_id, metadata, status, error, due_at, state_version,
    size_bytes, encoding, sha256, seal, form, body,
    kind, name, record_key -- of a record; NULL in a checkpoint
  )`,
};

/** A single statement, because another process may be making the tables. */
const HEADER_AND_SCHEMA = `SELECT user_version, application_id, s.name, s.sql, encoding
  FROM pragma_user_version, pragma_application_id, pragma_encoding
  LEFT JOIN sqlite_schema s ON s.name >= 'waymark_' AND s.name < 'waymark\`'`;

/**
 * Whether the database has Waymark's tables. If it doesn't, they may be added, because the database contains no other
 * program's tables.
 *
 * @throws {UnsupportedFormatError} A newer program or another program made the database.
 * @throws {CheckpointCorruptError} The database's header is damaged, or one of Waymark's tables or indexes is missing
 *   or changed.
 */
export function isWaymarkDatabase(database: SqliteConnection, path: string): boolean {
  const rows = database.all(HEADER_AND_SCHEMA);
  const [found, application, , , encoding] = rows[0] ?? [];
  const version = Number(found);
  const names = new Map(rows.flatMap(([, , name, sql]) => (name === null ? [] : [[String(name), String(sql)]])));
  if (application === 0 && version === 0 && names.size === 0) {
    if (encoding === "UTF-8") return false;
    throw new UnsupportedFormatError(
      `The database ${path} has the encoding ${String(encoding)}, in which SQLite sorts task ids in another order than ` +
        "in UTF-8. It was left untouched; choose another path.",
    );
  }
  if (application !== APPLICATION_ID) {
    throw new UnsupportedFormatError(
      `The database ${path} belongs to another program: its application_id is ${String(application)}, not Waymark's ` +
        `${APPLICATION_ID} (user_version ${version}, ${names.size} tables and indexes named waymark_…). ` +
        "It was left untouched; choose another path.",
    );
  }
  if (version > VERSION) {
    throw new UnsupportedFormatError(
      `The database ${path} has the schema version ${version}; this program knows versions up to ${VERSION}. ` +
        "It was left untouched; use the newer program, or choose another path.",
    );
  }
  const different = Object.keys(SCHEMA).find((name) => names.get(name) !== SCHEMA[name]);
  if (version === VERSION && different === undefined) return true;
  throw new CheckpointCorruptError(
    `The database ${path} doesn't have Waymark's schema: its version is ${version}, and ` +
      `${different === undefined ? "its tables are complete" : `${different} is missing or changed`}. ` +
      "It was left untouched. Copy the file and its -wal file, then restore a backup.",
  );
}

/** Makes the tables in one transaction. Changes nothing if another process has already made them. */
export function makeTables(database: SqliteConnection, path: string): void {
  // Look without a lock first, because another process may hold the lock for long.
  if (isWaymarkDatabase(database, path)) return;
  database.atomically(() => {
    if (isWaymarkDatabase(database, path)) return;
    for (const sql of Object.values(SCHEMA)) database.run(sql);
    database.pragma(`application_id = ${APPLICATION_ID}`);
    database.pragma(`user_version = ${VERSION}`);
  });
}
