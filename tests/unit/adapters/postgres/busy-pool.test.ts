import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import { newSchema, openAdapter, untilWaiting } from "../../../support/postgres.js";
import { stopTimeouts } from "../../../support/stopped-clock.js";

/** The number of connections in the adapter's own pool. */
const CONNECTIONS = 10;

it("a call waits for a busy connection for longer than a login may take", async () => {
  const { url, schema } = await newSchema();
  const adapter = openAdapter({ url, schema, retryForMs: 0 });
  await adapter.append(draft("t", "c1"));
  const locker = new pg.Client(url);
  await locker.connect();
  onTestFinished(() => locker.end());
  await locker.query(`BEGIN; LOCK TABLE "${schema}".checkpoints IN ACCESS EXCLUSIVE MODE`);

  const timeouts = stopTimeouts();
  const reads = Array.from({ length: CONNECTIONS + 5 }, () => adapter.get("t", "c1"));
  await untilWaiting(url, schema, CONNECTIONS);
  timeouts.pass(30_000);
  await locker.query("COMMIT");
  expect((await Promise.all(reads)).map((read) => read !== undefined && "id" in read && read.id)).toEqual(
    Array.from({ length: CONNECTIONS + 5 }, () => "c1"),
  );
});
