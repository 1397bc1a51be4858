// @ts-check
import { hash } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { CheckpointManager } from "waymark";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { medians } from "./compare.mjs";
import { printBytes, printHeading, printRow } from "./report.mjs";
import { messages } from "./text.mjs";

/** @import { StorageAdapter } from "waymark" */

const TURNS = 1000;
const LAST_STATE = "SELECT state FROM checkpoints ORDER BY sequence DESC LIMIT 1";

const HISTORIES = {
  "1,000 turns, 500 bytes more at each": { states: turns, limit: 1 },
  "the same, with 20 counters and a scratchpad": { states: counters, limit: 3 },
  "1 MB of text, 200 edits of 100 bytes": { states: edits, limit: 0.6 },
  "10 MB saved 100 times unchanged": { states: unchanged, limit: 1.01 },
  "1,000 branches of one state of 100 KB": { states: branches, limit: 5 },
};

/**
 * Measures the size of whole histories in SQLite, as a multiple of their last state, and a history's 1,000th save.
 *
 * @param {string} folder
 */
export async function benchHistories(folder) {
  console.log("\nSaving five histories, one of them of 10 MB states …");
  printHeading("SQLite: bytes of a whole history, to its last state");
  await printSizes(async (states) => {
    const path = join(folder, `${states.name}.db`);
    const bytes = await saveAll(new SqliteAdapter({ path, durability: "normal" }), states);
    return [statSync(path).size, bytes];
  });
  await benchThousandth(join(folder, "turns.db"), join(folder, "bare.db"));
}

/**
 * Measures the sizes on PostgreSQL, as the growth of the tables and their indexes in a store that already has a task.
 * A VACUUM every 100 saves replaces the server's autovacuum, which runs every minute: an agent takes hours for 1,000
 * turns.
 *
 * @param {string} url
 * @param {{ query(sql: string, values?: unknown[]): Promise<{ rows: { bytes: string }[] }> }} pool
 */
export async function benchHistoriesOnPostgres(url, pool) {
  console.log("\nSaving the five histories on PostgreSQL …");
  printHeading("PostgreSQL: bytes that a whole history adds, to its last state");
  await printSizes(async (states) => {
    const schema = `bench_${states.name}`;
    const size = async () => {
      for (const table of ["tasks", "checkpoints", "pieces"]) await pool.query(`VACUUM "${schema}".${table}`);
      const { rows } = await pool.query(
        "SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'",
        [schema],
      );
      return Number(rows[0]?.bytes);
    };
    const storage = () => new PostgresAdapter({ url, schema });
    try {
      await saveAll(storage(), function* first() {
        yield messages(2000).next().value;
      });
      const before = await size();
      const bytes = await saveAll(storage(), states, size);
      return [(await size()) - before, bytes];
    } finally {
      await pool.query(`DROP SCHEMA "${schema}" CASCADE`);
    }
  });
}

/**
 * @param {(states: () => Iterable<unknown>) => Promise<[number, number]>} measure - Returns the bytes of the history
 * and of its last state.
 */
async function printSizes(measure) {
  for (const [what, { states, limit }] of Object.entries(HISTORIES))
    printBytes(what, ...(await measure(states)), limit);
}

/**
 * @param {StorageAdapter} storage
 * @param {() => Iterable<unknown>} states
 * @param {() => Promise<unknown>} [each100] - Called after every 100 saves.
 * @returns {Promise<number>} The bytes of the last state.
 */
async function saveAll(storage, states, each100) {
  const manager = new CheckpointManager({ storage });
  let last;
  /** @type {string | undefined} */
  let parentId;
  let saves = 0;
  for (const state of states()) {
    const { id } = await manager.save(states.name, state, { parentId });
    // All branches begin at the first state.
    if (states === branches) parentId ??= id;
    last = state;
    saves += 1;
    if (saves % 100 === 0) await each100?.();
  }
  await manager.close();
  return Buffer.byteLength(JSON.stringify(last));
}

/**
 * @param {string} path - The path of a store with 1,000 turns.
 * @param {string} barePath
 */
async function benchThousandth(path, barePath) {
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
  const bare = new Database(barePath);
  bare.pragma("journal_mode = WAL");
  bare.pragma("synchronous = FULL");
  bare.exec("CREATE TABLE checkpoints (sequence INTEGER PRIMARY KEY, state TEXT)");
  const insert = bare.prepare("INSERT INTO checkpoints (state) VALUES (?)");
  const select = bare.prepare(LAST_STATE).pluck();
  const kilobyte = messages(1024).next().value;
  const state = [...turns()].at(-1) ?? { messages: [] };
  const text = JSON.stringify(state);
  const texts = messages(500);
  const changed = () => ({ ...state, messages: [...state.messages, texts.next().value] });
  const { ours, bareSave } = await medians(
    {
      ours: () => manager.save(turns.name, changed()),
      bareSave: () => {
        hash("sha256", JSON.stringify(changed()), "hex");
        insert.run(kilobyte);
      },
    },
    { rounds: 200, warmup: 100 },
  );
  insert.run(text);
  const { latest, bareLatest } = await medians(
    { latest: () => manager.latest(turns.name), bareLatest: () => JSON.parse(String(select.get())) },
    { rounds: 200, warmup: 50 },
  );
  const anew = await medians(
    {
      async ours() {
        const resumed = new CheckpointManager({ storage: new SqliteAdapter({ path }) });
        await resumed.latest(turns.name);
        await resumed.close();
      },
      bare() {
        const database = new Database(barePath);
        JSON.parse(String(database.prepare(LAST_STATE).pluck().get()));
        database.close();
      },
    },
    { rounds: 50 },
  );
  printHeading("SQLite: a task of 1,000 turns, its state 0.5 MB");
  printRow({
    what: "save: to JSON.stringify, SHA-256 and an insert of 1 KB",
    measuredMs: ours,
    againstMs: bareSave,
    limit: 1.5,
  });
  printRow({ what: "latest: to a bare select and JSON.parse", measuredMs: latest, againstMs: bareLatest, limit: 2 });
  printRow({
    what: "latest after reopening: to reopening a bare database",
    measuredMs: anew.ours,
    againstMs: anew.bare,
    limit: 2,
  });
  bare.close();
  await manager.close();
}

function* turns() {
  const texts = messages(500);
  /** @type {{ goal: string, messages: unknown[] }} */
  const state = { goal: "Answer the questions.", messages: [] };
  for (let turn = 0; turn < TURNS; turn++) {
    state.messages.push({ role: turn % 2 ? "user" : "assistant", content: texts.next().value });
    yield state;
  }
}

function* counters() {
  const notes = messages(200);
  const state = {
    early: Array(10).fill(0),
    scratchpad: messages(5000).next().value,
    messages: [],
    late: Array(10).fill(0),
  };
  let turn = 0;
  for (const { messages: all } of turns()) {
    turn += 1;
    const count = (/** @type {number} */ value, /** @type {number} */ index) => value + index * 7 + 1;
    const at = (turn * 7919) % 4800;
    const scratchpad = state.scratchpad.slice(0, at) + notes.next().value + state.scratchpad.slice(at + 200);
    Object.assign(state, { early: state.early.map(count), late: state.late.map(count), scratchpad, messages: all });
    yield state;
  }
}

function* edits() {
  const texts = messages(100);
  let document = messages(1_000_000).next().value;
  for (let edit = 0; edit < 200; edit++) {
    const at = 100_000 + ((edit * 48_271 * 7919) % 800_000);
    // Every other edit replaces text; the remaining edits insert text.
    document = document.slice(0, at) + texts.next().value + document.slice(at + (edit % 2 ? 100 : 0));
    yield { document };
  }
}

function* unchanged() {
  const texts = messages(1_000_000);
  const state = { files: Array.from({ length: 10 }, () => texts.next().value) };
  for (let save = 0; save < 100; save++) yield state;
}

function* branches() {
  const texts = messages(500);
  const common = Array.from({ length: 200 }, () => texts.next().value);
  yield { messages: common };
  for (let branch = 0; branch < 1000; branch++) yield { messages: [...common, texts.next().value] };
}
