import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { CheckpointManager, type Lease, LeaseHeldError, LeaseLostError, type StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { errorOfProgram } from "../../support/error-of-program.js";
import { tempFolder } from "../../support/temp-folder.js";

/** A storage whose leases follow the mocked clock, like this process's timers. */
function mockedStorage(): MemoryAdapter {
  vi.useFakeTimers({
    toFake: ["setTimeout", "setInterval", "clearTimeout", "clearInterval", "Date", "performance", "hrtime"],
  });
  return new MemoryAdapter();
}

afterEach(() => vi.useRealTimers());

describe("a lease", () => {
  it("belongs to one holder, and shows which", async () => {
    const storage = new MemoryAdapter();
    const [one, two] = [new CheckpointManager({ storage }), new CheckpointManager({ storage })];
    const lease = await one.lease("t", { ttlMs: 60_000, holder: "worker-1" });
    expect(lease).toMatchObject({ taskId: "t", token: 1, holder: "worker-1" });
    expect(Date.parse(lease.expiresAt) - Date.now()).toBeGreaterThan(50_000);
    const refused = await two.lease("t").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(LeaseHeldError);
    expect(refused).toMatchObject({ code: "LEASE_HELD", retryable: true, holder: "worker-1", taskId: "t" });
    expect((refused as LeaseHeldError).remainingMs).toBeGreaterThan(50_000);
    expect((refused as LeaseHeldError).message).toMatch(
      /^Task "t" is being run by "worker-1"\. That lease expires in [56]\d\.\d s unless .* let `manager\.run` wait with `waitForLeaseMs`, /,
    );

    await lease.release();
    await lease.release();
    const next = await two.lease("t");
    expect(next.token).toBe(2);
    expect(next.holder).toContain(`:${process.pid}:`);
    await next.release();
  });

  it("is visible to everybody, with its holder and its expiry, even before the first checkpoint", async () => {
    const storage = new MemoryAdapter();
    const [one, two] = [new CheckpointManager({ storage }), new CheckpointManager({ storage })];
    expect(await two.leaseOf("t")).toBeUndefined();
    const lease = await one.lease("t", { ttlMs: 60_000, holder: "worker-1" });
    const seen = await two.leaseOf("t");
    expect(seen).toEqual({ taskId: "t", holder: "worker-1", token: 1, expiresAt: expect.any(String) });
    expect(Date.parse(seen?.expiresAt ?? "") - Date.now()).toBeGreaterThan(50_000);
    await lease.release();
    expect(await two.leaseOf("t")).toBeUndefined();
    await expect(two.leaseOf("")).rejects.toThrow(RangeError);
  });

  it("stops its holder from writing once it is released", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    const lease = await manager.lease("t");
    const { id } = await manager.save("t", 1, { lease });
    await manager.setStatus("t", id, "paused", { lease });
    await lease.release();
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    const lost = { code: "LEASE_LOST", taskId: "t" };
    await expect(manager.save("t", 2, { lease })).rejects.toMatchObject(lost);
    await expect(manager.setStatus("t", id, "failed", { lease })).rejects.toMatchObject(lost);
    await expect(manager.complete("t", { lease })).rejects.toMatchObject(lost);
    await expect(manager.fail("t", "why", { lease })).rejects.toMatchObject(lost);
    await expect(manager.remove("t", id, { lease })).rejects.toMatchObject(lost);
    await expect(manager.removeTask("t", { lease })).rejects.toMatchObject(lost);
    await expect(lease.renew()).rejects.toMatchObject(lost);
    expect(await manager.list("t")).toMatchObject([{ id, status: "paused" }]);
  });

  it.each(["files:store", "tasks:store", "sqlite:store.db"])("on %s ends with a reboot", async (url) => {
    const relativeTo = await tempFolder();
    const open = () => {
      const storage = openStorage(url, { relativeTo });
      onTestFinished(() => storage.close());
      return storage;
    };
    vi.useFakeTimers({ toFake: ["hrtime"] });
    vi.advanceTimersByTime(10 * 24 * 60 * 60_000);
    const before = open();
    await before.leases?.claim("t", "before", 60_000);
    expect(await before.leases?.current("t")).toMatchObject({ holder: "before" });

    // After the reboot the clock starts at zero.
    vi.useRealTimers();
    vi.useFakeTimers({ toFake: ["hrtime"] });
    const after = open();
    expect(await after.leases?.current("t")).toBeUndefined();
    expect(await after.leases?.claim("t", "after", 60_000)).toMatchObject({ isGranted: true, token: 2 });
  });

  it("also stops its holder's auto-saves once another holder has the task", async () => {
    const storage = new MemoryAdapter();
    const [one, two] = [new CheckpointManager({ storage }), new CheckpointManager({ storage })];
    const lease = await one.lease("t");
    let state = 1;
    const autoSave = one.autoSave("t", () => state, { lease });
    await autoSave.flush();
    await storage.leases.release("t", lease.token);
    await using _next = await two.lease("t");
    state = 2;
    await expect(autoSave.flush()).rejects.toMatchObject({ code: "LEASE_LOST" });
    await expect(autoSave.stop()).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect((await two.latest("t"))?.state).toBe(1);
  });

  it("is released at the end of its scope, and when its manager closes", async () => {
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage, ownsStorage: false });
    {
      await using lease = await manager.lease("t");
      expect(lease.signal.aborted).toBe(false);
    }
    const lease = await manager.lease("t");
    expect(lease.token).toBe(2);
    await manager.close();
    expect(lease.signal.aborted).toBe(true);
    expect(await storage.leases.current("t")).toBeUndefined();
  });

  it("belongs to one task, and nothing else is accepted as a lease", async () => {
    const manager = new CheckpointManager({ storage: new MemoryAdapter() });
    const lease = await manager.lease("t");
    await expect(manager.save("u", 1, { lease })).rejects.toThrow('The lease is for task "t", not for "u"');
    await expect(manager.save("t", 1, { lease: { token: 1 } as never })).rejects.toThrow(TypeError);
    await expect(manager.save("t", 1, { lease: 5 as never })).rejects.toThrow("a lease from manager.lease()");
    await expect(manager.lease("t", { ttl: 5 } as object)).rejects.toThrow('has no "ttl"');
    await expect(manager.lease("t", { ttlMs: 99 })).rejects.toThrow(RangeError);
    await expect(manager.lease("t", { ttlMs: 2 ** 31 })).rejects.toThrow(RangeError);
    await expect(manager.lease("t", { holder: "" })).rejects.toThrow(RangeError);
    await expect(manager.lease("")).rejects.toThrow(RangeError);
    await lease.release();
  });

  it("is refused by a storage without leases", async () => {
    const storage: StorageAdapter = new MemoryAdapter();
    Object.defineProperty(storage, "leases", { value: undefined });
    const manager = new CheckpointManager({ storage });
    await expect(manager.lease("t")).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
    await expect(manager.leaseOf("t")).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
  });
});

describe("a lease in time", () => {
  it("renews itself, for as long as its holder lives", async () => {
    const storage = mockedStorage();
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lease.signal.aborted).toBe(false);
    expect(await storage.leases.current("t")).toMatchObject({ token: 1 });
    await lease.release();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await storage.leases.current("t")).toBeUndefined();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("aborts its signal the moment it expires if the storage can't be reached", async () => {
    const storage = mockedStorage();
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    storage.leases.renew = () => Promise.reject(new Error("The network is down."));
    await vi.advanceTimersByTimeAsync(2_999);
    expect(lease.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(lease.signal.reason).toMatchObject({
      code: "LEASE_LOST",
      message: expect.stringContaining("expired before"),
    });
    expect(vi.getTimerCount()).toBe(0);
    // The lease has expired, so a lost release isn't a failure.
    storage.leases.release = () => Promise.reject(new Error("The network is down."));
    await lease.release();
  });

  it("lasts from the moment of the claim, however late the storage answers", async () => {
    const storage = mockedStorage();
    const { claim, renew } = storage.leases;
    const late = async <Answer>(answer: Promise<Answer>) => {
      await answer;
      vi.advanceTimersByTime(500);
      return answer;
    };
    storage.leases.claim = (...args) => late(claim(...args));
    storage.leases.renew = (...args) => late(renew(...args));
    const endsIn = async (ms: number) => {
      expect(lease.signal.aborted).toBe(false);
      expect(Date.parse(lease.expiresAt) - Date.now()).toBe(ms);
    };
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    await endsIn(2_500);
    await lease.renew();
    await endsIn(2_500);
    await lease.release();
  });

  it("is renewed before it is returned if the claim took longer than a third of its time", async () => {
    const storage = mockedStorage();
    const { claim } = storage.leases;
    storage.leases.claim = async (...args) => {
      const claimed = await claim(...args);
      vi.advanceTimersByTime(2_500);
      return claimed;
    };
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    expect(Date.parse(lease.expiresAt) - Date.now()).toBe(3_000);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lease.signal.aborted).toBe(false);
    await lease.release();
  });

  it("is claimed again if the claim's answer comes after it has expired", async () => {
    const storage = mockedStorage();
    const { claim } = storage.leases;
    storage.leases.claim = async (...args) => {
      storage.leases.claim = claim;
      const claimed = await claim(...args);
      vi.advanceTimersByTime(3_000);
      return claimed;
    };
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    expect([lease.token, lease.signal.aborted]).toEqual([2, false]);
    await lease.release();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is refused if the claim's answer comes after another runner has claimed the task", async () => {
    const storage = mockedStorage();
    const { claim } = storage.leases;
    storage.leases.claim = async (...args) => {
      storage.leases.claim = claim;
      const claimed = await claim(...args);
      vi.advanceTimersByTime(3_000);
      await claim("t", "another", 60_000);
      return claimed;
    };
    const manager = new CheckpointManager({ storage });
    await expect(manager.lease("t", { ttlMs: 3_000 })).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(await storage.leases.current("t")).toMatchObject({ holder: "another" });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is released if it can't be renewed before it is returned", async () => {
    const storage = mockedStorage();
    const { claim } = storage.leases;
    storage.leases.claim = async (...args) => {
      const claimed = await claim(...args);
      vi.advanceTimersByTime(1_000);
      return claimed;
    };
    storage.leases.renew = () => Promise.reject(new Error("The network is down."));
    const manager = new CheckpointManager({ storage });
    await expect(manager.lease("t", { ttlMs: 3_000 })).rejects.toThrow("The network is down.");
    expect(await storage.leases.current("t")).toBeUndefined();
  });

  it("is also released in the storage if its holder counts it as lost", async () => {
    const storage = mockedStorage();
    const { renew } = storage.leases;
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    // The renewal is stored, but its answer is lost.
    storage.leases.renew = async (...args) => {
      await renew(...args);
      return new Promise(() => undefined);
    };
    await vi.advanceTimersByTimeAsync(3_000);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(await storage.leases.current("t")).toMatchObject({ token: lease.token });
    await lease.release();
    expect(await storage.leases.current("t")).toBeUndefined();
  });

  it("sends no renewal while the previous one is unanswered", async () => {
    const storage = mockedStorage();
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    const answers: ((isHeld: boolean) => void)[] = [];
    storage.leases.renew = () => new Promise((resolve) => answers.push(resolve));
    await vi.advanceTimersByTimeAsync(2_500);
    const asked = lease.renew();
    expect(answers).toHaveLength(1);
    answers[0]?.(true);
    await asked;
    await vi.advanceTimersByTimeAsync(500);
    expect(answers).toHaveLength(2);
    answers[1]?.(true);
    await lease.release();
  });

  it.each<[string, (manager: CheckpointManager, lease: Lease, id: string) => Promise<unknown>]>([
    ["save", (manager, lease) => manager.save("t", 2, { lease })],
    ["setStatus", (manager, lease, id) => manager.setStatus("t", id, "paused", { lease })],
    ["complete", (manager, lease) => manager.complete("t", { lease })],
    ["fail", (manager, lease) => manager.fail("t", "why", { lease })],
    ["rewind", (manager, lease, id) => manager.rewind("t", id, { lease })],
    ["fork", (manager, lease, id) => manager.fork("source", id, "t", { lease })],
    ["remove", (manager, lease, id) => manager.remove("t", id, { lease })],
    ["removeTask", (manager, lease) => manager.removeTask("t", { lease })],
    ["autoSave", (manager, lease) => manager.autoSave("t", () => 3, { lease }).flush()],
  ])("aborts its signal at once when the storage refuses %s because the lease is lost", async (_, write) => {
    const storage = mockedStorage();
    const manager = new CheckpointManager({ storage });
    await manager.save("source", 1, { id: "c1" });
    await manager.save("t", 1, { id: "c1" });
    const lease = await manager.lease("t", { ttlMs: 3_000 });
    await storage.leases.release("t", lease.token);
    const refused = await write(manager, lease, "c1").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(LeaseLostError);
    expect(lease.signal.reason).toBe(refused);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("aborts its signal at the renewal that finds it lost", async () => {
    const storage = mockedStorage();
    const lease = await new CheckpointManager({ storage }).lease("t", { ttlMs: 3_000 });
    await storage.leases.release("t", 1);
    await storage.leases.claim("t", "somebody else", 60_000);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    await lease.release();
    expect(await storage.leases.current("t")).toMatchObject({ holder: "somebody else" });
  });

  it("uses a clock that nobody can set", async () => {
    const storage = mockedStorage();
    const manager = new CheckpointManager({ storage });
    const lease = await manager.lease("t", { ttlMs: 3_000 });
    for (const at of ["1990-01-01", "2090-01-01"]) {
      vi.setSystemTime(new Date(at));
      await manager.save("t", at, { lease });
      await expect(manager.lease("t")).rejects.toThrow(LeaseHeldError);
    }
    await lease.release();
  });

  it("doesn't keep a process alive", () => {
    const error = errorOfProgram(`
      const { CheckpointManager } = await import("waymark");
      const { MemoryAdapter } = await import("waymark/adapters/memory");
      await new CheckpointManager({ storage: new MemoryAdapter() }).lease("t", { ttlMs: 600_000 });
    `);
    expect(error).toBeUndefined();
  });
});
