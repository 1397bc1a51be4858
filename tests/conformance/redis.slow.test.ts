import { hash, randomUUID } from "node:crypto";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CheckpointDraft } from "waymark/adapter";
import { registerConformance } from "waymark/conformance";
import { missing, type RedisServer, startRedis } from "../../examples/redis-adapter/redis-server.js";

const root = join(import.meta.dirname, "..", "..");
const skipped = missing === "" ? "" : ` (skipped: ${missing})`;

/** Tests the adapter of examples/redis-adapter on a separate server that syncs each write. */
describe.skipIf(skipped !== "")(`on a Redis server${skipped}`, () => {
  let server: RedisServer;
  beforeAll(async () => {
    // The suite's other processes load the build.
    await execa("npm", ["run", "build", "-w", "waymark-example-redis-adapter"], { cwd: root });
    server = await startRedis();
  }, 300_000);
  afterAll(() => server.stop());
  const newLocation = () => `${server.url} test-${randomUUID()}:`;

  registerConformance(
    { describe, it },
    {
      name: "redis",
      module: new URL("../../examples/redis-adapter/conformance-store.js", import.meta.url),
      capabilities: { durable: true, multiProcess: true },
      offers: ["leases", "replacePayload", "log"],
      newLocation,
    },
  );

  it("keeps what it acknowledged when the server is killed, and takes again what failed then", async () => {
    // Imported only after the build.
    const { open } = await import("../../examples/redis-adapter/conformance-store.js");
    const adapter = await open(newLocation());
    const kept = await adapter.append(draft("kept"));
    const restarted = server.restart();
    const outcomes = await Promise.allSettled(["c1", "c2"].map((id) => adapter.append(draft(id))));
    await restarted;
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") {
        expect(outcome.reason).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
      }
    }
    expect(await adapter.append(draft("kept"))).toBe(kept);
    for (const id of ["c1", "c2"]) await adapter.append(draft(id));
    expect(await adapter.remove("t", "all")).toBe(3);
    await adapter.close();
  });
});

function draft(id: string): CheckpointDraft {
  const body = JSON.stringify({ id });
  const payload = { encoding: "json", body, sha256: hash("sha256", body, "hex") };
  const createdAt = "2026-11-25T00:00:00.000Z";
  return { taskId: "t", id, createdAt, status: "running", stateVersion: 1, sizeBytes: body.length, payload };
}
