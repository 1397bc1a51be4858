import { expect, it } from "vitest";
import { draft } from "../../../../src/conformance/drafts.js";
import { administer, newPool, newStore, openAdapter } from "../../../support/postgres.js";

const [LONG_MS, SHORT_MS] = [600_000, 200];

/** Resolves once as many statements on the schema wait for a lock. */
async function untilWaiting(url: string, schema: string, count: number): Promise<void> {
  const sql = "SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
  for (;;) {
    const [found] = await administer(url, sql, [`%${schema}%`]);
    if (found?.["count"] === count) return;
  }
}

it("a lease that expires while a write under it waits is claimed after that write", async () => {
  const { url, schema, adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  const inTheWay = await newPool(url).connect();
  await inTheWay.query("BEGIN");
  await inTheWay.query(`SELECT FROM "${schema}".tasks WHERE task_id = 't' FOR UPDATE`);
  const { token } = await adapter.leases.claim("t", "first", SHORT_MS);
  const order: string[] = [];
  const late = adapter.append(draft("t", "late"), { fencingToken: token }).then(() => order.push("late"));
  await untilWaiting(url, schema, 1);
  while ((await adapter.leases.current("t")) !== undefined);

  const other = openAdapter({ url, schema });
  const claim = other.leases.claim("t", "second", LONG_MS).then((claimed) => {
    order.push(`token ${claimed.token}`);
  });
  await Promise.race([claim, untilWaiting(url, schema, 2)]);
  await inTheWay.query("COMMIT");
  inTheWay.release();
  await Promise.all([late, claim]);
  expect(order).toEqual(["late", "token 2"]);
});
