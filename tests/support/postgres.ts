import { randomUUID } from "node:crypto";
import pg from "pg";
import { inject, onTestFinished } from "vitest";
import { PostgresAdapter, type PostgresAdapterOptions } from "waymark/adapters/postgres";

/** A schema of the test's own, which doesn't exist yet, on the server of all tests. It is gone when the test is over. */
export async function newSchema(): Promise<{ readonly url: string; readonly schema: string }> {
  const answer = await fetch(inject("postgresDesk"));
  const url = await answer.text();
  if (!answer.ok) throw new Error(url);
  const schema = `test_${randomUUID()}`;
  onTestFinished(() => administer(url, `DROP SCHEMA IF EXISTS "${schema}" CASCADE`));
  return { url, schema };
}

/** Runs statements on a connection of their own. */
export async function administer(url: string, sql: string, values?: unknown[]): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(sql, values);
  } finally {
    await client.end();
  }
}

/** An adapter on a schema of its own, closed when the test is over. */
export async function newStore(options: Partial<PostgresAdapterOptions> = {}) {
  const place = await newSchema();
  const adapter = new PostgresAdapter({ ...place, ...options } as PostgresAdapterOptions);
  onTestFinished(() => adapter.close());
  return { ...place, adapter };
}
