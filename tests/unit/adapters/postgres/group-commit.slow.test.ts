import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { PostgresAdapter, PostgresQuery } from "waymark/adapters/postgres";
import { draft } from "../../../../conformance/drafts.js";
import { event, record } from "../../../../conformance/records.js";
import { deferred } from "../../../support/deferred.js";
import {
  collect,
  newPool,
  newSchema,
  newStore,
  openAdapter,
  type PoolSpy,
  spyingPool,
} from "../../../support/postgres.js";

const TASKS = Array.from({ length: 16 }, (_, number) => `task-${number}`);
const isBatch = ({ text }: PostgresQuery) => text.includes("json_to_recordset");
const rowsOf = ({ values }: PostgresQuery): unknown[] => JSON.parse(String(values[0]));

/**
 * Opens an adapter whose tasks each have a checkpoint. Also returns a function that opens more adapters on the store.
 */
async function begun(spy: PoolSpy = {}) {
  const { url, schema } = await newSchema();
  const first = openAdapter({ url, schema });
  await Promise.all(TASKS.map((taskId) => first.append(draft(taskId, "c1"))));
  return { url, schema, adapter: openAdapter({ pool: spyingPool(newPool(url), spy), schema }) };
}

/** Checks the tables first, so that only appends follow. */
async function opened(adapter: PostgresAdapter): Promise<void> {
  await adapter.hasTables();
}

describe("appends at the same moment", () => {
  it("share one statement, and each gets its own sequence", async () => {
    const seen: PostgresQuery[] = [];
    const { adapter } = await begun({ before: (query) => void seen.push(query) });
    await adapter.append(draft("task-3", "c2"));
    seen.length = 0;
    const sequences = await Promise.all(TASKS.map((taskId) => adapter.append(draft(taskId, "c3"))));
    expect(sequences).toEqual(TASKS.map((taskId) => (taskId === "task-3" ? 3 : 2)));
    expect(seen).toHaveLength(1);
    for (const taskId of TASKS) expect(await adapter.get(taskId, "c3")).toMatchObject({ id: "c3", taskId });
  });

  it("each have their own outcome: a refused one fails no other", async () => {
    const { adapter } = await begun();
    const { token } = await adapter.leases.claim("task-1", "holder", 600_000);
    const expired = await adapter.leases.claim("task-8", "holder", 1);
    while ((await adapter.leases.current("task-8")) !== undefined);
    const outcomes = await Promise.allSettled([
      adapter.append(draft("task-0", "c2"), { expectedSequence: 1 }),
      adapter.append(draft("task-1", "c2"), { fencingToken: token }),
      adapter.append(draft("task-2", "c2"), { fencingToken: 7 }),
      adapter.append(draft("task-3", "c2"), { expectedSequence: 9 }),
      adapter.append(draft("task-4", "c1")),
      adapter.append(draft("task-5", "c1", { body: '"another"' })),
      adapter.append(draft("new", "c1"), { expectedSequence: 0 }),
      adapter.append(draft("new-too", "c1"), { expectedSequence: 3 }),
      adapter.append(draft("task-6", "c2"), {}, { sequence: 40 }),
      adapter.append(draft("task-8", "c2"), { fencingToken: expired.token }),
      adapter.append(draft("task-7", "nul \0 and \x01", { body: '"ü"', label: 'quo"te \\ \0' })),
    ]);
    const told = outcomes.map((one) => (one.status === "fulfilled" ? one.value : one.reason.code));
    const [lost, conflict] = ["LEASE_LOST", "CHECKPOINT_CONFLICT"];
    expect(told).toEqual([2, 2, lost, conflict, 1, conflict, 1, conflict, 40, lost, 2]);
    const given = await adapter.get("task-7", "nul \0 and \x01");
    expect(given).toMatchObject({ label: 'quo"te \\ \0', payload: { body: '"ü"' } });
    expect(await collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: true }))).toEqual([]);
    expect(await collect(adapter.list({ taskId: "task-5", order: "newest" }))).toHaveLength(1);
  });

  it("of one task and of others keep the task's call order", async () => {
    const { adapter } = await begun();
    const appends = Array.from({ length: 40 }, (_, index) => adapter.append(draft(`task-${index % 2}`, `n${index}`)));
    expect(await Promise.all(appends)).toEqual(appends.map((_, index) => Math.floor(index / 2) + 2));
  });

  it("come in batches of at most 128 rows, and of one MiB of payloads", async () => {
    const seen: PostgresQuery[] = [];
    const { adapter } = await newStoreSpied(seen);
    await adapter.append(draft("t", "c1"));
    seen.length = 0;
    await Promise.all(Array.from({ length: 300 }, (_, number) => adapter.append(draft(`many-${number}`, "c1"))));
    expect(seen.filter(isBatch).map((query) => rowsOf(query).length)).toEqual([128, 128, 44]);
    seen.length = 0;
    const body = JSON.stringify("x".repeat(300_000));
    await Promise.all(
      Array.from({ length: 7 }, (_, number) => adapter.append(draft(`large-${number}`, "c1", { body }))),
    );
    expect(seen.filter(isBatch).map((query) => rowsOf(query).length)).toEqual([3, 3]);
    expect(seen).toHaveLength(3);
  });

  it("that come while a statement is under way share the next one", async () => {
    const { adapter, seen, free } = await heldUp();
    const appends = await inTurns(adapter, TASKS);
    expect(seen).toHaveLength(1);
    free.resolve();
    expect(await Promise.all(appends)).toEqual(TASKS.map(() => 2));
    expect(seen.map(isBatch)).toEqual([false, true]);
  });

  it("wait for no statement once they are a full batch", async () => {
    const { adapter, seen, free } = await heldUp();
    const appends = Array.from({ length: 300 }, (_, number) => adapter.append(draft(`new-${number}`, "c1")));
    await nextTurn();
    expect(seen.map((query) => rowsOf(query).length)).toEqual([128, 128]);
    free.resolve();
    await Promise.all(appends);
    expect(seen.map((query) => rowsOf(query).length)).toEqual([128, 128, 44]);
  });

  it("wait 50 ms for a statement, and for the fourth until one has ended", async () => {
    const { adapter, seen, free } = await heldUp();
    const appends = await inTurns(adapter, TASKS.slice(0, 1));
    for (const [index, taskId] of TASKS.slice(1, 6).entries()) {
      appends.push(...(await inTurns(adapter, [taskId])));
      await pass(49);
      expect(seen).toHaveLength(Math.min(index + 1, 4));
      await pass(1);
      expect(seen).toHaveLength(Math.min(index + 2, 4));
    }
    free.resolve();
    expect(await Promise.all(appends)).toEqual(appends.map(() => 2));
    expect(seen.map(isBatch)).toEqual([false, false, false, false, true]);
  });
});

it("an append to a locked task keeps no other of its batch waiting", async () => {
  const { url, schema, adapter } = await begun();
  const inTheWay = await newPool(url).connect();
  await inTheWay.query("BEGIN");
  await inTheWay.query(`SELECT FROM "${schema}".tasks WHERE task_id = 'task-0' FOR UPDATE`);
  const [late, ...others] = TASKS.map((taskId) => adapter.append(draft(taskId, "c2")));
  expect(await Promise.all(others)).toEqual(others.map(() => 2));
  await inTheWay.query("COMMIT");
  inTheWay.release();
  expect(await late).toBe(2);
});

it("two programs that save the same tasks at once in different orders never deadlock", async () => {
  const failures: unknown[] = [];
  const { url, schema, adapter } = await begun();
  const watched = new Proxy(newPool(url), {
    get: (pool, key) => {
      if (key !== "query") return Reflect.get(pool, key).bind?.(pool);
      return (query: PostgresQuery) =>
        pool.query(query).catch((error: unknown) => {
          failures.push(error);
          throw error;
        });
    },
  });
  const other = openAdapter({ pool: watched, schema });
  const ids = Array.from({ length: 25 }, (_, number) => `n${number}`);
  const everyTask = [...TASKS, ...TASKS.map((taskId) => `new-${taskId}`)];
  const saved = ids.flatMap((id) => [
    ...everyTask.map((taskId) => adapter.append(draft(taskId, `a-${id}`))),
    ...everyTask.toReversed().map((taskId) => other.append(draft(taskId, `b-${id}`))),
  ]);
  await Promise.all(saved);
  expect(failures).toEqual([]);
  for (const taskId of everyTask) {
    const stored = await collect(adapter.list({ taskId, order: "oldest" }));
    const first = taskId.startsWith("new-") ? 0 : 1;
    expect(stored.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 50 + first }, (_, at) => at + 1));
  }
});

it("appends whose shared answer is lost are stored once", async () => {
  const { adapter, lost } = await losingAnAnswer();
  const appends = TASKS.map((taskId) => adapter.append(draft(taskId, "c2"), { expectedSequence: 1 }));
  expect(await Promise.all(appends)).toEqual(TASKS.map(() => 2));
  expect(lost).toHaveLength(1);
});

it("records without ids whose shared answer is lost aren't stored twice, and nobody is told that nothing was stored", async () => {
  const { adapter, lost } = await losingAnAnswer();
  const [first = "", second = "", third = "", ...others] = TASKS;
  const answers = await Promise.allSettled([
    adapter.log.append(first, [record("step")]),
    adapter.log.append(second, [event("sent", { id: "e1" })]),
    adapter.append(draft(third, "c2"), {}, { records: [record("step")] }),
    ...others.map((taskId) => adapter.append(draft(taskId, "c2"))),
  ]);
  expect(lost).toHaveLength(1);
  expect(answers[0]).toMatchObject({ status: "rejected", reason: { code: "STORAGE_FAILED", retryable: true } });
  expect(answers.slice(1).map((answer) => answer.status)).not.toContain("rejected");
  for (const taskId of [first, second]) {
    expect(await collect(adapter.log.read({ taskId, order: "oldest", kinds: ["step", "event"] }))).toHaveLength(1);
  }
  expect(await collect(adapter.log.read({ taskId: third, order: "oldest" }))).toHaveLength(3);
});

it("records without ids are appended once the server can be reached again", async () => {
  let refused = 0;
  const before = (query: PostgresQuery) => {
    if (refused > 2 || !query.text.includes("INSERT INTO")) return;
    refused += 1;
    throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  };
  const { adapter } = await begun({ before });
  expect(await adapter.log.append(TASKS[0]!, [record("step")])).toBe(2);
  expect(refused).toBe(3);
});

it("a repeated append gets its sequence, though its lease has expired since", async () => {
  const { adapter } = await newStore();
  const { token } = await adapter.leases.claim("t", "holder", 600_000);
  await adapter.append(draft("t", "c1"), { fencingToken: token });
  await adapter.leases.release("t", token);
  expect(await adapter.append(draft("t", "c1"), { fencingToken: token })).toBe(1);
  await expect(adapter.append(draft("t", "c2"), { fencingToken: token })).rejects.toMatchObject({ code: "LEASE_LOST" });
});

/** Opens an adapter that loses the answer to its first statement with several appends. */
async function losingAnAnswer() {
  const lost: PostgresQuery[] = [];
  const after = (query: PostgresQuery) => {
    if (lost.length > 0 || !isBatch(query)) return;
    lost.push(query);
    throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
  };
  const { adapter } = await begun({ after });
  return { adapter, lost };
}

async function newStoreSpied(seen: PostgresQuery[]) {
  const { url, schema } = await newSchema();
  const pool = spyingPool(newPool(url), { before: (query) => void seen.push(query) });
  return { adapter: openAdapter({ pool, schema }) };
}

/** Opens an adapter whose appends are delayed and whose clock stands still. */
async function heldUp() {
  const seen: PostgresQuery[] = [];
  const free = deferred<void>();
  const { adapter } = await begun({
    before: async (query) => {
      if (!query.text.includes("INSERT INTO")) return;
      seen.push(query);
      await free.promise;
    },
  });
  await opened(adapter);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => {
    vi.useRealTimers();
    free.resolve();
  });
  return { adapter, seen, free };
}

/** Lets time pass for an adapter of {@link heldUp}. */
async function pass(ms: number): Promise<void> {
  vi.advanceTimersByTime(ms);
  await nextTurn();
}

/** Appends to the tasks, each in a separate turn of the event loop. */
async function inTurns(adapter: PostgresAdapter, taskIds: readonly string[]): Promise<Promise<number>[]> {
  const appends: Promise<number>[] = [];
  for (const taskId of taskIds) {
    appends.push(adapter.append(draft(taskId, "c2")));
    await nextTurn();
  }
  return appends;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
