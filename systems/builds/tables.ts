import type { SqliteConnection } from "../../adapters/sqlite/connection.js";
import type { DatabaseFileOptions } from "../../adapters/sqlite/opening.js";
import { APPLICATION_ID } from "../../adapters/sqlite/schema.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { CHECKPOINT_COLUMNS, STATE_COLUMNS } from "./rows.js";
import { BuildStore } from "./store.js";

/** The spec's tables, column for column, so that databases of the spec's program work as they are. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS checkpoints (
    id TEXT PRIMARY KEY,
    build_id TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    tasks TEXT NOT NULL,          -- JSON array of Task objects
    current_phase INTEGER NOT NULL,
    metadata TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP
  );
  CREATE INDEX IF NOT EXISTS idx_build_id ON checkpoints(build_id);

  CREATE TABLE IF NOT EXISTS build_states (
    build_id TEXT PRIMARY KEY,
    prd_file TEXT NOT NULL,
    start_time TEXT NOT NULL,
    tasks TEXT NOT NULL,
    completed_tasks TEXT NOT NULL,
    failed_tasks TEXT NOT NULL,
    current_phase INTEGER NOT NULL,
    logs TEXT NOT NULL,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP
  );
`;

/** The columns that each of our tables must have. */
const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  checkpoints: [...CHECKPOINT_COLUMNS, "created_at"],
  build_states: STATE_COLUMNS,
};

/** Build tables in a database, which may hold other tables too. */
export const BUILD_FORMAT: Pick<DatabaseFileOptions<BuildStore>, "isPresent" | "makeTables" | "store"> = {
  isPresent: (database, path) => buildTablesIn(database, path).length > 0,
  makeTables,
  store: (database, path) => new BuildStore(database, path),
};

function makeTables(database: SqliteConnection, path: string): void {
  const isWhole = () => buildTablesIn(database, path).length === Object.keys(COLUMNS).length;
  // Checked first without a lock, because usually no table is missing.
  if (isWhole()) return;
  database.atomically(() => {
    if (!isWhole()) database.database.exec(TABLES);
  });
}

/**
 * Which of our tables the database has.
 *
 * @throws {UnsupportedFormatError} A table of that name has other columns; or there is none, and the file belongs to
 * another program.
 */
function buildTablesIn(connection: SqliteConnection, path: string): readonly string[] {
  const rows = connection.all(
    "SELECT lower(name), type, wr FROM pragma_table_list WHERE schema = 'main' AND lower(name) IN ('checkpoints', 'build_states')",
  );
  const found = rows.map(([name, type, withoutRowid]) => {
    const table = String(name);
    const columns = connection.all("SELECT lower(name) FROM pragma_table_info(?)", table).map(([column]) => column);
    const missing = COLUMNS[table]?.filter((column) => !columns.includes(column)) ?? [];
    if (type === "table" && withoutRowid === 0 && missing.length === 0) return table;
    throw new UnsupportedFormatError(
      `The database ${path} has a ${String(type)} named ${table} that isn't one of waymark/builds` +
        `${missing.length > 0 ? `: it has no column ${missing.join(", ")}` : ""}. It was left untouched; choose another path.`,
    );
  });
  const application = Number(connection.pragma("application_id"));
  if (found.length > 0 || application === 0 || application === APPLICATION_ID) return found;
  throw new UnsupportedFormatError(
    `The database ${path} belongs to another program: it has the application_id ${application}, and no tables of waymark/builds. ` +
      "It was left untouched; choose another path.",
  );
}
