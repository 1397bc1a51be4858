import { afterAll, beforeAll, describe } from "vitest";
import { skipped, startPgBouncer } from "../support/pgbouncer.js";
import { serverUrl } from "../support/postgres.js";
import { registerPostgres } from "./postgres.js";

describe.skipIf(skipped)(`behind PgBouncer${skipped}`, () => {
  let pooler: Awaited<ReturnType<typeof startPgBouncer>>;
  beforeAll(async () => {
    pooler = await startPgBouncer(await serverUrl());
  });
  afterAll(() => pooler.stop());
  registerPostgres("quick", () => pooler.url);
});
