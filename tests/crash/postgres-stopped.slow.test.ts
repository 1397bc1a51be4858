// Tests a client that is stopped (SIGSTOP) or loses its machine within a transaction, and a server that loses its host.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { draft } from "../../conformance/drafts.js";
import { deferred } from "../support/deferred.js";
import { administer, newPool, newSchema, newStore, openAdapter, spyingPool } from "../support/postgres.js";

const [LONG_MS, SHORT_MS] = [600_000, 200];

afterEach(() => void vi.useRealTimers());

it.each(["setStatus", "remove"])("a client that is stopped within %s blocks nobody from its task", async (call) => {
  const { url, schema, adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  const { token } = await adapter.leases.claim("t", "stopped", LONG_MS);
  const [stopped, awake] = [deferred(), deferred()];
  const before = async ({ text }: { text: string }) => {
    if (!/^(UPDATE|DELETE FROM) \S+checkpoints/.test(text)) return;
    stopped.resolve();
    await awake.promise;
  };
  const client = openAdapter({ pool: spyingPool(newPool(url), { before }), schema, retryForMs: LONG_MS });
  const condition = { fencingToken: token };
  const changing =
    call === "remove"
      ? client.remove("t", ["c1"], condition)
      : client.setStatus("t", "c1", { status: "paused" }, condition);
  await stopped.promise;

  await adapter.leases.renew("t", token, SHORT_MS);
  while ((await adapter.leases.current("t")) !== undefined);
  const other = await adapter.leases.claim("t", "other", LONG_MS);
  expect(other).toMatchObject({ isGranted: true });
  expect(await adapter.append(draft("t", "c2"), { fencingToken: other.token })).toBe(2);
  awake.resolve();
  await expect(changing).rejects.toMatchObject({ code: "LEASE_LOST" });
  expect(await adapter.get("t", "c1")).toMatchObject({ status: "running" });
});

it("a server whose host vanishes silently causes a retryable error", async () => {
  const { url, schema } = await newSchema();
  const relay = await startRelay(new URL(url));
  const adapter = openAdapter({ url: relay.urlOf(url), schema });
  expect(await adapter.append(draft("t", "c1"))).toBe(1);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  relay.vanish();
  const saving = adapter.append(draft("t", "c2"));
  const failed = expect(saving).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
  await relay.silenced;
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  await failed;
  expect(await administer(url, `SELECT id FROM "${schema}".checkpoints`)).toEqual([{ id: "c1" }]);
});

/** Starts a relay between a client and the server, which can stop forwarding. */
async function startRelay(server: URL) {
  const sockets: Socket[] = [];
  const silenced = deferred();
  let hasVanished = false;
  const relay = createServer((client) => {
    const upstream = connect(Number(server.port), server.hostname);
    sockets.push(client, upstream);
    const pass = (to: Socket) => (bytes: Buffer) => {
      if (hasVanished) silenced.resolve();
      else to.write(bytes);
    };
    client.on("data", pass(upstream)).on("error", () => undefined);
    upstream.on("data", pass(client)).on("error", () => undefined);
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    relay.close();
  });
  const address = relay.address();
  const port = typeof address === "object" ? String(address?.port) : "";
  return {
    silenced: silenced.promise,
    vanish: () => {
      hasVanished = true;
    },
    urlOf: (url: string) => Object.assign(new URL(url), { hostname: "127.0.0.1", port }).href,
  };
}
