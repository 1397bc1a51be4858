// @ts-check
import { hash, randomUUID } from "node:crypto";
import { closeSync, fdatasyncSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import pg from "pg";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { bundled } from "../tests/support/bundled.mjs";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

/** The length of a long log, and of a log that is read. */
const [LONG, READ] = [100_000, 10_000];
const ROUNDS = 400;
/** Warm-up rounds, until V8 has compiled the hot code, because a program that stores steps runs for hours. */
const WARMUP = 400;
const BATCH = 500;

/** @typedef {NonNullable<import("waymark").StorageAdapter["log"]>} TaskLog */
/** @typedef {Parameters<TaskLog["append"]>[1][number]} RecordDraft */

/**
 * An append of a record of 1 KB to a task's log against a bare insert or append of the same bytes, in a short and a long
 * log, and a read of a log against bare rows.
 *
 * @param {string} folder
 */
export async function benchLog(folder) {
  await benchSqlite(folder, "full", 1.5);
  await benchSqlite(folder, "normal", 2.5);
  await benchFiles(folder);
  await benchPostgres();
}

/**
 * @param {string} folder
 * @param {"full" | "normal"} durability
 * @param {number} limit
 */
async function benchSqlite(folder, durability, limit) {
  const adapter = new SqliteAdapter({ path: join(folder, `log-${durability}.db`), durability });
  const database = new Database(join(folder, `bare-log-${durability}.db`));
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${durability}`);
  database.exec("CREATE TABLE bare (task TEXT, sequence INTEGER, body TEXT, PRIMARY KEY (task, sequence)) STRICT");
  const insert = database.prepare("INSERT INTO bare VALUES (?, ?, ?)");
  const select = database.prepare("SELECT body FROM bare WHERE task = 'read' ORDER BY sequence").pluck();
  database.transaction(() => {
    for (let number = 1; number <= READ; number++) insert.run("read", number, makeRecord(number).payload.body);
  })();
  let number = 0;
  await compare({
    title: `SQLite, write-ahead log, synchronous ${durability.toUpperCase()}, records of 1 KB`,
    baseline: "a bare insert",
    log: adapter.log,
    bareAppend: () => insert.run("t", ++number, makeRecord(number).payload.body),
    bareRead: () => select.all(),
    limit,
  });
  await adapter.close();
  database.close();
}

/** @param {string} folder */
async function benchFiles(folder) {
  const adapter = new JsonFileAdapter({ path: join(folder, "log-files") });
  const file = openSync(join(folder, "bare.jsonl"), "a");
  let number = 0;
  const bareLog = join(folder, "bare-read.jsonl");
  writeFileSync(bareLog, Array.from({ length: READ }, (_, index) => makeRecord(index).payload.body).join("\n"));
  await compare({
    title: "json-file, records of 1 KB",
    baseline: "a bare append and fdatasync",
    log: adapter.log,
    bareAppend: () => {
      writeSync(file, `${makeRecord(++number).payload.body}\n`);
      fdatasyncSync(file);
    },
    bareRead: () => readFileSync(bareLog, "utf8").split("\n"),
    limit: 2.5,
  });
  await adapter.close();
  closeSync(file);
}

async function benchPostgres() {
  const given = process.env["DATABASE_URL"];
  const server = given
    ? undefined
    : await (await import(await bundled("examples/two-machines/src/postgres-server.ts"))).startPostgres();
  const pool = new pg.Pool({ connectionString: given ?? server.url });
  // The server may end before its clients.
  pool.on("error", () => undefined);
  const schema = `bench_${randomUUID()}`;
  try {
    await pool.query(`CREATE SCHEMA "${schema}"`);
    await pool.query(
      `CREATE TABLE "${schema}".bare (task text, sequence bigint, body bytea, PRIMARY KEY (task, sequence))`,
    );
    const adapter = new PostgresAdapter({ pool, schema, prepare: true });
    const insert = { name: "bare insert", text: `INSERT INTO "${schema}".bare VALUES ($1, $2, $3)` };
    const select = {
      name: "bare select",
      text: `SELECT body FROM "${schema}".bare WHERE task = 'read' ORDER BY sequence`,
    };
    for (let at = 1; at <= READ; at++) {
      await pool.query(
        `INSERT INTO "${schema}".bare SELECT 'read', n, $1 FROM generate_series(${at}, ${at + BATCH - 1}) n`,
        [Buffer.from(makeRecord(at).payload.body)],
      );
      at += BATCH - 1;
    }
    let number = 0;
    await compare({
      title: "PostgreSQL, on this machine, synchronous_commit on, records of 1 KB",
      baseline: "a bare prepared insert",
      log: adapter.log,
      bareAppend: () =>
        pool.query({ ...insert, values: ["t", ++number, Buffer.from(makeRecord(number).payload.body)] }),
      bareRead: async () => (await pool.query(select)).rows.map(({ body }) => body.toString()),
      limit: 1.5,
    });
    await adapter.close();
  } finally {
    await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await pool.end();
    await server?.stop();
  }
}

/**
 * @param {object} sides
 * @param {string} sides.title
 * @param {string} sides.baseline
 * @param {TaskLog} sides.log
 * @param {() => unknown} sides.bareAppend
 * @param {() => readonly unknown[] | Promise<readonly unknown[]>} sides.bareRead - Returns the bodies as texts.
 * @param {number} sides.limit
 */
async function compare({ title, baseline, log, bareAppend, bareRead, limit }) {
  await fill(log, "long", LONG);
  await fill(log, "short", 10);
  await fill(log, "read", READ);
  let number = 0;
  const append = async (/** @type {string} */ taskId) => void (await log.append(taskId, [makeRecord(++number)]));
  const appended = await medians(
    { bare: bareAppend, short: () => append("short"), long: () => append("long") },
    { rounds: ROUNDS, warmup: WARMUP },
  );
  const read = await medians(
    {
      bare: async () => {
        for (const body of await bareRead()) checkBody(String(body));
      },
      ours: async () => {
        for await (const item of log.read({ taskId: "read", order: "oldest" })) {
          if ("kind" in item && "body" in item.payload) checkBody(String(item.payload.body));
        }
      },
    },
    { rounds: 15, warmup: 3 },
  );
  printHeading(title);
  printRow({ what: `append: to ${baseline}`, measuredMs: appended.short, againstMs: appended.bare, limit });
  printRow({
    what: `append: to ${LONG.toLocaleString("en")} records, to 10`,
    measuredMs: appended.long,
    againstMs: appended.short,
    limit: 1.2,
  });
  printRow({
    what: `read ${READ.toLocaleString("en")}: to bare rows, two SHA-256 and JSON.parse each`,
    measuredMs: read.ours,
    againstMs: read.bare,
    limit: 2,
  });
}

/**
 * @param {TaskLog} log
 * @param {string} taskId
 * @param {number} count
 */
async function fill(log, taskId, count) {
  for (let number = 1; number <= count; number += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - number + 1) }, (_, index) => makeRecord(number + index));
    await log.append(taskId, batch, {}, { lazy: true });
  }
}

/**
 * A step's record of 1 KB.
 *
 * @param {number} number
 * @returns {RecordDraft & { payload: { body: string } }}
 */
function makeRecord(number) {
  const body = JSON.stringify({
    name: `step ${number}`,
    attempts: 1,
    result: { text: `${number} `.padEnd(960, "result ") },
  });
  const payload = { encoding: "json", body, sha256: hash("sha256", body, "hex") };
  return {
    kind: "step",
    name: `step ${number}`,
    recordKey: `["g",1,"step ${number}",1,1]`,
    createdAt: "2026-01-02T03:04:05.678Z",
    payload,
  };
}

/**
 * The work of a reader: the digest of the payload, one of a header's length, and the value.
 *
 * @param {string} body
 */
function checkBody(body) {
  hash("sha256", body, "hex");
  hash("sha256", body.slice(0, 300), "hex");
  JSON.parse(body);
}
