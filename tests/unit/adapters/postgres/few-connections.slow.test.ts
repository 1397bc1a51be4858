import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { draft, drafts } from "../../../../conformance/drafts.js";
import { startPostgres } from "../../../../examples/two-machines/src/postgres-server.js";
import { collect, newPool, newSchema, openAdapter, spyingPool } from "../../../support/postgres.js";

const LONG_MS = 600_000;

it("one connection is enough for eight runners that share it", async () => {
  const { url, schema } = await newSchema();
  const adapter = openAdapter({ pool: newPool(url, { max: 1 }), schema });
  const running = Array.from({ length: 8 }, async (_, number) => {
    const taskId = `task-${number}`;
    const { token } = await adapter.leases.claim(taskId, "runner", LONG_MS);
    const condition = { fencingToken: token };
    const appends = drafts(taskId, 20).map((one) => adapter.append(one, condition));
    for await (const { id = "" } of adapter.read({ taskId, order: "oldest" })) await adapter.get(taskId, id);
    await Promise.all(appends);
    await adapter.setStatus(taskId, "c20", { status: "completed" }, condition);
    await adapter.remove(taskId, ["c1"], condition);
    return collect(adapter.list({ taskId, order: "newest" }));
  });
  const stored = (await Promise.all(running)).flat();
  expect(stored).toHaveLength(8 * 19);
  expect(await collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: false }))).toEqual([]);
  process.stdout.write(`postgres: a pool of one connection, ${8 * 20} saves acknowledged, 0 lost\n`);
});

it("a server with too many clients takes all saves, one after another, as connections become free", async () => {
  const server = await startPostgres(["-c", "max_connections=6", "-c", "max_wal_senders=0"]);
  onTestFinished(() => server.stop());
  const { url } = server;
  const held: pg.Client[] = [];
  const refused = await connectUntilRefused(url, held);
  expect(refused).toMatchObject({ code: "53300" });
  let tries = 0;
  // The adapter's second try shows that its first try was refused.
  const before = () => {
    tries += 1;
    if (tries === 2) for (const client of held) void client.end();
  };
  const late = openAdapter({ pool: spyingPool(newPool(url), { before }), retryForMs: 60_000 });
  expect(await late.append(draft("t", "c1"))).toBe(1);
  expect(tries).toBeGreaterThan(1);

  // Each adapter wants ten connections, and returns them once it is done.
  const writing = Array.from({ length: 8 }, async (_, writer) => {
    const adapter = openAdapter({ url, retryForMs: 60_000 });
    const ids = Array.from({ length: 40 }, (_, number) => `w${writer}-${number}`);
    await Promise.all(ids.map((id, number) => adapter.append(draft(`task-${number % 10}`, id))));
    await adapter.close();
    return ids;
  });
  const acknowledged = (await Promise.all(writing)).flat();
  const stored: unknown[] = [];
  for (let task = 0; task < 10; task++) {
    for (const { id } of await collect(late.list({ taskId: `task-${task}`, order: "oldest" }))) stored.push(id);
  }
  expect(stored.sort()).toEqual(acknowledged.sort());
  process.stdout.write(`postgres: too many clients, ${acknowledged.length + 1} saves acknowledged, 0 lost\n`);
});

/** Takes all connections of the server. Returns the error for a further connection. */
async function connectUntilRefused(url: string, held: pg.Client[]): Promise<unknown> {
  for (;;) {
    const client = new pg.Client(url);
    try {
      await client.connect();
    } catch (error) {
      return error;
    }
    held.push(client);
  }
}
