// Tests that no acknowledged save is missing after the server is killed, and that the writers continue without help.
import { expect, it, onTestFinished } from "vitest";
import { FORM } from "../../adapters/sql/history.js";
import { startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { administer } from "../support/postgres.js";
import { killServer } from "../support/postgres-server.js";
import { startWriters } from "./writers.js";

const KILLS = 3;

// DATABASE_URL may be a user's server, so this test starts its own server to kill.
it("survives kills (SIGKILL) of the server while eight writers save", { timeout: 300_000 }, async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const writers = startWriters({ url: server.url, retryForMs: 120_000 });
  for (let kill = 0; kill < KILLS; kill++) {
    await writers.saves(200);
    await killServer(server);
    await server.restart();
  }
  await writers.saves(200);
  const saved = await writers.end();
  const bundles = `SELECT FROM waymark.pieces WHERE form = ${FORM.bundle}`;
  expect(await administer(server.url, bundles)).not.toEqual([]);
  process.stdout.write(`postgres: ${KILLS} kills of the server, ${saved} saves acknowledged, 0 lost\n`);
});
