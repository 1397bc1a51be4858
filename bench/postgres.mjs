// @ts-check
import { createHash, randomUUID } from "node:crypto";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { bundled } from "../tests/support/bundled.mjs";
import { medians } from "./compare.mjs";
import { benchDueOnPostgres } from "./due.mjs";
import { benchHistoriesOnPostgres } from "./histories.mjs";
import { printHeading, printRow } from "./report.mjs";
import { agentState } from "./state.mjs";

/** More tasks than are read, so that each read of a task is the process's first read of it. */
const TASKS = 2000;
const LARGE = 1_000_000;
const LARGE_TASKS = 100_000;
const AT_ONCE = 16;
const ROUNDS = 400;
/** Warm-up rounds, in which V8 compiles the hot code and the server plans the statements. */
const WARMUP = 400;
/** The saves of a task cycle through these states. */
const STATES = Array.from({ length: 64 }, (_, turn) => agentState(turn));
const BODIES = STATES.map((state) => Buffer.from(JSON.stringify(state)));

/**
 * Measures `save` and `latest` against bare pg, with prepared statements on both sides. The server runs on this machine
 * with its default settings, so every commit is synced. The bare table has the same columns, and a primary key of task
 * and sequence.
 */
export async function benchPostgres() {
  const given = process.env["DATABASE_URL"];
  const server = given
    ? undefined
    : await (await import(await bundled("examples/two-machines/src/postgres-server.ts"))).startPostgres();
  try {
    await compareOn(given ?? server.url);
  } finally {
    await server?.stop();
  }
}

/** @param {string} url */
async function compareOn(url) {
  const pool = new pg.Pool({ connectionString: url, max: AT_ONCE });
  // The server may end before its clients.
  pool.on("error", () => undefined);
  const schemas = [`bench_${randomUUID()}`, `bench_${randomUUID()}`];
  try {
    console.log("\nFilling two stores on PostgreSQL, one of them with 1,000,000 checkpoints of 100,000 tasks …");
    const [small, large] = [await openPair(pool, schemas[0] ?? ""), await openPair(pool, schemas[1] ?? "")];
    await fill(pool, schemas[1] ?? "", large.manager);
    const saver = await openSaver(url);
    await benchSaves(small, saver);
    await saver.close();
    await benchLatest(small, large);
    const { incomplete } = await medians(
      { incomplete: () => large.manager.findIncomplete({ limit: 20 }) },
      { rounds: 100 },
    );
    printRow({ what: "findIncomplete (limit 20) of 100,000 tasks", measuredMs: incomplete, limit: 20 });
    await Promise.all([small, large].flatMap(({ manager, reader }) => [manager.close(), reader.close()]));
    await benchHistoriesOnPostgres(url, pool);
    await benchDueOnPostgres(url, pool);
  } finally {
    for (const schema of schemas) await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await pool.query("DROP SCHEMA IF EXISTS bench_langgraph CASCADE");
    await pool.end();
  }
}

/**
 * @param {Pair} pair
 * @param {Awaited<ReturnType<typeof openSaver>>} saver
 */
async function benchSaves(pair, saver) {
  const lease = await pair.manager.lease("leased");
  let turn = 0;
  const save = await medians(
    {
      bare: pair.bareSave,
      ours: pair.ourSave,
      leased: () => pair.manager.save("leased", turnOf(STATES, turn++), { stage: "validation-gate-2", lease }),
      theirs: saver.put,
    },
    { rounds: ROUNDS, warmup: WARMUP },
  );
  await lease.release();
  const many = await medians(
    {
      bare: () => Promise.all(Array.from({ length: AT_ONCE }, pair.bareSave)),
      ours: () => Promise.all(Array.from({ length: AT_ONCE }, pair.ourSave)),
    },
    { rounds: 100, warmup: 50 },
  );
  const latest = await medians({ ours: pair.ourLatest, theirs: saver.get }, { rounds: ROUNDS, warmup: WARMUP });

  printHeading("PostgreSQL, on this machine, synchronous_commit on, states of 9 KB");
  printRow({ what: "save: to a bare prepared insert", measuredMs: save.ours, againstMs: save.bare, limit: 1.3 });
  printRow({
    what: "16 saves at once: to 16 bare inserts (0.8 of their rate)",
    measuredMs: many.ours,
    againstMs: many.bare,
    limit: 1.25,
  });
  printRow({ what: "save under a lease: to one without", measuredMs: save.leased, againstMs: save.ours, limit: 1.1 });
  printRow({ what: "save: to LangGraph's PostgresSaver.put", measuredMs: save.ours, againstMs: save.theirs });
  printRow({
    what: "latest: to LangGraph's PostgresSaver.getTuple",
    measuredMs: latest.ours,
    againstMs: latest.theirs,
  });
}

/**
 * @param {Pair} small
 * @param {Pair} large
 */
async function benchLatest(small, large) {
  const latest = await medians(
    { bareSmall: small.bareLatest, ourSmall: small.ourLatest, bareLarge: large.bareLatest, ourLarge: large.ourLatest },
    { rounds: ROUNDS, warmup: WARMUP },
  );
  const bare = "to a bare select and JSON.parse";
  printRow({ what: `latest: ${bare}`, measuredMs: latest.ourSmall, againstMs: latest.bareSmall, limit: 1.3 });
  printRow({
    what: `latest: 1,000,000 checkpoints, ${bare}`,
    measuredMs: latest.ourLarge,
    againstMs: latest.bareLarge,
    limit: 1.3,
  });
  printRow({
    what: "latest: 1,000,000 checkpoints, to 10",
    measuredMs: latest.ourLarge,
    againstMs: latest.ourSmall,
    limit: 1.5,
  });
}

/** @typedef {Awaited<ReturnType<typeof openPair>>} Pair */

/**
 * Opens a store of Waymark and a bare table next to it; each call takes the next task. Reads use a manager that has
 * saved none of the tasks.
 *
 * @param {pg.Pool} pool
 * @param {string} schema
 */
async function openPair(pool, schema) {
  const open = () => new CheckpointManager({ storage: new PostgresAdapter({ pool, schema, prepare: true }) });
  const [manager, reader] = [open(), open()];
  const save = (/** @type {number} */ save) =>
    manager.save(taskName(save), turnOf(STATES, save / TASKS), { stage: "validation-gate-2" });
  for (let task = 0; task < TASKS; task++) await save(task);
  await pool.query(`CREATE TABLE "${schema}".bare (LIKE "${schema}".checkpoints, PRIMARY KEY (task_id, sequence))`);
  // Waymark's rows have no body for such a state, because it is a piece of a history. The bare rows get a body here.
  await pool.query(`INSERT INTO "${schema}".bare SELECT * FROM "${schema}".checkpoints`);
  await pool.query(`UPDATE "${schema}".bare SET body = $1, is_text = true`, [BODIES[0]]);
  const { rows } = await pool.query(`SELECT * FROM "${schema}".bare LIMIT 1`);
  const { task_id: _task, sequence: _sequence, ...row } = rows[0];
  const names = Object.keys(row);
  const body = names.indexOf("body");
  const insert = {
    name: `insert into ${schema}`,
    text: `INSERT INTO "${schema}".bare (task_id, sequence, ${names.join(", ")})
      VALUES ($1, $2, ${names.map((_, index) => `$${index + 3}`).join(", ")})`,
  };
  const select = {
    name: `select from ${schema}`,
    text: `SELECT body FROM "${schema}".bare WHERE task_id = $1 ORDER BY sequence DESC LIMIT 1`,
  };
  let [bareSaves, ourSaves, bareReads, ourReads] = [TASKS, TASKS, 0, 0];
  return {
    manager,
    reader,
    bareSave: () => {
      const values = Object.values(row).with(body, turnOf(BODIES, bareSaves / TASKS));
      return pool.query({ ...insert, values: [taskName(bareSaves), ++bareSaves, ...values] });
    },
    ourSave: () => save(ourSaves++),
    bareLatest: async () => {
      const { rows } = await pool.query({ ...select, values: [taskName(bareReads++)] });
      return JSON.parse(rows[0].body.toString());
    },
    ourLatest: () => reader.latest(taskName(ourReads++)),
  };
}

/**
 * Fills the store and the bare table: the manager saves a thousand incomplete tasks, and SQL statements add the rest.
 *
 * @param {pg.Pool} pool
 * @param {string} schema
 * @param {CheckpointManager} manager
 */
async function fill(pool, schema, manager) {
  for (let task = 0; task < LARGE_TASKS / 100; task++)
    await manager.save(`incomplete-${(task * 7919) % 1000}`, { task });
  const [each, digest] = [LARGE / LARGE_TASKS, createHash("sha256").update("{}").digest("hex")];
  const at = "'2026-11-21T00:00:00.000Z'";
  await pool.query(`INSERT INTO "${schema}".tasks
    SELECT 'filler-' || n, ${each}, ${each}, ${each}, ${at}, 'completed' FROM generate_series(1, ${LARGE_TASKS}) n`);
  for (const table of ["checkpoints", "bare"]) {
    await pool.query(`INSERT INTO "${schema}".${table} (task_id, sequence, id, id_digest, created_at, status, state_version,
        size_bytes, encoding, sha256, seal, is_text, body)
      SELECT 'filler-' || n, s, n || '-' || s, sha256((n || '-' || s)::bytea), ${at}, 'completed', 1, 2, 'json', '${digest}', '${digest}', true, '{}'
      FROM generate_series(1, ${LARGE_TASKS}) n, generate_series(1, ${each}) s`);
    await pool.query(`VACUUM ANALYZE "${schema}".${table}`);
  }
  await pool.query(`VACUUM ANALYZE "${schema}".tasks`);
  await pool.query("CHECKPOINT");
}

/**
 * Opens LangGraph's saver on the same server, with the same state in a single channel.
 *
 * @param {string} url
 */
async function openSaver(url) {
  const saver = PostgresSaver.fromConnString(url, { schema: "bench_langgraph" });
  await saver.setup();
  let turn = 0;
  const configOf = () => ({ configurable: { thread_id: taskName(turn++), checkpoint_ns: "" } });
  const put = async () => {
    const version = turn + 1;
    const checkpoint = {
      ...emptyCheckpoint(),
      id: uuid6(turn),
      channel_values: { state: turnOf(STATES, turn / TASKS) },
      channel_versions: { state: version },
    };
    await saver.put(configOf(), checkpoint, { source: "loop", step: turn, parents: {} }, { state: version });
  };
  for (let task = 0; task < TASKS; task++) await put();
  return { put, get: () => saver.getTuple(configOf()), close: () => saver.end() };
}

/** @param {number} number */
function taskName(number) {
  return `P1.M${number % 10}.T${number % TASKS}`;
}

/**
 * @template Item
 * @param {readonly Item[]} items
 * @param {number} turn
 */
function turnOf(items, turn) {
  return items[Math.floor(turn) % items.length];
}
