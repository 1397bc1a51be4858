// @ts-check
import { readdirSync, readFileSync } from "node:fs";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { bundled } from "../tests/support/bundled.mjs";
import { printHeading } from "./report.mjs";

/** The number of runs. A fifth of them run one at a time first, then all with {@link CONCURRENCY} at once. */
const RUNS = 1000;
const STEPS = 10;
const CONCURRENCY = 32;
/** Clock ticks a second in /proc/PID/stat; on Linux always 100. */
const TICKS = 100;

/**
 * Measures what a worker's run costs PostgreSQL: statements, write-ahead log, processor time and space. From these
 * costs, calculates the server's load at some rates of runs.
 *
 * @param {string} _folder
 */
export async function benchFleet(_folder) {
  printHeading(`A run of ${STEPS} steps with results of 1 KB, by a worker, on PostgreSQL`);
  const given = process.env["DATABASE_URL"];
  const server = given
    ? { url: given, stop: async () => undefined }
    : await (await import(await bundled("examples/two-machines/src/postgres-server.ts"))).startPostgres();
  const admin = new pg.Client({ connectionString: server.url });
  const pool = new pg.Pool({ connectionString: server.url, max: 10 });
  const counted = countingPool(pool);
  try {
    await admin.connect();
    const manager = new CheckpointManager({ storage: new PostgresAdapter({ pool: counted.pool, schema: "fleet" }) });
    const measured = async (/** @type {number} */ concurrency, /** @type {number} */ runs) => {
      await runAll(manager, `warm-${concurrency}`, 50, concurrency);
      const before = await countersOf(admin);
      counted.statements = 0;
      const startedMs = performance.now();
      await runAll(manager, `run-${concurrency}`, runs, concurrency);
      const seconds = (performance.now() - startedMs) / 1000;
      const { statements } = counted;
      const after = await countersOf(admin);
      console.log(
        `${runs} runs in ${seconds.toFixed(1)} s, ${concurrency} at once: ${Math.round((runs * STEPS) / seconds)} steps a second.`,
      );
      return {
        statements: statements / runs,
        commits: (after.commits - before.commits) / runs,
        walKb: (after.wal - before.wal) / runs / 1024,
        cpuMs: ((after.ticks - before.ticks) / TICKS / runs) * 1000,
        diskKb: (after.bytes - before.bytes) / runs / 1024,
      };
    };
    // At low rates, a run has the server to itself; at high rates, the runs of a worker share statements.
    const alone = await measured(1, RUNS / 5);
    const shared = await measured(CONCURRENCY, RUNS);
    const rates = [
      { rate: 10, of: alone },
      { rate: 1000, of: alone },
      { rate: 100_000, of: shared },
    ];
    const heads = rates.map(({ rate, of }) => `${rate.toLocaleString("en-US")} a minute${of === shared ? ", so" : ""}`);
    console.log(`| | a run, one at a time | a run, ${CONCURRENCY} at once | ${heads.join(" | ")} |`);
    console.log(`| --- | ---: | ---: | ${rates.map(() => "---:").join(" | ")} |`);
    const row = (
      /** @type {string} */ what,
      /** @type {keyof typeof alone} */ key,
      /** @type {(n: number) => string} */ show,
      perSecond = 60,
      unit = 1,
    ) => {
      const each = [alone, shared].map((of) => show(of[key] / unit));
      const calculated = rates.map(({ rate, of }) => show((of[key] * rate) / perSecond / unit));
      console.log(`| ${[what, ...each, ...calculated].join(" | ")} |`);
    };
    const count = (/** @type {number} */ n) => (n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en-US"));
    const bytes = (/** @type {number} */ kb) => (kb < 1024 ? `${count(kb)} KB` : `${count(kb / 1024)} MB`);
    row("statements, a second", "statements", count);
    row("commits, a second", "commits", count);
    row("write-ahead log, a second", "walKb", bytes);
    row("processor time, cores", "cpuMs", (n) => n.toFixed(n < 0.1 ? 4 : 2), 60, 1000);
    row("space of completed runs, a day", "diskKb", bytes, 1 / 1440);
    await manager.close();
  } finally {
    await pool.end();
    await admin.end();
    await server.stop();
  }
}

/**
 * @param {CheckpointManager} manager
 * @param {string} name
 * @param {number} count
 * @param {number} concurrency
 */
async function runAll(manager, name, count, concurrency) {
  const prefix = `${name}/`;
  await Promise.all(Array.from({ length: count }, (_, n) => manager.enqueue(`${prefix}${n}`, { n })));
  const drain = new AbortController();
  let left = count;
  const ended = manager.on("runEnded", () => {
    left -= 1;
    if (left === 0) drain.abort();
  });
  const options = { prefix, concurrency, signal: drain.signal, pauseOnSignal: false };
  await manager.work(options, async (run) => {
    for (let step = 1; step <= STEPS; step++) {
      await run.step(`step ${step}`, () => ({ text: `${run.taskId} ${step} `.padEnd(1000, "lorem ipsum ") }));
    }
  });
  ended();
}

/** @param {import("pg").Client} admin */
async function countersOf(admin) {
  await admin.query("SELECT pg_stat_force_next_flush()");
  await admin.query("CHECKPOINT");
  const { rows } =
    await admin.query(`SELECT pg_backend_pid() AS pid, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS wal,
    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS commits,
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'fleet' AND c.relkind = 'r') AS bytes`);
  const { pid, wal, commits, bytes } = rows[0];
  return { wal: Number(wal), commits: Number(commits), bytes: Number(bytes), ticks: ticksOf(parentOf(pid)) };
}

/** Returns the processor time of a process and its children, including ended ones. @param {number} server */
function ticksOf(server) {
  let ticks = 0;
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const fields = fieldsOf(Number(name));
    if (fields === undefined || !(Number(name) === server || Number(fields[1]) === server)) continue;
    const own = Number(fields[11]) + Number(fields[12]);
    ticks += Number(name) === server ? own + Number(fields[13]) + Number(fields[14]) : own;
  }
  return ticks;
}

/** @param {number} pid */
function parentOf(pid) {
  return Number(fieldsOf(pid)?.[1]);
}

/** Returns the fields of /proc/PID/stat, beginning with the state. @param {number} pid */
function fieldsOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    // The process has ended.
    return undefined;
  }
}

/** Wraps a pool so that it counts statements. @param {import("pg").Pool} pool */
function countingPool(pool) {
  const counted = { statements: 0, pool };
  pool.on("connect", (client) => {
    const query = client.query.bind(client);
    client.query = /** @type {typeof client.query} */ (
      (/** @type {unknown[]} */ ...args) => {
        counted.statements += 1;
        return Reflect.apply(query, client, args);
      }
    );
  });
  return counted;
}
