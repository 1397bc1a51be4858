// @ts-check
import { createHash } from "node:crypto";
import { join } from "node:path";
import Database from "better-sqlite3";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { medians } from "./compare.mjs";
import { benchDueOnSqlite } from "./due.mjs";
import { printHeading, printRow } from "./report.mjs";
import { agentState, conversations } from "./state.mjs";

const SMALL = { tasks: 1, checkpointsPerTask: 10 };
const LARGE = { tasks: 1000, checkpointsPerTask: 100 };
const TASKS = 100_000;
const ROUNDS = 500;
/** Warm-up rounds, in which V8 compiles the hot code, because a program that saves states runs for hours. */
const WARMUP = 500;

/**
 * Measures `save` and `latest` against bare better-sqlite3, in stores of 10 and of 100,000 checkpoints. The bare table
 * is the smallest that can find a task's latest state: task, sequence and state, with a primary key of task and
 * sequence.
 *
 * @param {string} folder
 */
export async function benchSqlite(folder) {
  console.log("Filling four stores, two of them with 100,000 checkpoints …");
  const small = await openPair(folder, "small", SMALL);
  const large = await openPair(folder, "large", LARGE);

  const save = await medians(
    { bareSmall: small.bareSave, ourSmall: small.ourSave, bareLarge: large.bareSave, ourLarge: large.ourSave },
    { rounds: ROUNDS, warmup: WARMUP },
  );
  printHeading("SQLite, write-ahead log, synchronous FULL, states of 9 KB");
  printRow({
    what: "save: 10 checkpoints, to a bare insert",
    measuredMs: save.ourSmall,
    againstMs: save.bareSmall,
    limit: 1.4,
  });
  printRow({
    what: "save: 100,000 checkpoints, to a bare insert",
    measuredMs: save.ourLarge,
    againstMs: save.bareLarge,
    limit: 1.4,
  });
  printRow({
    what: "save: 100,000 checkpoints, to 10",
    measuredMs: save.ourLarge,
    againstMs: save.ourSmall,
    limit: 1.3,
  });

  const few = await medians(
    { bare: small.bareSmallSave, ours: small.ourSmallSave },
    { rounds: ROUNDS, warmup: WARMUP },
  );
  printRow({
    what: "save: a state of 250 bytes, to a bare insert",
    measuredMs: few.ours,
    againstMs: few.bare,
    limit: 1.4,
  });

  await benchConversation(join(folder, "conversation"));

  const together = Array.from({ length: 64 });
  const many = await medians(
    {
      bare: () => small.bareMany(together.length),
      ours: () => Promise.all(together.map(() => small.ourSave())),
      inTurn: async () => {
        for (const _ of together) await small.ourSave();
      },
    },
    { rounds: 30, warmup: 10 },
  );
  printRow({
    what: "64 saves at once: to a transaction of 64 bare inserts",
    measuredMs: many.ours,
    againstMs: many.bare,
    limit: 1.25,
  });
  printRow({
    what: "64 saves at once: to 64 one after another",
    measuredMs: many.ours,
    againstMs: many.inTurn,
    limit: 0.2,
  });

  const latest = await medians(
    { bareSmall: small.bareLatest, ourSmall: small.ourLatest, bareLarge: large.bareLatest, ourLarge: large.ourLatest },
    { rounds: ROUNDS * 2, warmup: WARMUP },
  );
  const bare = "to a bare select and JSON.parse";
  printRow({
    what: `latest: 10 checkpoints, ${bare}`,
    measuredMs: latest.ourSmall,
    againstMs: latest.bareSmall,
    limit: 1.4,
  });
  printRow({
    what: `latest: 100,000 checkpoints, ${bare}`,
    measuredMs: latest.ourLarge,
    againstMs: latest.bareLarge,
    limit: 1.4,
  });
  printRow({
    what: "latest: 100,000 checkpoints, to 10",
    measuredMs: latest.ourLarge,
    againstMs: latest.ourSmall,
    limit: 1.3,
  });

  await Promise.all([small.close(), large.close()]);
  await benchIncomplete(join(folder, "tasks.db"));
  await benchDueOnSqlite(join(folder, "due"));
}

/**
 * Measures saves that replace one of 16 messages, without waiting for the disk, against the insert of a whole state
 * with its digest.
 *
 * @param {string} place - The beginning of the files' paths.
 */
async function benchConversation(place) {
  const states = conversations(2000);
  const bare = openBare(`${place}-bare.db`, "NORMAL");
  bare.exec("ALTER TABLE checkpoints ADD COLUMN sha256 TEXT");
  const insert = bare.prepare("INSERT INTO checkpoints (task_id, sequence, state, sha256) VALUES (?, ?, ?, ?)");
  const manager = new CheckpointManager({
    storage: new SqliteAdapter({ path: `${place}-waymark.db`, durability: "normal" }),
  });
  const counts = { bare: 0, ours: 0 };
  const save = await medians(
    {
      bare() {
        const text = JSON.stringify(states[counts.bare++ % states.length]);
        insert.run("a", counts.bare, text, createHash("sha256").update(text).digest("hex"));
      },
      ours: () => manager.save("a", states[counts.ours++ % states.length]),
    },
    { rounds: states.length, warmup: states.length },
  );
  printRow({
    what: "durability normal, one of 16 messages replaced: save, to bare",
    measuredMs: save.ours,
    againstMs: save.bare,
    limit: 2.2,
  });
  bare.close();
  await manager.close();
}

/** @param {string} path */
async function benchIncomplete(path) {
  console.log("\nFilling a store with 100,000 tasks, one in a hundred of them incomplete …");
  const adapter = new SqliteAdapter({ path, durability: "normal" });
  const payload = { encoding: "json", body: "{}", sha256: createHash("sha256").update("{}").digest("hex") };
  for (let task = 0; task < TASKS; task++) {
    // The tasks' order by time differs from their order by name.
    const createdAt = new Date(Date.UTC(2026, 10, 21) + ((task * 7919) % TASKS) * 1000).toISOString();
    const status = task % 100 === 0 ? "running" : "completed";
    await adapter.append({
      taskId: taskName(task),
      id: "c",
      createdAt,
      status,
      stateVersion: 1,
      sizeBytes: 2,
      payload,
    });
  }
  const manager = new CheckpointManager({ storage: adapter });
  const { incomplete } = await medians({ incomplete: () => manager.findIncomplete({ limit: 20 }) }, { rounds: 100 });
  printHeading("SQLite, 100,000 tasks");
  printRow({ what: "findIncomplete (limit 20)", measuredMs: incomplete, limit: 20 });
  await manager.close();
}

/**
 * Opens a store of Waymark and a bare table of the same size; each call takes the next task.
 *
 * @param {string} folder
 * @param {string} name
 * @param {typeof SMALL} size
 */
async function openPair(folder, name, size) {
  const [barePath, ourPath] = [join(folder, `${name}-bare.db`), join(folder, `${name}-waymark.db`)];
  fillBare(barePath, size);
  await fillOurs(ourPath, size);

  const bare = openBare(barePath, "FULL");
  const insert = bare.prepare("INSERT INTO checkpoints (task_id, sequence, state) VALUES (?, ?, ?)");
  const select = bare.prepare("SELECT state FROM checkpoints WHERE task_id = ? ORDER BY sequence DESC LIMIT 1").pluck();
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: ourPath }) });
  const states = Array.from({ length: 100 }, (_, turn) => agentState(turn));
  const texts = states.map((state) => JSON.stringify(state));
  const smallStates = states.map((state) => ({ ...state, messages: [], plan: [], files: [] }));
  const smallTexts = smallStates.map((state) => JSON.stringify(state));

  let turn = 0;
  let sequence = size.checkpointsPerTask;
  // 7,919 is coprime to the number of tasks, so every task is used once before any is used again, and neighbouring
  // tasks don't follow each other.
  const nextTask = () => taskName((turn++ * 7919) % size.tasks);
  const insertMany = bare.transaction((/** @type {number} */ count) => {
    for (let row = 0; row < count; row++) insert.run(nextTask(), ++sequence, texts[row % texts.length]);
  });
  return {
    bareMany: insertMany,
    bareSave: () => insert.run(nextTask(), ++sequence, texts[sequence % texts.length]),
    ourSave: () => manager.save(nextTask(), states[turn % states.length], { stage: "validation-gate-2" }),
    bareSmallSave: () => insert.run("small", ++sequence, smallTexts[sequence % texts.length]),
    ourSmallSave: () => manager.save("small", smallStates[turn++ % states.length], { stage: "validation-gate-2" }),
    bareLatest: () => JSON.parse(String(select.get(nextTask()))),
    ourLatest: () => manager.latest(nextTask()),
    async close() {
      bare.close();
      await manager.close();
    },
  };
}

/**
 * @param {string} path
 * @param {"FULL" | "NORMAL" | "OFF"} synchronous
 */
function openBare(path, synchronous) {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${synchronous}`);
  database.exec(
    "CREATE TABLE IF NOT EXISTS checkpoints (task_id TEXT, sequence INTEGER, state TEXT, PRIMARY KEY (task_id, sequence))",
  );
  return database;
}

/**
 * @param {string} path
 * @param {typeof SMALL} size
 */
function fillBare(path, size) {
  const database = openBare(path, "OFF");
  const insert = database.prepare("INSERT INTO checkpoints (task_id, sequence, state) VALUES (?, ?, ?)");
  for (let sequence = 1; sequence <= size.checkpointsPerTask; sequence++) {
    const bytes = JSON.stringify(agentState(sequence));
    const round = database.transaction(() => {
      for (let task = 0; task < size.tasks; task++) insert.run(taskName(task), sequence, bytes);
    });
    round();
  }
  database.close();
}

/**
 * Fills a store through the adapter, whose drafts can be made once for many tasks. Only the storage is measured later.
 *
 * @param {string} path
 * @param {typeof SMALL} size
 */
async function fillOurs(path, size) {
  const adapter = new SqliteAdapter({ path, durability: "normal" });
  for (let sequence = 1; sequence <= size.checkpointsPerTask; sequence++) {
    const body = JSON.stringify(agentState(sequence));
    const payload = { encoding: "json", body, sha256: createHash("sha256").update(body).digest("hex") };
    for (let task = 0; task < size.tasks; task++) {
      await adapter.append({
        taskId: taskName(task),
        id: `${sequence}-${createHash("sha256").update(`${task} ${sequence}`).digest("base64url").slice(0, 18)}`,
        createdAt: new Date(Date.UTC(2026, 10, 21) + sequence * 60_000 + task).toISOString(),
        stage: `validation-gate-${sequence % 4}`,
        status: "running",
        stateVersion: 1,
        sizeBytes: Buffer.byteLength(body),
        payload,
      });
    }
  }
  await adapter.close();
}

/** @param {number} number */
function taskName(number) {
  return `P1.M${number % 10}.T${number}`;
}
