// @ts-check
import { randomUUID } from "node:crypto";
import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import pg from "pg";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { bundled } from "../tests/support/bundled.mjs";

/**
 * A storage of Waymark, and the smallest store that stores a text as durably on the same disk.
 *
 * @typedef {object} BareStore
 * @property {"full" | "normal" | "files" | "postgres"} kind
 * @property {string} title
 * @property {string} baseline - What `insert` does.
 * @property {string} url - The URL of Waymark's storage for another process, with the storage's default durability.
 * @property {() => import("waymark").StorageAdapter & { readonly log: NonNullable<import("waymark").StorageAdapter["log"]> }} open
 *   Opens another instance of Waymark's storage on the same data.
 * @property {(text: string, list?: string) => unknown} insert - Stores a text durably.
 * @property {(list: string) => readonly unknown[] | Promise<readonly unknown[]>} readAll - Reads a list's texts in
 * order.
 */

/**
 * Opens each store once the previous store is done.
 *
 * @param {string} folder
 * @param {string} name - The name of one benchmark's data.
 * @returns {AsyncGenerator<BareStore>}
 */
export async function* openBareStores(folder, name) {
  yield* openSqlite(folder, name, "full");
  yield* openSqlite(folder, name, "normal");
  yield* openFiles(folder, name);
  yield* openPostgres();
}

/**
 * @param {string} folder
 * @param {string} name
 * @param {"full" | "normal"} durability
 * @returns {AsyncGenerator<BareStore>}
 */
async function* openSqlite(folder, name, durability) {
  const database = new Database(join(folder, `bare-${name}-${durability}.db`));
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${durability}`);
  database.exec("CREATE TABLE bare (task TEXT, sequence INTEGER, body TEXT, PRIMARY KEY (task, sequence)) STRICT");
  const insert = database.prepare("INSERT INTO bare VALUES (?, ?, ?)");
  const select = database.prepare("SELECT body FROM bare WHERE task = ? ORDER BY sequence").pluck();
  let number = 0;
  yield {
    kind: durability,
    title: `SQLite, write-ahead log, synchronous ${durability.toUpperCase()}`,
    baseline: "a bare insert",
    url: `sqlite:${join(folder, `${name}-${durability}.db`)}`,
    open: () => new SqliteAdapter({ path: join(folder, `${name}-${durability}.db`), durability }),
    insert: (text, list = "t") => insert.run(list, ++number, text),
    readAll: (list) => select.all(list),
  };
  database.close();
}

/**
 * @param {string} folder
 * @param {string} name
 * @returns {AsyncGenerator<BareStore>}
 */
async function* openFiles(folder, name) {
  /** @type {Map<string, number>} */
  const files = new Map();
  const pathOf = (/** @type {string} */ list) => join(folder, `bare-${name}-${list}.jsonl`);
  yield {
    kind: "files",
    title: "json-file",
    baseline: "a bare append and fdatasync",
    url: `files:${join(folder, `${name}-files`)}`,
    open: () => new JsonFileAdapter({ path: join(folder, `${name}-files`) }),
    insert: (text, list = "t") => {
      const file = files.get(list) ?? openSync(pathOf(list), "a");
      files.set(list, file);
      writeSync(file, `${text}\n`);
      fdatasyncSync(file);
    },
    readAll: (list) => readFileSync(pathOf(list), "utf8").trimEnd().split("\n"),
  };
  for (const file of files.values()) closeSync(file);
}

/** @returns {AsyncGenerator<BareStore>} */
async function* openPostgres() {
  const given = process.env["DATABASE_URL"];
  const server = given
    ? undefined
    : await (await import(await bundled("examples/two-machines/src/postgres-server.ts"))).startPostgres();
  const url = given ?? server.url;
  const pool = new pg.Pool({ connectionString: url });
  // The server may end before its clients.
  pool.on("error", () => undefined);
  const schema = `bench_${randomUUID()}`;
  const insert = { name: "bare insert", text: `INSERT INTO "${schema}".bare VALUES ($1, $2, $3)` };
  const select = { name: "bare select", text: `SELECT body FROM "${schema}".bare WHERE task = $1 ORDER BY sequence` };
  let number = 0;
  try {
    await pool.query(`CREATE SCHEMA "${schema}"`);
    await pool.query(
      `CREATE TABLE "${schema}".bare (task text, sequence bigint, body bytea, PRIMARY KEY (task, sequence))`,
    );
    const withSchema = new URL(url);
    withSchema.searchParams.set("schema", schema);
    yield {
      kind: "postgres",
      url: withSchema.href,
      title: "PostgreSQL, on this machine, synchronous_commit on",
      baseline: "a bare prepared insert",
      open: () => new PostgresAdapter({ pool, schema, prepare: true }),
      insert: (text, list = "t") => pool.query({ ...insert, values: [list, ++number, Buffer.from(text)] }),
      readAll: async (list) => {
        const { rows } = await pool.query({ ...select, values: [list] });
        return rows.map(({ body }) => body.toString());
      },
    };
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await pool.end();
    await server?.stop();
  }
}
