import { UnsupportedFormatError } from "../../src/errors.js";
import type { SqliteConnection } from "./connection.js";

/** SQLite itself sees to it that these columns agree with the statement beside them. */
const OBJECTS = "SELECT type, name, lower(tbl_name), sql FROM sqlite_schema WHERE type <> 'index'";
/** What may hold anything: comments, quoted names, texts. */
const TOKEN = /--[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|'(?:[^']|'')*'/g;
const QUOTED_NAME = /^["`[]\w+["`\]]$/;
/** The table's name and all that follows, whatever its end. */
const CREATE_TABLE = /CREATE TABLE (\w+) [^;]*/g;

/**
 * Refuses a database in which a write to our tables would do more, or something else, than its statement says: a trigger
 * on one of them, or a view or an altered definition (`ON CONFLICT REPLACE`, `ON DELETE CASCADE`) in the place of one.
 * Whoever once had the file in hand could so change or remove what is saved later. Other tables are their owner's, and so
 * are more indexes.
 *
 * @param tables - Our tables' names, in lower case.
 * @param scripts - What makes them. A table that none of these makes may have any definition.
 */
export function refusePlanted(
  connection: SqliteConnection,
  path: string,
  tables: readonly string[],
  scripts: readonly string[],
): void {
  const made = new Map(
    scripts
      .flatMap((script) => [...withoutComments(script).matchAll(CREATE_TABLE)])
      .map(([sql, name]) => [name, bare(sql)]),
  );
  const planted = connection.all(OBJECTS).flatMap(([type, name, table, sql]) => {
    if (!tables.includes(String(table))) return [];
    const expected = made.get(String(table));
    const isOurs = type === "table" && (expected === undefined || expected === bare(String(sql)));
    return isOurs ? [] : [{ type: String(type), name: JSON.stringify(name), table: String(table) }];
  });
  if (planted.length === 0) return;
  const named = planted.map(({ type, name, table }) =>
    type === "trigger" ? `the trigger ${name} on ${table}` : `a ${type} ${name} that isn't as Waymark makes it`,
  );
  const drops = planted.filter(({ type }) => type === "trigger").map(({ name }) => `DROP TRIGGER ${name};`);
  throw new UnsupportedFormatError(
    `The database ${path} has ${named.join(", ")}. That could change or remove what is saved, so it was not read, and was left ` +
      "untouched. Find out who made it: they could write to this file. Then " +
      (drops.length === planted.length
        ? `look at what is stored, and remove it in the sqlite3 shell: ${drops.join(" ")}`
        : "put back a backup, or choose another path."),
  );
}

function withoutComments(sql: string): string {
  return sql.replace(TOKEN, (token) => (/^(--|\/\*)/.test(token) ? " " : token));
}

/** What tools that copy a database may write otherwise doesn't count: comments, spaces, quotes and capitals. */
function bare(sql: string): string {
  return withoutComments(sql)
    .replace(TOKEN, (token) => (QUOTED_NAME.test(token) ? token.slice(1, -1) : token))
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1")
    .trim()
    .toLowerCase();
}
