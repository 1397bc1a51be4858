// @ts-check
import { randomUUID } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import pg from "pg";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { WaymarkSaver } from "waymark/langgraph";
import { bundled } from "../tests/support/bundled.mjs";
import { medians } from "./compare.mjs";
import { compareAgents } from "./langgraph-agents.mjs";
import { printBytes, printHeading, printRow } from "./report.mjs";
import { messages as messagesOf } from "./text.mjs";

const TURNS = 300;
const MESSAGE_BYTES = 500;

/**
 * Compares LangGraph's savers with Waymark's: the same calls with the same payloads in turns, on the same disk and with
 * the same durability (SqliteSaver uses `synchronous=NORMAL`).
 *
 * @param {string} folder
 */
export async function benchLanggraph(folder) {
  const file = (/** @type {string} */ name) => join(folder, `langgraph-${name}.db`);
  await compare("SqliteSaver", 0.03, {
    ours: () => sqliteSaver(file("ours")),
    theirs: () => theirSqliteSaver(file("theirs")),
    bytes: { ours: () => sizeOf(file("ours")), theirs: () => sizeOf(file("theirs")) },
  });
  for (const durability of /** @type {const} */ (["normal", "full"])) {
    const [ours, theirs] = [file(`agent-ours-${durability}`), file(`agent-theirs-${durability}`)];
    await compareAgents(
      `SqliteSaver, synchronous ${durability.toUpperCase()}`,
      { turn: 1.1, bytes: 0.05 },
      {
        ours: () => sqliteSaver(ours, durability),
        theirs: () => theirSqliteSaver(theirs, durability),
        bytes: { ours: () => sizeWithoutLog(ours), theirs: () => sizeWithoutLog(theirs) },
      },
    );
  }

  const { startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
  const server = await startPostgres();
  const [ourSchema, theirSchema] = [`ours_${randomUUID()}`, `theirs_${randomUUID()}`];
  const pool = new pg.Pool({ connectionString: server.url });
  pool.on("error", () => undefined);
  const bytesIn = async (/** @type {string} */ schema) => {
    const { rows } = await pool.query(
      "SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'",
      [schema],
    );
    return rows[0].bytes;
  };
  try {
    /** @type {Sides} */
    const sides = {
      ours: async () => new WaymarkSaver({ storage: new PostgresAdapter({ pool, schema: ourSchema, prepare: true }) }),
      theirs: async () => {
        const saver = new PostgresSaver(pool, undefined, { schema: theirSchema });
        await saver.setup();
        return saver;
      },
      bytes: { ours: () => bytesIn(ourSchema), theirs: () => bytesIn(theirSchema) },
    };
    await compare("PostgresSaver", 0.7, sides);
    await compareAgents("PostgresSaver", { turn: 1.1, bytes: 0.2 }, sides);
  } finally {
    await pool.end();
    await server.stop();
  }
}

/** @typedef {import("@langchain/langgraph-checkpoint").BaseCheckpointSaver} Saver */
/**
 * @typedef {{ ours: () => Promise<Saver>, theirs: () => Promise<Saver>,
 *   bytes: { ours: () => number | Promise<number>, theirs: () => number | Promise<number> } }} Sides
 */

/**
 * @param {string} name
 * @param {number} most - The limit for the bytes of the graph's checkpoints, as a multiple of LangGraph's bytes.
 * @param {Sides} sides
 */
async function compare(name, most, sides) {
  const [ours, theirs] = [await sides.ours(), await sides.theirs()];
  printHeading(`LangGraph: to its ${name}, threads of ${TURNS} turns of 500 bytes`);

  const [growing, theirGrowing] = [threadOn(ours, 500), threadOn(theirs, 500)];
  const put = await medians({ ours: growing.put, theirs: theirGrowing.put }, { rounds: TURNS, warmup: 20 });
  printRow({ what: "put", measuredMs: put.ours, againstMs: put.theirs, limit: 1.1 });
  const writes = await medians({ ours: growing.putWrites, theirs: theirGrowing.putWrites }, { rounds: TURNS });
  printRow({ what: "putWrites", measuredMs: writes.ours, againstMs: writes.theirs, limit: 1.1 });
  const get = await medians({ ours: () => growing.getTuple(), theirs: () => theirGrowing.getTuple() }, { rounds: 200 });
  printRow({ what: "getTuple", measuredMs: get.ours, againstMs: get.theirs, limit: 1.1 });
  const resumed = await medians(
    {
      ours: async () => growing.getTuple(await sides.ours()),
      theirs: async () => theirGrowing.getTuple(await sides.theirs()),
    },
    { rounds: 50 },
  );
  printRow({ what: "getTuple, by a saver made for it", measuredMs: resumed.ours, againstMs: resumed.theirs });

  const [tiny, theirTiny] = [threadOn(ours, 0), threadOn(theirs, 0)];
  const before = [await sides.bytes.ours(), await sides.bytes.theirs()];
  const tinyPut = await medians({ ours: tiny.put, theirs: theirTiny.put }, { rounds: 1000 });
  printRow({ what: "tiny states (100 bytes): put", measuredMs: tinyPut.ours, againstMs: tinyPut.theirs, limit: 1.2 });
  const tinyGet = await medians({ ours: () => tiny.getTuple(), theirs: () => theirTiny.getTuple() }, { rounds: 500 });
  printRow({ what: "tiny states: getTuple", measuredMs: tinyGet.ours, againstMs: tinyGet.theirs, limit: 1.5 });
  const after = [await sides.bytes.ours(), await sides.bytes.theirs()];
  printBytes("tiny states: bytes stored", (after[0] ?? 0) - (before[0] ?? 0), (after[1] ?? 0) - (before[1] ?? 0), 1.5);

  const [graph, theirGraph] = [graphOn(ours), graphOn(theirs)];
  const [start, theirStart] = [await sides.bytes.ours(), await sides.bytes.theirs()];
  const turn = await medians({ ours: graph, theirs: theirGraph }, { rounds: TURNS, warmup: 0 });
  printRow({ what: "a turn of a real graph", measuredMs: turn.ours, againstMs: turn.theirs, limit: 0.9 });
  const [end, theirEnd] = [await sides.bytes.ours(), await sides.bytes.theirs()];
  printBytes("its 900 checkpoints: bytes stored", end - start, theirEnd - theirStart, most);

  /** @type {string[]} */
  const threads = Array.from({ length: 20 }, (_, index) => `deleted-${index}`);
  for (const saver of [ours, theirs]) for (const thread of threads) await fill(saver, thread);
  const remaining = [[...threads], [...threads]];
  const removal = await medians(
    {
      ours: () => ours.deleteThread(remaining[0]?.pop() ?? ""),
      theirs: () => theirs.deleteThread(remaining[1]?.pop() ?? ""),
    },
    { rounds: threads.length, warmup: 0 },
  );
  printRow({ what: "deleteThread", measuredMs: removal.ours, againstMs: removal.theirs, limit: 1.5 });
  if (ours instanceof WaymarkSaver) await ours.close();
}

/**
 * Makes a thread whose `messages` grow by `growth` bytes at each put. If `growth` is 0, each state has 100 new bytes.
 *
 * @param {Saver} saver
 * @param {number} growth
 */
function threadOn(saver, growth) {
  const thread_id = randomUUID();
  const texts = messagesOf(MESSAGE_BYTES);
  /** @type {string[]} */
  let messages = [];
  let version = 0;
  /** @type {import("@langchain/core/runnables").RunnableConfig} */
  let config = { configurable: { thread_id, checkpoint_ns: "" } };
  /** @type {(typeof config)[]} */
  const written = [];
  return {
    put: async () => {
      version += 1;
      messages = growth === 0 ? [`${version}`.padEnd(80, "x")] : [...messages, texts.next().value];
      const checkpoint = {
        ...emptyCheckpoint(),
        id: uuid6(version),
        channel_values: { messages },
        channel_versions: { messages: version },
      };
      config = await saver.put(
        config,
        checkpoint,
        { source: "loop", step: version, parents: {} },
        { messages: version },
      );
      written.push(config);
    },
    // Each checkpoint gets few pending writes, as in a real run.
    putWrites: () => saver.putWrites(written.pop() ?? config, [["messages", texts.next().value]], randomUUID()),
    getTuple: (reader = saver) => reader.getTuple({ configurable: { thread_id, checkpoint_ns: "" } }),
  };
}

/** @param {Saver} saver */
function graphOn(saver) {
  const texts = messagesOf(MESSAGE_BYTES);
  const State = Annotation.Root({
    messages: Annotation({
      reducer: (/** @type {string[]} */ a, /** @type {string[]} */ b) => a.concat(b),
      default: () => [],
    }),
    plan: Annotation(),
  });
  const graph = new StateGraph(State)
    .addNode("reply", ({ messages }) => ({
      messages: [texts.next().value],
      plan: { step: messages.length },
    }))
    .addEdge(START, "reply")
    .addEdge("reply", END)
    .compile({ checkpointer: saver });
  const config = { configurable: { thread_id: randomUUID() } };
  return () => graph.invoke({ messages: ["Go on."] }, config);
}

/**
 * @param {Saver} saver
 * @param {string} thread_id
 */
async function fill(saver, thread_id) {
  let config = { configurable: { thread_id, checkpoint_ns: "" } };
  for (let turn = 1; turn <= TURNS; turn++) {
    const checkpoint = {
      ...emptyCheckpoint(),
      id: uuid6(turn),
      channel_values: { n: turn },
      channel_versions: { n: turn },
    };
    // The config that `put` returns also has the checkpoint's id.
    config = /** @type {typeof config} */ (
      await saver.put(config, checkpoint, { source: "loop", step: turn, parents: {} }, { n: turn })
    );
    if (turn % 3 === 0) await saver.putWrites(config, [["n", turn]], "task");
  }
}

/**
 * @param {string} path
 * @param {"normal" | "full"} durability
 */
async function sqliteSaver(path, durability = "normal") {
  return new WaymarkSaver({ storage: new SqliteAdapter({ path, durability }) });
}

/**
 * @param {string} path
 * @param {"normal" | "full"} durability
 */
export async function theirSqliteSaver(path, durability = "normal") {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${durability}`);
  return new SqliteSaver(database);
}

/** @param {string} path */
function sizeOf(path) {
  return [path, `${path}-wal`].reduce((sum, file) => sum + (existsSync(file) ? statSync(file).size : 0), 0);
}

/** @param {string} path */
function sizeWithoutLog(path) {
  if (!existsSync(path)) return 0;
  const database = new Database(path);
  database.pragma("wal_checkpoint(TRUNCATE)");
  database.close();
  return statSync(path).size;
}
