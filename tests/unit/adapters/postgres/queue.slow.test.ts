import { expect, it } from "vitest";
import type { PostgresQuery } from "waymark/adapters/postgres";
import { draft } from "../../../../conformance/drafts.js";
import {
  administer,
  collect,
  newPool,
  newStore,
  openAdapter,
  spyingPool,
  untilWaiting,
} from "../../../support/postgres.js";

const QUERY = { prefix: "q/", dueBy: "2026-01-02T03:04:59.000Z" };
const LONG_MS = 600_000;

/** A store with due tasks, the first one due first. */
async function withDue(...taskIds: string[]) {
  const store = await newStore();
  for (const [second, taskId] of taskIds.entries()) {
    const createdAt = new Date(Date.UTC(2026, 0, 2, 3, 4, second)).toISOString();
    await store.adapter.append(draft(taskId, "c1", { createdAt, dueAt: createdAt, status: "paused" }));
  }
  return store;
}

it("claims whose answer is lost are found again, and no further task is claimed", async () => {
  const { url, schema, adapter } = await withDue("q/1", "q/2", "q/3", "q/4");
  let lost = 0;
  const after = ({ text }: { text: string }) => {
    if (lost > 0 || !text.includes("INSERT INTO")) return;
    lost += 1;
    throw Object.assign(new Error("Connection terminated unexpectedly"), { code: "08006" });
  };
  const unlucky = openAdapter({ pool: spyingPool(newPool(url), { after }), schema });
  expect(await unlucky.queue.claimNext(QUERY, "worker", LONG_MS, 2)).toEqual([
    { taskId: "q/1", token: 1 },
    { taskId: "q/2", token: 1 },
  ]);
  expect(lost).toBe(1);
  expect(await adapter.queue.count(QUERY)).toMatchObject({ tasks: 2 });
});

it("a repeated claim leaves out a task that another worker took over and completed meanwhile", async () => {
  const { url, schema, adapter } = await withDue("q/1", "q/2");
  const inTheWay = await newPool(url).connect();
  let claims = 0;
  const isClaim = ({ text }: { text: string }) => text.includes("INSERT INTO");
  const pool = spyingPool(newPool(url), {
    before: async (query) => {
      claims += Number(isClaim(query));
      if (!isClaim(query) || claims < 2) return;
      await inTheWay.query("BEGIN");
      await inTheWay.query(`SELECT FROM "${schema}".leases WHERE task_id = 'q/1' FOR UPDATE`);
    },
    after: (query) => {
      if (!isClaim(query) || claims > 1) return;
      throw Object.assign(new Error("Connection terminated unexpectedly"), { code: "08006" });
    },
  });
  const claiming = openAdapter({ pool, schema }).queue.claimNext(QUERY, "worker", LONG_MS, 2);
  await untilWaiting(url, schema, 1);
  const { token } = await adapter.leases.claim("q/2", "another worker", LONG_MS, { force: true });
  await adapter.setStatus("q/2", "c1", { status: "completed" }, { fencingToken: token });
  await adapter.leases.release("q/2", token);
  await inTheWay.query("COMMIT");
  inTheWay.release();
  expect(await claiming).toEqual([{ taskId: "q/1", token: 1 }]);
});

it("a task whose row another transaction has locked is passed over", async () => {
  const { url, schema, adapter } = await withDue("q/1", "q/2");
  const inTheWay = await newPool(url).connect();
  await inTheWay.query("BEGIN");
  await inTheWay.query(`SELECT FROM "${schema}".tasks WHERE task_id = 'q/1' FOR UPDATE`);
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([{ taskId: "q/2", token: 1 }]);
  // Nothing else is due, so the call doesn't wait.
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([]);
  await inTheWay.query("COMMIT");
  inTheWay.release();
  expect(await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([{ taskId: "q/1", token: 1 }]);
});

it("a task that is completed right before its claim isn't claimed", async () => {
  const { url, schema, adapter } = await withDue("q/1", "q/2");
  const before = async ({ text }: { text: string }) => {
    if (text.includes("INSERT INTO")) await adapter.setStatus("q/1", "c1", { status: "completed" });
  };
  const slow = openAdapter({ pool: spyingPool(newPool(url), { before }), schema });
  expect(await slow.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([{ taskId: "q/2", token: 1 }]);
});

it("forty workers at once get forty tasks", async () => {
  const taskIds = Array.from({ length: 40 }, (_, n) => `q/${n}`);
  const { adapter } = await withDue(...taskIds);
  const claims = await Promise.all(
    taskIds.map(async (_, n) => {
      for (;;) {
        const [claimed] = await adapter.queue.claimNext(QUERY, `worker-${n}`, LONG_MS, 1);
        if (claimed) return claimed.taskId;
      }
    }),
  );
  expect(claims.toSorted()).toEqual(taskIds.toSorted());
});

it("an idle look is one statement, which locks nothing", async () => {
  const { url, schema, adapter } = await withDue("q/1");
  await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 1);
  const seen: PostgresQuery[] = [];
  const pool = spyingPool(newPool(url), { before: (query) => void seen.push(query) });
  const idle = openAdapter({ pool, schema, prepare: true });
  await idle.get("q/1", "c1");
  seen.length = 0;
  expect(await idle.queue.claimNext(QUERY, "worker", LONG_MS, 1)).toEqual([]);
  expect(seen).toHaveLength(1);
  expect(seen[0]?.text).not.toMatch(/FOR UPDATE|INSERT/);
  // The server would keep the plan that it made while the queue was empty.
  expect(seen[0]).not.toHaveProperty("name");
});

it.each([
  ["paused", "UPDATE tasks SET due_at = '2027'", /is due at 2027; by its newest checkpoint, it is due at 2026-/],
  ["running", "UPDATE tasks SET due_at = '2027'", /is due at 2027; by its newest checkpoint, it is due at 2026-/],
  ["paused", "UPDATE tasks SET due_at = NULL", /it isn't due; by its newest checkpoint, it is due at 2026-/],
  ["completed", "UPDATE tasks SET due_at = '2027'", /is due at 2027; by its newest checkpoint, it isn't due/],
] as const)("a row that doesn't tell when a %s task is due is found and rebuilt", async (status, sql, reason) => {
  const { url, schema, adapter } = await withDue("q/1");
  await adapter.setStatus("q/1", "c1", { status });
  const row = () => administer(url, `SELECT due_at, newest_status FROM "${schema}".tasks`);
  const before = await row();
  expect(before).toEqual([
    { due_at: status === "completed" ? null : "2026-01-02T03:04:00.000Z", newest_status: status },
  ]);
  await administer(url, sql.replace("tasks", `"${schema}".tasks`));
  const steps = [];
  for await (const step of adapter.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 })) steps.push(step);
  expect(steps).toMatchObject([{ action: "quarantined", finding: { reason: expect.stringMatching(reason) } }]);
  expect(await row()).toEqual(before);
});

it("a task whose damaged newest checkpoint was moved away is due as the one before says", async () => {
  const { url, schema, adapter } = await withDue("q/1");
  await adapter.append(draft("q/1", "c2"));
  expect(await adapter.queue.count(QUERY)).toMatchObject({ tasks: 0 });
  await administer(url, `UPDATE "${schema}".checkpoints SET label = 'damaged' WHERE id = 'c2'`);
  for await (const _step of adapter.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
  expect(await adapter.queue.count(QUERY)).toEqual({ tasks: 1, oldestDueAt: "2026-01-02T03:04:00.000Z" });
});

it("leases that are released together share a statement, and a lease of another token stays", async () => {
  const { url, schema, adapter } = await withDue("q/1", "q/2", "q/3");
  await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 3);
  const seen: string[] = [];
  const pool = spyingPool(newPool(url), { before: ({ text }) => void seen.push(text) });
  const releasing = openAdapter({ pool, schema });
  await releasing.hasTables();
  seen.length = 0;
  await Promise.all([
    releasing.leases.release("q/1", 1),
    releasing.leases.release("q/2", 2),
    releasing.leases.release("q/3", 1),
  ]);
  expect(seen).toHaveLength(1);
  expect((await collect(adapter.leases.held())).map(({ taskId }) => taskId)).toEqual(["q/2"]);
});

it("a lease that is released while a statement is under way is released by the next one", async () => {
  const { url, schema, adapter } = await withDue("q/1", "q/2");
  await adapter.queue.claimNext(QUERY, "worker", LONG_MS, 2);
  const inTheWay = await newPool(url).connect();
  await inTheWay.query("BEGIN");
  await inTheWay.query(`SELECT FROM "${schema}".leases WHERE task_id = 'q/1' FOR UPDATE`);
  const first = adapter.leases.release("q/1", 1);
  await untilWaiting(url, schema, 1);
  const second = adapter.leases.release("q/2", 1);
  await inTheWay.query("COMMIT");
  inTheWay.release();
  await Promise.all([first, second]);
  expect(await collect(adapter.leases.held())).toEqual([]);
});
