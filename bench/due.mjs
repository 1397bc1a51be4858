// @ts-check
import { createHash, randomUUID } from "node:crypto";
import Database from "better-sqlite3";
import pg from "pg";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const TASKS = 100_000;
/** The number of tasks that are due and for the worker, among all waiting tasks. Each claim takes one. */
const DUE = 1000;
const ROUNDS = 400;
const LONG_MS = 600_000;
const [EARLY, LATE] = ["2026-01-02T03:04:05.678Z", "9026-01-02T03:04:05.678Z"];

/** @typedef {import("waymark").StorageAdapter} StorageAdapter */

/** @type {readonly { readonly name: string, readonly taskOf: (n: number) => { taskId: string, dueAt: string } }[]} */
const CASES = [
  { name: "all due", taskOf: (n) => ({ taskId: `mine/${n}`, dueAt: EARLY }) },
  { name: "1,000 due", taskOf: (n) => ({ taskId: `mine/${n}`, dueAt: n % (TASKS / DUE) === 0 ? EARLY : LATE }) },
  {
    name: "all due, 1,000 of the prefix",
    taskOf: (n) => ({ taskId: `${n % (TASKS / DUE) === 0 ? "mine" : "others"}/${n}`, dueAt: EARLY }),
  },
];

/** @param {string} place - The beginning of the files' paths. */
export async function benchDueOnSqlite(place) {
  console.log("\nFilling three stores with 100,000 waiting tasks …");
  printHeading("SQLite, synchronous FULL, a worker claims the next due task");
  for (const [number, { name, taskOf }] of CASES.entries()) {
    const path = `${place}-${number}.db`;
    const filling = new SqliteAdapter({ path, durability: "normal" });
    await fill(filling, taskOf);
    await filling.close();
    const storage = new SqliteAdapter({ path });
    const bare = bareSqlite(`${place}-${number}-bare.db`, taskOf);
    await printClaims(name, storage, bare.claim);
    bare.close();
    await storage.close();
  }
}

/**
 * @param {string} url
 * @param {pg.Pool} pool
 */
export async function benchDueOnPostgres(url, pool) {
  console.log("\nFilling three stores on PostgreSQL with 100,000 waiting tasks …");
  printHeading("PostgreSQL, synchronous_commit on, a worker claims the next due task");
  for (const { name, taskOf } of CASES) {
    const schema = `bench_${randomUUID()}`;
    const storage = new PostgresAdapter({ url, schema, prepare: true });
    try {
      await fill(storage, taskOf);
      const claim = await barePostgres(pool, schema, taskOf);
      // A server in normal use has done this automatically.
      await pool.query(`VACUUM ANALYZE "${schema}".tasks, "${schema}".bare`);
      await printClaims(name, storage, claim);
    } finally {
      await storage.close();
      await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    }
  }
}

/**
 * @param {string} name
 * @param {StorageAdapter} storage
 * @param {() => unknown} bare - Claims the next due task of a bare table.
 */
async function printClaims(name, storage, bare) {
  const { queue } = storage;
  if (queue === undefined) throw new Error("The storage has no queue.");
  const query = { prefix: "mine/", dueBy: new Date().toISOString() };
  let claimed = 0;
  const ours = async () => {
    claimed += (await queue.claimNext(query, "worker", LONG_MS, 1)).length;
  };
  const result = await medians({ bare, ours }, { rounds: ROUNDS, warmup: ROUNDS / 4 });
  if (claimed !== ROUNDS * 1.25) throw new Error(`Only ${claimed} tasks were claimed.`);
  const idle = { prefix: "mine/", dueBy: "2000-01-01T00:00:00.000Z" };
  const looks = await medians({ ours: () => queue.claimNext(idle, "worker", LONG_MS, 1) }, { rounds: ROUNDS });
  printRow({ what: `claim among 100,000 waiting tasks: ${name}`, measuredMs: result.ours, limit: 5 });
  printRow({ what: "the same, to a bare claim", measuredMs: result.ours, againstMs: result.bare });
  printRow({ what: "the same, nothing due", measuredMs: looks.ours, limit: 5 });
}

/**
 * @param {StorageAdapter} storage
 * @param {(typeof CASES)[number]["taskOf"]} taskOf
 */
async function fill(storage, taskOf) {
  const payload = { encoding: "json", body: "{}", sha256: createHash("sha256").update("{}").digest("hex") };
  for (let first = 0; first < TASKS; first += 1000) {
    const drafts = Array.from({ length: 1000 }, (_, n) => {
      const { taskId, dueAt } = taskOf(first + n);
      const header = /** @type {const} */ ({
        id: "c",
        createdAt: EARLY,
        status: "paused",
        stateVersion: 1,
        sizeBytes: 2,
      });
      return { taskId, dueAt, ...header, payload };
    });
    await Promise.all(drafts.map((draft) => storage.append(draft)));
  }
}

/**
 * Makes a bare table with the same tasks. A claim updates one row, which an index finds.
 *
 * @param {string} path
 * @param {(typeof CASES)[number]["taskOf"]} taskOf
 */
function bareSqlite(path, taskOf) {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.exec(`CREATE TABLE tasks (task_id TEXT PRIMARY KEY, due_at TEXT, holder TEXT, token INTEGER, expires_at_ms INTEGER);
    CREATE INDEX due ON tasks (due_at) WHERE holder IS NULL`);
  const insert = database.prepare("INSERT INTO tasks VALUES (?, ?, NULL, 0, NULL)");
  database.transaction(() => {
    for (let n = 0; n < TASKS; n++) insert.run(...Object.values(taskOf(n)));
  })();
  const claim = database.prepare(
    `UPDATE tasks SET holder = ?, token = token + 1, expires_at_ms = ? WHERE task_id = (SELECT task_id FROM tasks INDEXED BY due
      WHERE holder IS NULL AND due_at <= ? AND task_id >= 'mine/' AND task_id < 'mine0' ORDER BY due_at LIMIT 1)
      RETURNING task_id, token`,
  );
  return { claim: () => claim.get("worker", LONG_MS, new Date().toISOString()), close: () => database.close() };
}

/**
 * Makes the bare table on PostgreSQL. A claim is one prepared statement.
 *
 * @param {pg.Pool} pool
 * @param {string} schema
 * @param {(typeof CASES)[number]["taskOf"]} taskOf
 */
async function barePostgres(pool, schema, taskOf) {
  const table = `"${schema}".bare`;
  await pool.query(`CREATE TABLE ${table} (task_id text COLLATE "C" PRIMARY KEY, due_at text COLLATE "C", holder text,
    token bigint, expires_at timestamptz)`);
  await pool.query(`CREATE INDEX ON ${table} (due_at) WHERE holder IS NULL`);
  const tasks = Array.from({ length: TASKS }, (_, n) => taskOf(n));
  await pool.query(`INSERT INTO ${table} SELECT *, NULL, 0, NULL FROM unnest($1::text[], $2::text[])`, [
    tasks.map(({ taskId }) => taskId),
    tasks.map(({ dueAt }) => dueAt),
  ]);
  const text = `UPDATE ${table} SET holder = $1, token = token + 1, expires_at = now() + interval '10 minutes'
    WHERE task_id = (SELECT task_id FROM ${table} WHERE holder IS NULL AND due_at <= $2 AND task_id >= 'mine/'
      AND task_id < 'mine0' ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING task_id, token`;
  return () => pool.query({ name: `bare-claim ${schema}`, text, values: ["worker", new Date().toISOString()] });
}
