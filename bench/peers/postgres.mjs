// @ts-check
// All stores share one server with its default settings, so every commit is synced. Each store has its own schema.
import { EventEmitter, on } from "node:events";
import { basename } from "node:path";
import { DBOS } from "@dbos-inc/dbos-sdk";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { bundled } from "../../tests/support/bundled.mjs";
import { langgraphStore } from "./langgraph.mjs";
import { count, HISTORY, INCOMPLETE } from "./peer.mjs";
import { waymarkStore } from "./waymark.mjs";

/** The number of connections of each peer. (DBOS's default is 10.) */
const CONNECTIONS = 16;

/** @returns {Promise<{ peers: readonly import("./peer.mjs").Peer[], version: string, close: () => Promise<void> }>} */
export async function startPostgresPeers() {
  const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
  const server = await startPostgres();
  const pool = newPool(server.url);
  const dbosPool = newPool(server.url);
  const startTask = await launchDbos(server.url, dbosPool);
  const { rows } = await pool.query("SHOW server_version");
  return {
    peers: [
      {
        name: "pg (bare)",
        packages: ["pg"],
        imports: ["pg"],
        open: (place) => openBare(pool, `bare_${basename(place)}`),
      },
      {
        name: "Waymark PostgreSQL",
        packages: ["waymark", "pg"],
        imports: ["waymark", "waymark/adapters/postgres"],
        async open(place) {
          const schema = `waymark_${basename(place)}`;
          return waymarkStore(new PostgresAdapter({ pool, schema, prepare: true }), () => bytesOf(pool, schema));
        },
      },
      {
        name: "LangGraph PostgresSaver",
        packages: ["@langchain/langgraph-checkpoint-postgres"],
        imports: ["@langchain/langgraph-checkpoint-postgres"],
        async open(place) {
          const schema = `langgraph_${basename(place)}`;
          const saver = new PostgresSaver(pool, undefined, { schema });
          await saver.setup();
          return langgraphStore(saver, { bytes: () => bytesOf(pool, schema), close: () => undefined });
        },
      },
      {
        name: "DBOS step",
        packages: ["@dbos-inc/dbos-sdk"],
        imports: ["@dbos-inc/dbos-sdk"],
        open: async (place) => dbosStore(startTask, dbosPool, basename(place)),
      },
    ],
    version: rows[0].server_version,
    async close() {
      await DBOS.shutdown();
      await Promise.all([pool.end(), dbosPool.end()]);
      await server.stop();
    },
  };
}

/** @param {string} connectionString */
function newPool(connectionString) {
  const pool = new pg.Pool({ connectionString, max: CONNECTIONS });
  // The server may end before its clients.
  pool.on("error", () => undefined);
  return pool;
}

/**
 * @param {pg.Pool} pool
 * @param {string} schema
 */
async function bytesOf(pool, schema) {
  const { rows } = await pool.query(
    "SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r'",
    [schema],
  );
  return rows[0].bytes;
}

/**
 * Opens the smallest table that can find a task's latest state. A turn stores only its message.
 *
 * @param {pg.Pool} pool
 * @param {string} schema
 * @returns {Promise<import("./peer.mjs").Store>}
 */
async function openBare(pool, schema) {
  await pool.query(`
    CREATE SCHEMA ${schema};
    CREATE TABLE ${schema}.checkpoints (task_id text, sequence bigint, created_at timestamptz, status text, state text, PRIMARY KEY (task_id, sequence));
    CREATE TABLE ${schema}.tasks (task_id text PRIMARY KEY, status text, created_at timestamptz);
    CREATE INDEX ON ${schema}.tasks (status, created_at);`);
  const query = (/** @type {string} */ name, /** @type {string} */ text, /** @type {unknown[]} */ values = []) =>
    pool.query({ name: `${schema} ${name}`, text, values });
  let sequence = 0;
  const save = (/** @type {string} */ task, /** @type {unknown} */ state) =>
    query("insert", `INSERT INTO ${schema}.checkpoints VALUES ($1, $2, now(), 'running', $3)`, [
      task,
      ++sequence,
      JSON.stringify(state),
    ]);
  return {
    save,
    saveAtOnce: (tasks, state) =>
      query(
        "insert many",
        `INSERT INTO ${schema}.checkpoints SELECT task, sequence, now(), 'running', state
         FROM unnest($1::text[], $2::bigint[], $3::text[]) rows (task, sequence, state)`,
        [tasks, tasks.map(() => ++sequence), tasks.map(() => JSON.stringify(state))],
      ),
    async latest(task) {
      const select = `SELECT state FROM ${schema}.checkpoints WHERE task_id = $1 ORDER BY sequence DESC LIMIT 1`;
      return JSON.parse((await query("select", select, [task])).rows[0].state);
    },
    async list(task) {
      const select = `SELECT task_id, sequence, created_at, status FROM ${schema}.checkpoints WHERE task_id = $1 ORDER BY sequence DESC`;
      return (await query("list", select, [task])).rows.length;
    },
    saveTurn: ({ messages }) => save(HISTORY, messages.at(-1)),
    bytes: () => bytesOf(pool, schema),
    async addTasks(count) {
      await pool.query(`INSERT INTO ${schema}.tasks
        SELECT 'task-' || n, CASE WHEN n % 100 = 0 THEN 'running' ELSE 'completed' END, now() + n * interval '1 ms'
        FROM generate_series(1, ${count}) n`);
      await pool.query(`VACUUM ANALYZE ${schema}.tasks`);
    },
    async findIncomplete() {
      const select = `SELECT * FROM ${schema}.tasks WHERE status = 'running' ORDER BY created_at DESC LIMIT ${INCOMPLETE}`;
      return (await query("incomplete", select)).rows.length;
    },
    close: () => undefined,
  };
}

const DBOS_SCHEMA = "dbos";

/** @typedef {{ saveStep: (output: unknown) => Promise<void>, end: () => Promise<unknown> }} DbosTask */

/**
 * Starts DBOS. A task is a workflow that records each value that it receives as a step, and waits for the next value.
 *
 * @param {string} url
 * @param {pg.Pool} pool
 * @returns {Promise<(workflowID: string) => Promise<DbosTask>>}
 */
async function launchDbos(url, pool) {
  const outputs = new EventEmitter();
  outputs.setMaxListeners(0);
  const workflow = DBOS.registerWorkflow(
    async () => {
      const task = DBOS.workflowID ?? "";
      const ended = new AbortController();
      outputs.once(`${task} ends`, () => ended.abort());
      const handed = on(outputs, task, { signal: ended.signal });
      outputs.emit(`${task} starts`);
      try {
        for await (const [output, saved] of handed) {
          await DBOS.runStep(async () => output, { name: "turn" });
          saved();
        }
      } catch (error) {
        if (!ended.signal.aborted) throw error;
      }
    },
    { name: "task" },
  );
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url,
    systemDatabasePool: pool,
    systemDatabaseSchemaName: DBOS_SCHEMA,
    logLevel: "error",
  });
  await DBOS.launch();
  return async (workflowID) => {
    const started = new Promise((resolve) => outputs.once(`${workflowID} starts`, resolve));
    const handle = await DBOS.startWorkflow(workflow, { workflowID })();
    await started;
    return {
      saveStep: (output) => new Promise((saved) => outputs.emit(workflowID, output, saved)),
      end: () => {
        outputs.emit(`${workflowID} ends`);
        return handle.getResult();
      },
    };
  };
}

/**
 * @param {(workflowID: string) => Promise<DbosTask>} startTask
 * @param {pg.Pool} pool
 * @param {string} place
 * @returns {import("./peer.mjs").Store}
 */
function dbosStore(startTask, pool, place) {
  /** @type {Map<string, DbosTask>} */
  const running = new Map();
  const idOf = (/** @type {string} */ task) => `${place}-${task}`;
  const save = async (/** @type {string} */ task, /** @type {unknown} */ output) => {
    const workflow = running.get(task) ?? (await startTask(idOf(task)));
    running.set(task, workflow);
    await workflow.saveStep(output);
  };
  return {
    save,
    list: async (task) => (await DBOS.listWorkflowSteps(idOf(task), { limit: 1000 }))?.length ?? 0,
    saveTurn: ({ messages }) => save(HISTORY, messages.at(-1)),
    // DBOS has one schema for everything, so the histories are measured before anything else.
    bytes: () => bytesOf(pool, DBOS_SCHEMA),
    async addTasks(count) {
      await save("first", {});
      // Adds copies of a workflow that DBOS itself wrote.
      await pool.query(
        `INSERT INTO ${DBOS_SCHEMA}.workflow_status
         SELECT (jsonb_populate_record(w, jsonb_build_object(
           'workflow_uuid', w.workflow_uuid || '-' || n,
           'status', CASE WHEN n % 100 = 0 THEN 'PENDING' ELSE 'SUCCESS' END,
           'created_at', w.created_at + n))).*
         FROM ${DBOS_SCHEMA}.workflow_status w, generate_series(2, $2::int) n WHERE w.workflow_uuid = $1`,
        [idOf("first"), count],
      );
      await pool.query(`VACUUM ANALYZE ${DBOS_SCHEMA}.workflow_status`);
    },
    findIncomplete: () =>
      DBOS.listWorkflows({
        status: "PENDING",
        limit: INCOMPLETE,
        sortDesc: true,
        loadInput: false,
        loadOutput: false,
      }).then(count),
    close: () => Promise.all([...running.values()].map((workflow) => workflow.end())),
  };
}
