import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { isCorrupt } from "waymark/adapter";
import type { PostgresAdapter, PostgresQuery } from "waymark/adapters/postgres";
import { makeStatements } from "../../../../adapters/postgres/statements.js";
import { draft, drafts } from "../../../../conformance/drafts.js";
import { event } from "../../../../conformance/records.js";
import {
  administer,
  collect,
  newPool,
  newSchema,
  newStore,
  openAdapter,
  spyingPool,
} from "../../../support/postgres.js";

/** Opens an adapter, and records every statement that it makes from now on. */
async function spied() {
  const { url, schema } = await newSchema();
  const seen: PostgresQuery[] = [];
  const pool = spyingPool(newPool(url), { before: (query) => void seen.push(query) });
  const adapter = openAdapter({ pool, schema });
  return { url, schema, adapter, seen };
}

const QUERY = { prefix: "", dueBy: "2027-01-01T00:00:00.000Z" };

async function aLifeOn(adapter: PostgresAdapter): Promise<void> {
  for (const one of [...drafts("t", 3), ...drafts("u", 2)]) await adapter.append(one);
  await adapter.append(draft("t", "c1"));
  await adapter.get("t", "c1");
  for (const order of ["newest", "oldest"] as const) {
    await collect(adapter.list({ taskId: "t", order, limit: 2, skip: 1 }));
    await collect(adapter.read({ taskId: "t", order, stage: "s", status: ["failed"] }));
  }
  for (const order of ["recent", "taskId"] as const) await collect(adapter.tasks({ order, prefix: "t" }));
  await adapter.setStatus("t", "c3", { status: "paused" }, { expectedSequence: 3 });
  const { payload } = draft("t", "x");
  await adapter.replacePayload("t", "c2", payload, draft("t", "c2").payload.sha256);
  await adapter.remove("t", ["c3"]);
  const { token } = await adapter.leases.claim("t", "holder", 60_000);
  await adapter.append(draft("t", "c4"), { fencingToken: token });
  await adapter.log.append("t", [event("e")], { fencingToken: token }, { lazy: true });
  await adapter.append(draft("t", "c5"), {}, { records: [event("f")] });
  await adapter.log.append("t", [event("e")]);
  await collect(adapter.log.read({ taskId: "t", order: "oldest", durableOnly: true }));
  await adapter.log.replacePayloads("t", [{ sequence: 1, payload, expectedSha256: payload.sha256 }]);
  await adapter.log.remove("t", { name: "e" });
  await collect(adapter.leases.held());
  await adapter.leases.lapsed("t");
  await adapter.append(draft("t", "paused", { status: "paused", dueAt: "2026-01-02T03:04:05.678Z" }));
  await adapter.queue.count(QUERY);
  await adapter.remove("t", ["paused"]);
  await adapter.leases.release("t", token);
  await collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: false }));
  await adapter.remove("t", "all");
  await adapter.removePrefix("u");
}

describe("statements", () => {
  it("name their task, unless they are about all tasks", async () => {
    const { adapter, schema, seen } = await spied();
    await aLifeOn(adapter);
    const { append, ...acrossTasks } = makeStatements(schema).acrossTasks;
    const across = new Set([...textsIn(acrossTasks), ...ALL_PARTS.map(append)]);
    const opening =
      /^\s*(BEGIN|COMMIT|SELECT pg_advisory_xact_lock|SELECT decode|SELECT current_setting|CREATE SCHEMA)/;
    const ofATask = seen.filter(({ text }) => !across.has(text) && !opening.test(text));
    expect(ofATask.length).toBeGreaterThan(30);
    for (const { text, values } of ofATask) {
      expect(tablesWithoutTask(text)).toEqual([]);
      expect(["t", "u"]).toContain(values[0]);
    }
  });

  it("name the task for each table in each of their parts", () => {
    const { acrossTasks: _named, append, ...others } = makeStatements("s");
    const texts = [...textsIn(others), ...ALL_PARTS.map((parts) => append(parts).text)];
    expect(texts.length).toBeGreaterThan(25);
    for (const text of texts) {
      expect(tablesWithoutTask(text)).toEqual([]);
      // Without any one of these conditions, a table lacks its task.
      for (const { index, 0: condition } of text.matchAll(/task_id = (\$1|\w\.task_id)/g)) {
        const without = `${text.slice(0, index)}true${text.slice(index + condition.length)}`;
        expect(tablesWithoutTask(without)).not.toEqual([]);
      }
    }
  });

  it("of a save and of the latest are one round trip", async () => {
    const { adapter, seen } = await spied();
    await adapter.append(draft("t", "c1"));
    seen.length = 0;
    await adapter.append(draft("t", "c2"), { expectedSequence: 1 });
    expect(seen).toHaveLength(1);
    await adapter.read({ taskId: "t", order: "newest" }).next();
    expect(seen).toHaveLength(2);
    await collect(adapter.read({ taskId: "t", order: "newest", stage: "nowhere" }));
    expect(seen).toHaveLength(3);
  });

  it("of a save and of the latest are planned once, where they are prepared", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url, { max: 1 });
    const adapter = openAdapter({ pool, schema, prepare: true });
    for (const one of drafts("t", 20)) {
      await adapter.append(one);
      await adapter.read({ taskId: "t", order: "newest", limit: 1 }).next();
    }
    const { rows } = await pool.query<{ custom: number }>(
      `SELECT custom_plans::int AS custom FROM pg_prepared_statements WHERE generic_plans + custom_plans > 10`,
    );
    // The server makes five plans before it keeps one.
    expect(rows).toEqual([{ custom: 5 }, { custom: 5 }]);
  });

  it("of `latest` give a text with damaged bytes, so that its digest fails", async () => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    await administer(url, `UPDATE "${schema}".checkpoints SET body = '\\xff00'`);
    const { value } = await adapter.read({ taskId: "t", order: "newest" }).next();
    expect(value).toMatchObject({ payload: { body: "\ufffd\0" } });
  });

  it("for lists and tasks read no payload, neither bytes nor a text's pieces", async () => {
    const { url, schema, adapter } = await newStore();
    const random = (bytes: number) => randomBytes(bytes);
    for (const id of ["c1", "c2"]) await adapter.append(draft("t", id, { body: random(200_000) }));
    for (const id of ["c3", "c4"]) {
      await adapter.append(draft("t", id, { body: JSON.stringify(random(100_000).toString("hex")) }));
    }
    const sql = makeStatements(schema);
    const range = ["t", "0", "100", 100, 0];
    expect(await blocksOf(url, sql.reads.summaries.newest, range)).toBeLessThan(20);
    expect(await blocksOf(url, sql.acrossTasks.tasks, [["t"]])).toBeLessThan(20);
    expect(await blocksOf(url, sql.acrossTasks.idsByRecency, [["running"], 20, 0])).toBeLessThan(20);
    // Rows that a filter rejects aren't read either.
    const page = sql.reads.checkpoints.newest;
    expect(await blocksOf(url, page, [...range, "nowhere", ["running"], 2 ** 30])).toBeLessThan(20);
    // The payloads are bytes and a text.
    for (const sequence of [1, 3]) {
      const its = ["t", sequence, sequence, 1, 0, null, ["running"], 2 ** 30];
      expect(await blocksOf(url, `SELECT md5(x::text) FROM (${page}) x`, its)).toBeGreaterThan(20);
    }
  });

  it("for whole checkpoints give the first one, then some 256 KiB at a time", async () => {
    const { adapter, seen } = await spied();
    const body = JSON.stringify("x".repeat(100_000));
    for (let number = 1; number <= 9; number++) await adapter.append(draft("t", `c${number}`, { body }));
    seen.length = 0;
    // 1, 3, 3, 2.
    expect(await collect(adapter.read({ taskId: "t", order: "newest", status: ["running"] }))).toHaveLength(9);
    expect(seen).toHaveLength(4);
  });

  it("reach every row by a key or an index, however many there are", async () => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    // Enough rows for the planner to have a choice, copied from a saved one.
    await administer(
      url,
      `INSERT INTO "${schema}".tasks SELECT 'task-' || n, 5, 5, 5, '2026-01-02T03:04:05.678Z',
         CASE WHEN n % 1000 = 0 THEN 'running' ELSE 'completed' END FROM generate_series(1, 20000) n`,
    );
    await administer(
      url,
      `INSERT INTO "${schema}".checkpoints (task_id, sequence, id, id_digest, created_at, status, state_version,
         size_bytes, encoding, sha256, seal, is_text, body)
       SELECT 'task-' || n, s, 'c' || s, sha256(('c' || s)::bytea), created_at, status, 1, 2, encoding, sha256, seal, true, '{}'
       FROM generate_series(1, 20000) n, generate_series(1, 5) s, "${schema}".checkpoints WHERE task_id = 't'`,
    );
    await administer(url, `ANALYZE "${schema}".tasks`);
    await administer(url, `ANALYZE "${schema}".checkpoints`);
    const sql = makeStatements(schema);
    const range = ["task-7", "0", "100", 100, 0];
    const incomplete = ["running", "paused", "failed"];
    const plans = await Promise.all([
      planOf(url, sql.reads.wholeById, ["task-7", Buffer.alloc(32)]),
      planOf(url, sql.reads.summaries.newest, range),
      planOf(url, sql.reads.checkpoint.newest, [...range.slice(0, 3), ""]),
      planOf(url, sql.reads.checkpoints.newest, [...range, null, ["running"], 1]),
      planOf(url, sql.changes.lock, ["task-7"]),
      planOf(url, sql.acrossTasks.idsByTaskId, [["running", "completed"], 256, 0, "task-1", "task-2"]),
      planOf(url, sql.acrossTasks.idsByRecency, [incomplete, 20, 0]),
      planOf(url, sql.acrossTasks.idsByRecencyInRange, [incomplete, 20, 0, "task-1", "task-2"]),
      planOf(url, sql.acrossTasks.tasks, [Array.from({ length: 256 }, (_, n) => `task-${n}`)]),
    ]);
    for (const plan of plans) expect(plan).not.toMatch(/Seq Scan/);
    const tasks = await planOf(url, sql.acrossTasks.claimDue, [["task-1", "task-2"], "worker", 1000, "2027", 2]);
    expect(tasks).not.toMatch(/Seq Scan/);
    const found = await collect(adapter.tasks({ order: "recent", status: ["running"], limit: 20 }));
    // The copied rows have no valid seal.
    expect(found.filter((item) => !isCorrupt(item))).toHaveLength(1);
  });
});

it("a page of a log is read in the order of the index, also by a plan made without statistics", async () => {
  const { url, schema, adapter } = await newStore();
  await adapter.log.append("t", [event("e")]);
  // The server's plan for any values, as it keeps it for a prepared statement. Autovacuum would bring statistics.
  await administer(url, `ALTER TABLE "${schema}".records SET (autovacuum_enabled = off)`);
  await administer(
    url,
    `INSERT INTO "${schema}".records (task_id, sequence, kind, name, created_at, encoding, sha256, seal, size_bytes, is_text, body)
     SELECT 'u', n, 'step', 's', created_at, encoding, sha256, seal, 1000, true, convert_to(repeat('x', 1000), 'UTF8')
     FROM generate_series(1, 100000) n, "${schema}".records WHERE task_id = 't'`,
  );
  const { oldest, newest } = makeStatements(schema).records.read;
  for (const page of [oldest.whole, oldest.headers, newest.whole, newest.headers]) {
    const plan = await planOf(url, page, [], ", GENERIC_PLAN");
    expect(plan).toMatch(/Index Scan (Backward )?using records_pkey/);
    expect(plan).not.toMatch(/Bitmap/);
  }
});

describe("statements about due tasks", () => {
  const dueBy = "2026-01-02T03:04:05.678Z";

  it.each([
    ["due", "2026-01-02T03:04:05.678Z"],
    ["not due yet", "2027-01-02T03:04:05.678Z"],
  ])("read only what they need of 100,000 that are %s", async (_when, dueAt) => {
    const { url, schema, adapter } = await newStore();
    const sql = makeStatements(schema).acrossTasks;
    await adapter.append(draft("t", "c1"));
    await administer(
      url,
      `INSERT INTO "${schema}".tasks (task_id, last_sequence, count, due_at)
         SELECT 'task-' || n, 1, 1, $1 FROM generate_series(1, 100000) n`,
      [dueAt],
    );
    // Each task was leased before. Of five leases that weren't released, three are held.
    await administer(
      url,
      `INSERT INTO "${schema}".leases SELECT 'task-' || n, 'h', 1, CASE WHEN n % 20000 <> 0 THEN 'epoch'
         WHEN n <= 60000 THEN now() + interval '1 hour' ELSE now() - interval '1 hour' END FROM generate_series(1, 100000) n`,
    );
    await administer(url, `VACUUM ANALYZE "${schema}".tasks, "${schema}".leases`);
    const range = ["task-", "task-\u{10ffff}", dueBy, []];
    const found = await planOf(url, sql.dueTasks, [...range, 31]);
    expect(found).not.toMatch(/Seq Scan/);
    expect(await blocksOf(url, sql.dueTasks, [...range, 31])).toBeLessThan(200);
    const isDue = dueAt === dueBy;
    if (!isDue) expect(await planOf(url, sql.countDue, range)).not.toMatch(/Seq Scan/);
    expect(await adapter.queue.count({ prefix: "task-", dueBy })).toMatchObject({ tasks: isDue ? 99_997 : 2 });
    const first = await adapter.queue.claimNext({ prefix: "task-", dueBy }, "worker", 60_000, 1);
    expect(first).toEqual([{ taskId: "task-100000", token: 2 }]);
  });
});

const BOTH = [true, false];
/** Every combination of an append's parts. */
const ALL_PARTS = BOTH.flatMap((hasCheckpoints) =>
  BOTH.flatMap((hasRecords) =>
    BOTH.flatMap((isFenced) =>
      BOTH.flatMap((isReplacing) =>
        BOTH.flatMap((hasPieces) =>
          BOTH.map((mayBegin) => ({
            hasCheckpoints,
            hasRecords,
            hasPieces: hasCheckpoints && hasPieces,
            mayBegin,
            isFenced,
            isReplacing,
          })),
        ),
      ),
    ),
  ),
);

/** Returns the statements in an object, at any depth. */
function textsIn(statements: object): string[] {
  return Object.values(statements).flatMap((part) => (typeof part === "string" ? [part] : textsIn(part)));
}

/**
 * The tables that a part of the statement (a subselect, or the rest without them) names more often than their
 * `task_id`.
 */
function tablesWithoutTask(statement: string): string[] {
  const parts: string[] = [];
  const innermost = /\(([^()]*)\)/;
  let rest = statement;
  for (let found = innermost.exec(rest); found; found = innermost.exec(rest)) {
    const [whole, inner = ""] = found;
    const isQuery = /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b/.test(inner);
    if (isQuery) parts.push(inner);
    rest = rest.replace(whole, () => (isQuery ? "QUERY" : `⟨${inner}⟩`));
  }
  return [...parts, rest].flatMap((part) => {
    const tables = part.match(/"[^"]+"\.\w+/g) ?? [];
    const named = part.match(/task_id = (\$1|\w\.task_id)|INSERT INTO "[^"]+"\.\w+\s+⟨task_id/g) ?? [];
    return named.length < tables.length ? tables : [];
  });
}

async function planOf(url: string, sql: string, values: unknown[], options = ""): Promise<string> {
  const rows = await administer(url, `EXPLAIN (COSTS OFF${options}) ${sql}`, values);
  return rows.map((row) => String(row["QUERY PLAN"])).join("\n");
}

/** Returns the number of 8 KiB blocks that the statement touches. */
async function blocksOf(url: string, sql: string, values: unknown[]): Promise<number> {
  const [whole = ""] = (await planOf(url, sql, values, ", ANALYZE, BUFFERS")).split("Planning");
  const [, hit = 0] = /Buffers: shared hit=(\d+)/.exec(whole) ?? [];
  const [, read = 0] = /Buffers: shared.*read=(\d+)/.exec(whole) ?? [];
  return Number(hit) + Number(read);
}
