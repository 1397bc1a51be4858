import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import type { SqliteConnection } from "./connection.js";

/** SQLite itself sees to it that these columns agree with the statement beside them. */
const OBJECTS = "SELECT type, name, lower(tbl_name), sql FROM sqlite_schema";
/** What may hold anything: comments, quoted names, texts. */
const TOKEN = /--[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|'(?:[^']|'')*'/g;
const QUOTED_NAME = /^["`[]\w+["`\]]$/;
/** The name and all that follows, whatever its end. */
const CREATE = /CREATE (?:TABLE|UNIQUE INDEX) (\w+) [^;]*/g;

/**
 * Refuses a database in which a write to our tables would do more, or something else, than its statement says: a trigger
 * on one of them, or a view or an altered definition (`ON CONFLICT REPLACE`, `ON DELETE CASCADE`, an index that isn't
 * unique) in the place of one. Whoever once had the file in hand could so change or remove what is saved later. Other
 * tables are their owner's, and so are more indexes.
 *
 * @param tables - Our tables' names, in lower case.
 * @param scripts - What makes them and their indexes.
 * @param later - What makes those that may not be there yet.
 * @throws {UnsupportedFormatError}
 * @throws {CheckpointCorruptError} One of them is missing.
 */
export function refusePlanted(
  connection: SqliteConnection,
  path: string,
  tables: readonly string[],
  scripts: readonly string[],
  later: readonly string[],
): void {
  const needed = definitionsIn(scripts);
  const made = new Map([...needed, ...definitionsIn(later)]);
  const found = connection.all(OBJECTS).map(([type, name, table, sql]) => {
    const itsName = String(type === "index" ? name : table).toLowerCase();
    // As SQL quotes it: whoever named it mustn't get to write more of the statement that we tell people to run.
    const quoted = `"${String(name).replaceAll('"', '""')}"`;
    return { type: String(type), name: quoted, table: String(table), itsName, sql: String(sql) };
  });
  const planted = found.filter(({ type, table, itsName, sql }) => {
    const expected = made.get(itsName);
    if (type === "index") return expected !== undefined && bare(expected) !== bare(sql);
    return tables.includes(table) && !(type === "table" && expected !== undefined && bare(expected) === bare(sql));
  });
  if (planted.length > 0) {
    throw refusal(
      path,
      planted.map(({ type, name, table }) =>
        type === "trigger"
          ? `the trigger ${name} on ${table}`
          : `${type === "index" ? "an" : "a"} ${type} ${name} that isn't as Waymark makes it`,
      ),
      planted.map(({ type, name, itsName }) => {
        if (type === "trigger") return `DROP TRIGGER ${name};`;
        if (type === "index") return `DROP INDEX ${name}; ${made.get(itsName)};`;
        // Without it the next repair makes one.
        return type === "table" && !needed.has(itsName) ? `ALTER TABLE ${name} RENAME TO not_${itsName};` : undefined;
      }),
    );
  }
  const names = new Set(found.map(({ itsName }) => itsName));
  for (const [name, statement] of needed) if (!names.has(name)) throw missing(path, name, statement);
}

/** By the name of the table or the index. */
function definitionsIn(scripts: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    scripts
      .flatMap((script) => [...withoutComments(script).matchAll(CREATE)])
      .map(([sql, name = ""]) => [name, oneLine(sql)]),
  );
}

/** @param mends - A statement for each of them; `undefined` where there is none. */
function refusal(
  path: string,
  planted: readonly string[],
  mends: readonly (string | undefined)[],
): UnsupportedFormatError {
  return new UnsupportedFormatError(
    `The database ${path} has ${planted.join(", ")}. That could change or remove what is saved, so it was not read, and was left ` +
      "untouched. Find out who made it: they could write to this file. Then " +
      (mends.includes(undefined)
        ? "put back a backup, or choose another path."
        : `look at what is stored, and mend it in the sqlite3 shell: ${mends.join(" ")}`),
  );
}

function missing(path: string, name: string, statement: string): CheckpointCorruptError {
  const isIndex = !statement.startsWith("CREATE TABLE");
  return new CheckpointCorruptError(
    `The database ${path} lacks the ${isIndex ? "index" : "table"} ${name}: it is damaged, or somebody has changed it. It was not ` +
      "read, and was left untouched. Copy the file and its -wal before anything else, then " +
      (isIndex
        ? `make the index anew in the sqlite3 shell; no checkpoint is lost by this: ${statement};`
        : "put back a backup."),
  );
}

function withoutComments(sql: string): string {
  return sql.replace(TOKEN, (token) => (/^(--|\/\*)/.test(token) ? " " : token));
}

function oneLine(sql: string): string {
  return sql.replace(/\s+/g, " ").trim();
}

/** What tools that copy a database may write otherwise doesn't count: comments, spaces, quotes and capitals. */
function bare(sql: string): string {
  return oneLine(withoutComments(sql).replace(TOKEN, (token) => (QUOTED_NAME.test(token) ? token.slice(1, -1) : token)))
    .replace(/ ?([(),]) ?/g, "$1")
    .toLowerCase();
}
