// @ts-check
// Every database has a write-ahead log and synchronous=FULL: a save is synced before it is acknowledged.

import { KeyvSqlite } from "@keyv/sqlite";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { Keyv } from "keyv";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { langgraphStore } from "./langgraph.mjs";
import { allocated, HISTORY, INCOMPLETE, isIncomplete } from "./peer.mjs";
import { waymarkStore } from "./waymark.mjs";

/** @type {readonly import("./peer.mjs").Peer[]} */
export const sqlitePeers = [
  {
    name: "better-sqlite3 (bare)",
    packages: ["better-sqlite3"],
    imports: ["better-sqlite3"],
    open: async (place) => bareStore(openDatabase(`${place}.db`), `${place}.db`),
  },
  {
    name: "Waymark SQLite",
    packages: ["waymark", "better-sqlite3"],
    imports: ["waymark", "waymark/adapters/sqlite"],
    async open(place) {
      const path = `${place}.db`;
      return waymarkStore(new SqliteAdapter({ path }), async () => {
        const database = new Database(path);
        const bytes = settled(database, path);
        database.close();
        return bytes;
      });
    },
  },
  {
    name: "LangGraph SqliteSaver",
    packages: ["@langchain/langgraph-checkpoint-sqlite"],
    imports: ["@langchain/langgraph-checkpoint-sqlite"],
    async open(place) {
      const path = `${place}.db`;
      const database = openDatabase(path);
      return langgraphStore(new SqliteSaver(database), {
        bytes: async () => settled(database, path),
        close: () => database.close(),
      });
    },
  },
  {
    name: "keyv SQLite",
    packages: ["keyv", "@keyv/sqlite"],
    imports: ["keyv", "@keyv/sqlite"],
    open: async (place) => keyvStore(`${place}.db`),
  },
];

/** @param {string} path */
function openDatabase(path) {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  return database;
}

/**
 * Returns a database's bytes after moving its log into it.
 *
 * @param {Database.Database} database
 * @param {string} path
 */
function settled(database, path) {
  database.pragma("wal_checkpoint(TRUNCATE)");
  return allocated(path);
}

/**
 * Opens the smallest table that can find a task's latest state. A turn stores only its message.
 *
 * @param {Database.Database} database
 * @param {string} path
 * @returns {import("./peer.mjs").Store}
 */
function bareStore(database, path) {
  database.exec(`
    CREATE TABLE checkpoints (task_id TEXT, sequence INTEGER, created_at TEXT, status TEXT, state TEXT, PRIMARY KEY (task_id, sequence));
    CREATE TABLE tasks (task_id TEXT PRIMARY KEY, status TEXT, created_at TEXT);
    CREATE INDEX tasks_by_status ON tasks (status, created_at);`);
  const insert = database.prepare("INSERT INTO checkpoints VALUES (?, ?, ?, 'running', ?)");
  const select = database
    .prepare("SELECT state FROM checkpoints WHERE task_id = ? ORDER BY sequence DESC LIMIT 1")
    .pluck();
  const summaries = database.prepare(
    "SELECT task_id, sequence, created_at, status FROM checkpoints WHERE task_id = ? ORDER BY sequence DESC",
  );
  const addTask = database.prepare("INSERT INTO tasks VALUES (?, ?, ?)");
  const incomplete = database.prepare(
    `SELECT * FROM tasks WHERE status = 'running' ORDER BY created_at DESC LIMIT ${INCOMPLETE}`,
  );
  let sequence = 0;
  const save = (/** @type {string} */ task, /** @type {unknown} */ state) =>
    insert.run(task, ++sequence, new Date().toISOString(), JSON.stringify(state));
  return {
    save,
    saveAtOnce: database.transaction((tasks, state) => {
      for (const task of tasks) save(task, state);
    }),
    latest: (task) => JSON.parse(String(select.get(task))),
    list: async (task) => summaries.all(task).length,
    saveTurn: ({ messages }) => save(HISTORY, messages.at(-1)),
    bytes: async () => settled(database, path),
    addTasks: async (count) =>
      database.transaction(() => {
        for (let task = 0; task < count; task++)
          addTask.run(`task-${task}`, isIncomplete(task) ? "running" : "completed", new Date().toISOString());
      })(),
    findIncomplete: async () => incomplete.all().length,
    close: () => database.close(),
  };
}

/**
 * Opens a Keyv store. Each task and each turn of the history has a key. Only Keyv's driver opens the database, because
 * a second copy of SQLite in the process would drop the locks of the first.
 *
 * @param {string} path
 * @returns {Promise<import("./peer.mjs").Store>}
 */
async function keyvStore(path) {
  const store = new KeyvSqlite({ uri: `sqlite://${path}` });
  await store.query("PRAGMA journal_mode = WAL");
  await store.query("PRAGMA synchronous = FULL");
  const keyv = new Keyv({ store, throwOnErrors: true });
  return {
    save: (task, state) => keyv.set(task, state),
    latest: (task) => keyv.get(task),
    saveTurn: (state, turn) => keyv.set(`${HISTORY}:${turn}`, state),
    async bytes() {
      await store.query("PRAGMA wal_checkpoint(TRUNCATE)");
      return allocated(path);
    },
    close: () => keyv.disconnect(),
  };
}
