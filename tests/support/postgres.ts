import { randomUUID } from "node:crypto";
import pg from "pg";
import { inject, onTestFinished } from "vitest";
import {
  PostgresAdapter,
  type PostgresClient,
  type PostgresPool,
  type PostgresQuery,
  type PostgresTablesOptions,
} from "waymark/adapters/postgres";

/** Returns the URL of the server that all tests share. */
export async function serverUrl(): Promise<string> {
  const answer = await fetch(inject("postgresDesk"));
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text;
}

/**
 * Returns a schema name for the test; the schema doesn't exist yet. On a user's server, it is dropped after the test.
 */
export async function newSchema(): Promise<{ readonly url: string; readonly schema: string }> {
  const url = await serverUrl();
  const schema = `test_${randomUUID()}`;
  // The tests' own server is deleted as a whole, because connecting and dropping a schema takes as long as some tests.
  if (process.env["DATABASE_URL"]) {
    onTestFinished(async () => void (await administer(url, `DROP SCHEMA IF EXISTS "${schema}" CASCADE`)));
  }
  return { url, schema };
}

/** Runs a statement on a new connection. Returns its rows. */
export async function administer(url: string, sql: string, values?: unknown[]): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

/** Resolves once the server has ended all statements on the schema, including statements of killed processes. */
export async function untilIdle(url: string, schema: string): Promise<void> {
  const sql =
    "SELECT count(*)::int AS count FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() AND query LIKE $1";
  for (;;) {
    const [found] = await administer(url, sql, [`%${schema}%`]);
    if (found?.["count"] === 0) return;
  }
}

/** Resolves once `count` statements on the schema wait for a lock. */
export async function untilWaiting(url: string, schema: string, count: number): Promise<void> {
  const sql = "SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
  for (;;) {
    const [found] = await administer(url, sql, [`%${schema}%`]);
    if (found?.["count"] === count) return;
  }
}

/** Opens an adapter on a new schema, and closes it after the test. */
export async function newStore(options: PostgresTablesOptions = {}) {
  const place = await newSchema();
  return { ...place, adapter: openAdapter({ ...place, ...options }) };
}

/** Opens an adapter, and closes it after the test. */
export function openAdapter(options: ConstructorParameters<typeof PostgresAdapter>[0]): PostgresAdapter {
  const adapter = new PostgresAdapter(options);
  onTestFinished(() => adapter.close());
  return adapter;
}

/** Opens a pool of pg, and closes it after the test. */
export function newPool(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...options });
  // `end` resolves before the connections are closed, and the server may end in between.
  pool.on("error", () => undefined);
  onTestFinished(() => pool.end());
  return pool;
}

/** Functions to call before and after each statement of a pool. Both may throw. */
export interface PoolSpy {
  readonly before?: (query: PostgresQuery) => void | Promise<void>;
  readonly after?: (query: PostgresQuery) => void | Promise<void>;
}

/** Wraps a pool so that it reports each statement, except notifications, which are sent some time after a change. */
export function spyingPool(pool: pg.Pool, { before, after }: PoolSpy): PostgresPool {
  const spied = (source: Pick<PostgresClient, "query">) => async (query: PostgresQuery) => {
    if (query.text.includes("pg_notify")) return source.query(query);
    await before?.(query);
    const result = await source.query(query);
    await after?.(query);
    return result;
  };
  return {
    query: spied(pool),
    connect: (done) =>
      pool.connect((error, client) => {
        if (!client) return done(error, client);
        done(undefined, {
          query: spied(client),
          release: (destroy) => client.release(destroy),
          on: (event, listener) => client.on(event, listener),
          removeListener: (event, listener) => client.removeListener(event, listener),
        });
      }),
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener),
    removeListener: (event, listener) => pool.removeListener(event, listener),
  };
}

/** Returns the number of rows and bytes of the pieces of histories. */
export async function piecesOf({ url, schema }: { url: string; schema: string }) {
  const [found] = await administer(
    url,
    `SELECT count(*)::int AS rows, coalesce(sum(length(body)), 0)::int AS bytes FROM "${schema}".pieces`,
  );
  return found as { rows: number; bytes: number };
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
