// Tests a failover: the primary is killed, and its synchronous standby is promoted.
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { draft } from "../../conformance/drafts.js";
import { type PostgresServer, startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { administer, openAdapter } from "../support/postgres.js";
import { debian, killServer, listening, startStandby } from "../support/postgres-server.js";
import { startWriters } from "./writers.js";

const LONG_MS = 600_000;
const skipped = debian === undefined ? " (skipped: Debian's package postgresql isn't installed)" : "";

describe.skipIf(skipped)(`a synchronous standby${skipped}`, () => {
  it("that is promoted has every save of eight writers, and the leases; the writers continue on it", async () => {
    const { primary, standby } = await startPair();
    const address = await startAddress(primary);
    const writers = startWriters({ url: address.url, retryForMs: 60_000 });
    const runner = openAdapter({ url: address.url, retryForMs: 60_000 });
    const held = await runner.leases.claim("leased", "runner", LONG_MS);
    await writers.saves(200);

    await killServer(primary);
    // The address moves to the standby first, which refuses every save for a while. A refused client connects again.
    await Promise.race([address.moveTo(standby, 10), writers.saves(1)]);
    await administer(standby.url, "SELECT pg_promote()");
    await writers.saves(200);
    const saved = await writers.end();

    expect(await runner.leases.current("leased")).toMatchObject({ holder: "runner", token: held.token });
    expect(await runner.leases.claim("leased", "another", LONG_MS)).toMatchObject({ isGranted: false });
    expect(await runner.append(draft("leased", "c1"), { fencingToken: held.token })).toBe(1);
    await runner.leases.release("leased", held.token);
    const next = await runner.leases.claim("leased", "another", LONG_MS);
    expect(next).toMatchObject({ isGranted: true, token: held.token + 1 });
    await expect(runner.append(draft("leased", "late"), { fencingToken: held.token })).rejects.toMatchObject({
      code: "LEASE_LOST",
    });
    process.stdout.write(`postgres: promoted standby, ${saved} saves acknowledged, 0 lost\n`);
  });

  it("has a save before it is acknowledged, even if the save's connection broke in between", async () => {
    const { primary, standby } = await startPair();
    const adapter = openAdapter({ url: primary.url, retryForMs: 60_000 });
    await adapter.append(draft("t", "c1"));
    const [receiver] = await administer(standby.url, "SELECT pid FROM pg_stat_wal_receiver");
    const send = (signal: NodeJS.Signals) => process.kill(Number(receiver?.["pid"]), signal);
    send("SIGSTOP");
    // A stopped standby ends only if it is killed.
    onTestFinished(() => killServer(standby));
    let saved: number | undefined;
    const saving = adapter.append(draft("t", "c2")).then((sequence) => {
      saved = sequence;
    });
    const first = await untilOneWaits(primary);
    await administer(primary.url, "SELECT pg_terminate_backend($1)", [first]);
    await Promise.race([saving, untilOneWaits(primary, first)]);
    expect(saved).toBeUndefined();
    send("SIGCONT");
    await saving;
    await killServer(primary);
    await administer(standby.url, "SELECT pg_promote()");
    const promoted = openAdapter({ url: standby.url });
    expect(await promoted.append(draft("t", "c3"))).toBe(Number(saved) + 1);
  });
});

/** Starts a primary that commits nothing before its standby has it, and the standby. */
async function startPair() {
  const primary = await startPostgres(["-c", "synchronous_standby_names=*"], debian);
  onTestFinished(() => primary.stop());
  const standby = await startStandby(primary);
  onTestFinished(() => standby.stop());
  return { primary, standby };
}

/**
 * Resolves once a client's connection other than `other` waits for the standby. Returns the connection's process id at
 * the server.
 */
async function untilOneWaits({ url }: PostgresServer, other = 0): Promise<number> {
  const sql = `
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND wait_event = 'SyncRep' AND pid <> $1`;
  for (;;) {
    const [found] = await administer(url, sql, [other]);
    if (found !== undefined) return Number(found["pid"]);
  }
}

/** Starts an address that stays the same when the server behind it changes, like a virtual IP. */
async function startAddress(first: PostgresServer) {
  let target = Number(new URL(first.url).port);
  let connected: () => void = () => undefined;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const behind = connect(target, "127.0.0.1", () => connected());
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  const url = new URL(first.url);
  url.port = String(await listening(server));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: url.href,
    /** Directs new connections to another server. Resolves once `count` connections have reached it. */
    moveTo: (server: PostgresServer, count: number) => {
      target = Number(new URL(server.url).port);
      let left = count;
      return new Promise<void>((resolve) => {
        connected = () => {
          left -= 1;
          if (left === 0) resolve();
        };
      });
    },
  };
}
