import { isDeepStrictEqual } from "node:util";
import { StorageError, UnsupportedFormatError } from "../../src/contract/errors.js";
import { parseNumber } from "./columns.js";
import type { PostgresConnection, Statements } from "./connection.js";
import { quoteName } from "./statements/tables.js";

/** The version of the tables. */
const VERSION = 1;
const NOTE = "Waymark's checkpoints, version ";
/** The letters `WYMK` as a number, so that other programs don't use the same lock. */
const ADVISORY_LOCK = 0x57594d4b;

/**
 * Returns the statements that create the tables, for applying them by hand if the adapter has `migrate: false`.
 * Applying them again is safe.
 *
 * @param schema - Default `waymark`.
 */
export function postgresDdl(schema = "waymark"): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quoteName(schema)};\n\n${renderTables(schema)}`;
}

/**
 * Small payloads and payloads of bytes are stored in the checkpoint's row. (PostgreSQL itself stores large bytes
 * outside the row.) A text of 1 KB or more is stored as a piece of its task's history (see adapters/sql/history.ts), so
 * that lists don't read it and a new status doesn't rewrite it.
 *
 * Every append writes the task's row, and the row's lock orders the sequences. One look-up of the row returns the
 * task's position. The row also shows whether checkpoints are missing.
 *
 * COLLATE "C" sorts by code point, which is the contract's order. An id is looked up by its SHA-256, since ids may be
 * longer than a key.
 */
function renderTables(schema: string): string {
  const name = quoteName(schema);
  return `CREATE TABLE IF NOT EXISTS ${name}.tasks (
  task_id text COLLATE "C" NOT NULL PRIMARY KEY,
  last_sequence bigint NOT NULL, -- the last sequence taken, even if its checkpoint was removed
  count bigint NOT NULL,
  newest_sequence bigint, -- NULL in a task without checkpoints
  newest_created_at text COLLATE "C", -- the last record's in a task that has records only
  newest_status text COLLATE "C", -- '' in a task that has records only; NULL in an empty task
  due_at text COLLATE "C", -- when a worker may continue the task, in ISO 8601 UTC; NULL: no worker may
  last_text bytea, -- the last text: its SHA-256, and 8 bytes of its checkpoint id's; NULL: the next text begins a new history
  last_event bigint, -- the sequence of the last event
  lazy_sequence bigint, -- the last sequence that was committed without a sync
  removed_up_to bigint -- the highest sequence of a removed record
);
CREATE INDEX IF NOT EXISTS tasks_by_recency ON ${name}.tasks (newest_status, newest_created_at DESC, task_id);
CREATE INDEX IF NOT EXISTS tasks_due ON ${name}.tasks (due_at, task_id) WHERE due_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS ${name}.checkpoints (
  task_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  id_digest bytea NOT NULL, -- the SHA-256 of id
  created_at text COLLATE "C" NOT NULL,
  stage text COLLATE "C",
  label text COLLATE "C",
  parent_id text COLLATE "C",
  metadata text COLLATE "C", -- JSON
  status text COLLATE "C" NOT NULL,
  error text COLLATE "C", -- JSON
  due_at text COLLATE "C", -- in ISO 8601 UTC; NULL: no worker may continue the task
  state_version bigint NOT NULL,
  size_bytes bigint NOT NULL,
  encoding text COLLATE "C" NOT NULL,
  sha256 text COLLATE "C" NOT NULL,
  seal text COLLATE "C" NOT NULL,
  is_text boolean NOT NULL, -- true: the body is JSON in UTF-8; false: it is what the encoding says
  body bytea, -- NULL: the body is stored as pieces
  PRIMARY KEY (task_id, sequence)
);
CREATE UNIQUE INDEX IF NOT EXISTS checkpoints_by_id ON ${name}.checkpoints (task_id, id_digest);

-- The pieces of a task's texts. A removed checkpoint's piece is kept as long as other pieces need it.
CREATE TABLE IF NOT EXISTS ${name}.pieces (
  task_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL, -- its checkpoint's sequence; for a bundle, the last checkpoint's
  form int NOT NULL, -- 1: a whole text, 2: a whole text, by Brotli, 3: a delta, 4: a bundle of deltas
  body bytea NOT NULL,
  PRIMARY KEY (task_id, number)
);
ALTER TABLE ${name}.pieces ALTER COLUMN body SET STORAGE EXTERNAL; -- the adapter compresses bodies itself

-- The records of a task's log. (Its checkpoints have their own table.)
CREATE TABLE IF NOT EXISTS ${name}.records (
  task_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C",
  record_key text COLLATE "C",
  id text COLLATE "C", -- an event's
  id_digest bytea, -- the SHA-256 of id
  created_at text COLLATE "C" NOT NULL,
  encoding text COLLATE "C" NOT NULL,
  sha256 bytea NOT NULL,
  seal bytea NOT NULL,
  size_bytes bigint NOT NULL,
  is_text boolean NOT NULL, -- true: the body is JSON in UTF-8; false: it is what the encoding says
  body bytea, -- NULL in an event whose body was removed
  PRIMARY KEY (task_id, sequence)
);
CREATE UNIQUE INDEX IF NOT EXISTS records_by_id ON ${name}.records (task_id, id_digest) WHERE id_digest IS NOT NULL;

-- The runners of tasks. A row is kept after its task is removed, so that tokens only grow.
CREATE TABLE IF NOT EXISTS ${name}.leases (
  task_id text COLLATE "C" NOT NULL PRIMARY KEY,
  holder text NOT NULL, -- with the id of its claim
  token bigint NOT NULL,
  expires_at timestamptz NOT NULL
);
-- The leases that are held, or that expired without a release.
CREATE INDEX IF NOT EXISTS leases_unreleased ON ${name}.leases (expires_at, task_id) WHERE expires_at > 'epoch';

-- Repair moves damaged rows here. The reason of a task's row contains its values.
CREATE TABLE IF NOT EXISTS ${name}.quarantine (
  task_id text COLLATE "C" NOT NULL,
  number bigint GENERATED ALWAYS AS IDENTITY,
  quarantined_at text NOT NULL,
  reason text NOT NULL,
  sequence bigint,
  id text,
  id_digest bytea,
  created_at text,
  stage text,
  label text,
  parent_id text,
  metadata text,
  status text,
  error text,
  due_at text,
  state_version bigint,
  size_bytes bigint,
  encoding text,
  sha256 text,
  seal text,
  is_text boolean,
  kind text, -- a record's; NULL for a checkpoint
  name text,
  record_key text,
  form int, -- 0: the body is the payload; otherwise it is a piece
  body bytea,
  PRIMARY KEY (task_id, number)
);

-- The program recognises its tables by this comment.
COMMENT ON TABLE ${name}.tasks IS '${NOTE.replaceAll("'", "''")}${VERSION}';
`;
}

/**
 * The values that the first columns of {@link LOOK} must have. Settings of the driver or the server may change them.
 */
const SAMPLES: readonly unknown[] = [Buffer.from([0, 255]), true, 1, "UTF8"];
/**
 * Returns at least one row, which begins with the samples.
 *
 * Reads the catalogue itself, because `to_regclass` may return a result that the connection cached before it waited for
 * the lock.
 */
const LOOK = `
  SELECT decode('00ff', 'hex'), true, 1::bigint, current_setting('client_encoding'),
    c.relname, obj_description(c.oid, 'pg_class')
  FROM (SELECT 1) samples LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)
    ON n.nspname = $1 AND c.relname IN ('tasks', 'checkpoints', 'pieces', 'records', 'leases', 'quarantine')
  ORDER BY c.relname DESC NULLS LAST`;

/**
 * Whether the schema has Waymark's tables.
 *
 * @throws {StorageError} A setting of the driver or of the server changes what statements return.
 * @throws {UnsupportedFormatError} A newer program or another program made the tables.
 */
export async function hasTables(statements: Statements, schema: string, location: string): Promise<boolean> {
  // The first row is the table `tasks`, whose comment contains the version.
  const [[bytes, flag, number, encoding, table, note] = []] = await statements.rows(LOOK, schema);
  if (!isDeepStrictEqual([bytes, flag, parseNumber(number), encoding], SAMPLES)) throw makeUnreadableError(location);
  if (table === null) return false;
  const version = typeof note === "string" && note.startsWith(NOTE) ? Number(note.slice(NOTE.length)) : undefined;
  if (version === VERSION) return true;
  throw new UnsupportedFormatError(
    version === undefined
      ? `${location} has a table "${String(table)}" of another program. It was left untouched; choose another schema.`
      : `${location} has version ${version} of the tables; this program knows versions up to ${VERSION}. ` +
          "They were left untouched; use the newer program, or choose another schema.",
  );
}

function makeUnreadableError(location: string): StorageError {
  return new StorageError(
    `The pool of ${location} doesn't return values in the form that the adapter asks for, so intact checkpoints would look ` +
      "damaged. Nothing was read or written. Set `binary` to false and `client_encoding` to UTF8. A wrapper of the pool " +
      "must pass on a query's `types` and `rowMode`. pg-native ignores `types`, so don't set type parsers with it.",
  );
}

/** Makes the tables in one transaction. Changes nothing if another process has already made them. */
export async function makeTables(connection: PostgresConnection, schema: string, location: string): Promise<void> {
  const make = async (statements: Statements) => {
    await statements.rows("SELECT pg_advisory_xact_lock($1)", ADVISORY_LOCK);
    if (await hasTables(statements, schema, location)) return;
    const [[encoding, existing] = []] = await statements.rows(
      "SELECT current_setting('server_encoding'), to_regnamespace($1)::text",
      quoteName(schema),
    );
    if (encoding !== "UTF8") {
      throw new StorageError(
        `The database of ${location} has the encoding ${String(encoding)}. Nothing was created; choose a database with UTF8.`,
      );
    }
    // If the schema exists, only the tables are created, because the role may not have the right to create schemas.
    await statements.change(existing === null ? postgresDdl(schema) : renderTables(schema));
  };
  await connection.atomically(make, { twice: true });
}
