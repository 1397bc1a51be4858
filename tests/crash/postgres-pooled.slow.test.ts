// Tests PostgreSQL behind PgBouncer in transaction mode, which answers in place of a dead server.
import { describe, expect, it, onTestFinished } from "vitest";
import { draft } from "../../conformance/drafts.js";
import { startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { skipped, startPgBouncer } from "../support/pgbouncer.js";
import { administer, newPool, openAdapter } from "../support/postgres.js";
import { killServer } from "../support/postgres-server.js";
import { startWriters } from "./writers.js";

const LONG_MS = 600_000;
const KILLS = 2;

describe.skipIf(skipped)(`behind PgBouncer${skipped}`, () => {
  it("eight writers and a lease survive kills (SIGKILL) of the server", async () => {
    const { server, url } = await startPooledServer();
    const writers = startWriters({ url, retryForMs: 60_000 });
    const runner = openAdapter({ url, retryForMs: 60_000 });
    const { token } = await runner.leases.claim("leased", "runner", LONG_MS);
    for (let kill = 1; kill <= KILLS; kill++) {
      await writers.saves(200);
      await killServer(server);
      await server.restart();
      expect(await runner.append(draft("leased", `c${kill}`), { fencingToken: token })).toBe(kill);
    }
    await writers.saves(200);
    const saved = await writers.end();
    expect(await runner.leases.claim("leased", "another", LONG_MS)).toMatchObject({ holder: "runner", token });
    process.stdout.write(
      `postgres: ${KILLS} kills of the server behind PgBouncer, ${saved} saves acknowledged, 0 lost\n`,
    );
  });

  it("settings in a connection's options are refused at once; settings of the role apply", async () => {
    const { server, url } = await startPooledServer();
    const withOptions = new URL(url);
    withOptions.searchParams.set("options", "-c statement_timeout=1min");
    for (const pool of [newPool(withOptions.href), newPool(url, { statement_timeout: 60_000 })]) {
      const refused = openAdapter({ pool, retryForMs: LONG_MS }).append(draft("t", "c1"));
      await expect(refused).rejects.toThrow(/unsupported startup parameter: (options|statement_timeout)/);
    }
    await administer(server.url, "ALTER ROLE postgres SET statement_timeout = '1min'");
    const [timeout] = await administer(url, "SHOW statement_timeout");
    expect(timeout).toEqual({ statement_timeout: "1min" });
  });
});

async function startPooledServer() {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const pooler = await startPgBouncer(server.url);
  onTestFinished(() => pooler.stop());
  return { server, url: pooler.url };
}
