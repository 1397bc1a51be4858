// Tests that everything that takes time follows vitest's fake timers and a SimulatedRuntime, without real time.
import { expect, it, onTestFinished, vi } from "vitest";
import { type CheckpointManager, type RunFunction, type Runtime, type StorageAdapter, StorageError } from "waymark";
import type { TaskLog } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { realRuntime } from "../../../src/contract/runtime.js";
import { deferred } from "../../support/deferred.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, runOf, withWrites } from "./run-support.js";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

interface Time {
  readonly storage: MemoryAdapter;
  readonly options: { readonly runtime?: Runtime };
  advance(ms: number): Promise<unknown>;
  now(): number;
}

const TIMES: Record<string, () => Time> = {
  "vi.useFakeTimers": () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
    return { storage: new MemoryAdapter(), options: {}, advance, now: () => Date.now() };
  },
  SimulatedRuntime: () => {
    const runtime = new SimulatedRuntime();
    const real = vi.spyOn(globalThis, "setTimeout");
    onTestFinished(() => {
      expect(real).not.toHaveBeenCalled();
      real.mockRestore();
    });
    const advance = (ms: number) => runtime.advance(ms);
    return { storage: new MemoryAdapter({ runtime }), options: { runtime }, advance, now: () => runtime.now() };
  },
};
const each = it.each(Object.entries(TIMES));

function open(start: () => Time) {
  const time = start();
  return { ...time, ...managerOn(time.storage, time.options) };
}

function working(manager: CheckpointManager, fn: RunFunction<unknown, unknown, unknown, unknown>) {
  const stop = new AbortController();
  const ended = manager.work({ prefix: "q/", signal: stop.signal, pauseOnSignal: false }, fn);
  return async () => {
    stop.abort();
    await ended;
  };
}

each("a sleep is over at its time (%s)", async (_, start) => {
  const { manager, advance, now } = open(start);
  const until = now() + DAY_MS;
  const woke = manager.run("t", async (run) => {
    await run.sleepUntil("a day", new Date(until));
    return now();
  });
  await advance(DAY_MS - 1);
  expect((await manager.latest("t"))?.status).toBe("running");
  await advance(1);
  expect(await woke).toBe(until);
});

each("a step is tried again after its pauses (%s)", async (_, start) => {
  const { manager, advance, now } = open(start);
  const startMs = now();
  const triedMs: number[] = [];
  const retry = { times: 3, backoffMs: 10_000 };
  const third = manager.run("t", (run) =>
    run.step(
      "flaky",
      ({ attempt }) => {
        triedMs.push(now() - startMs);
        if (attempt < 3) throw new Error("no answer");
        return attempt;
      },
      { retry },
    ),
  );
  await advance(29_999);
  expect(triedMs).toEqual([0, 10_000]);
  await advance(1);
  expect(await third).toBe(3);
  expect(triedMs).toEqual([0, 10_000, 30_000]);
});

each("a step is aborted after its time limit (%s)", async (_, start) => {
  const { manager, advance } = open(start);
  const hangs = ({ signal }: { readonly signal: AbortSignal }) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
  const failed = expect(
    manager.run("t", (run) => run.step("hangs", hangs, { timeoutMs: DAY_MS })),
  ).rejects.toMatchObject({ name: "TimeoutError" });
  await advance(DAY_MS);
  await failed;
});

each("a wait for an event ends after its time limit (%s)", async (_, start) => {
  const { manager, advance } = open(start);
  const waited = manager.run(
    "t",
    async (run) => (await run.waitFor("approve", { timeoutMs: 60 * MINUTE_MS })) ?? "nobody",
  );
  await advance(60 * MINUTE_MS);
  expect(await waited).toBe("nobody");
});

each("an event of another manager is found (%s)", async (_, start) => {
  const { manager, storage, options, advance } = open(start);
  const waited = manager.run("t", async (run) => (await run.waitFor("approve")).value);
  await advance(MINUTE_MS);
  const other = managerOn(storage, options).manager;
  await other.send("t", "approve", "yes");
  const result = other.result("t");
  await advance(2000);
  expect(await waited).toBe("yes");
  await advance(2000);
  expect(await result).toBe("yes");
});

it("in a storage of this process alone, a wait and `result` look when something has changed", async () => {
  const { manager, storage, options, advance, now } = open(TIMES["SimulatedRuntime"]!);
  const other = managerOn(storage, options).manager;
  const waited = manager.run("t", async (run) => (await run.waitFor("approve")).value);
  await advance(1);
  const result = other.result("t");
  await advance(MINUTE_MS);
  const reads = [vi.spyOn(storage.log!, "read"), vi.spyOn(storage, "list"), vi.spyOn(storage, "read")];
  await advance(60 * MINUTE_MS);
  const looks = reads.map((read) => read.mock.calls.length);
  // The check happens once a minute, in case the machine was asleep.
  for (const count of looks) expect(count).toBeLessThanOrEqual(60);
  expect(Math.max(...looks)).toBeGreaterThan(50);
  const sentMs = now();
  await other.send("t", "approve", "yes");
  expect(await waited).toBe("yes");
  expect(now()).toBe(sentMs);
  await advance(2000);
  expect(await result).toBe("yes");
});

it("an event that comes while its wait looks is received at once", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  let sends = false;
  const log: TaskLog = {
    ...inner.log,
    async *read(query) {
      yield* inner.log.read(query);
      if (!sends) return;
      sends = false;
      await manager.send("t", "approve");
    },
  };
  const { manager } = managerOn(withMembers<StorageAdapter>(inner, { log }), { runtime });
  const received = manager.run("t", async (run) => {
    await run.waitFor("approve");
    return runtime.now();
  });
  await runtime.advance(19);
  sends = true;
  await runtime.advance(2000);
  expect(await received).toBe(20);
});

each("an auto-save saves after each interval (%s)", async (_, start) => {
  const { manager, advance, now } = open(start);
  const startMs = now();
  const state = { n: 1 };
  const autoSave = manager.autoSave("t", () => state);
  await advance(29_999);
  expect(await manager.has("t")).toBe(false);
  await advance(1);
  expect(await manager.latest("t")).toMatchObject({
    state: { n: 1 },
    createdAt: new Date(startMs + 30_000).toISOString(),
  });
  state.n = 2;
  await advance(30_000);
  expect((await manager.latest("t"))?.state).toEqual({ n: 2 });
  await autoSave.stop();
  state.n = 3;
  await advance(DAY_MS);
  expect((await manager.latest("t"))?.state).toEqual({ n: 2 });
});

each("a lease renews itself (%s)", async (_, start) => {
  const { manager, advance, now } = open(start);
  const lease = await manager.lease("t");
  await advance(DAY_MS + 5000);
  expect(lease.signal.aborted).toBe(false);
  expect(lease.token).toBe(1);
  const expiresAt = new Date(now() + 25_000).toISOString();
  expect(lease.expiresAt).toBe(expiresAt);
  expect(await manager.leaseOf("t")).toMatchObject({ token: 1, expiresAt });
  await lease.release();
});

each("the lease of a runner that is gone expires (%s)", async (_, start) => {
  const { manager, storage, advance } = open(start);
  await storage.leases?.claim("t", "gone", 30_000);
  await storage.leases?.claim("u", "gone", 30_000);
  const impatient = expect(manager.run("u", () => "ran", { waitForLeaseMs: 1000 })).rejects.toMatchObject({
    code: "LEASE_HELD",
  });
  await advance(1000);
  await impatient;
  await advance(28_999);
  await expect(manager.lease("t")).rejects.toMatchObject({ code: "LEASE_HELD" });
  const waits = manager.run("u", () => "ran", { waitForLeaseMs: 30_000 });
  await advance(1);
  expect((await manager.lease("t")).token).toBe(2);
  await advance(100);
  expect(await waits).toBe("ran");
});

each("a run renews its lease at its time alone (%s)", async (_, start) => {
  const { manager, storage, advance } = open(start);
  const renew = vi.spyOn(storage.leases!, "renew");
  const done = deferred<void>();
  const ran = manager.run("t", async (run) => {
    for (let n = 0; n < 5; n += 1) await run.step("a", () => n);
    await run.step("b", () => done.promise);
  });
  await advance(9999);
  expect(renew).not.toHaveBeenCalled();
  await advance(1);
  expect(renew).toHaveBeenCalledOnce();
  done.resolve();
  await ran;
});

each("a lease that can't be renewed is lost (%s)", async (_, start) => {
  const { manager, storage, advance } = open(start);
  const lease = await manager.lease("t");
  vi.spyOn(storage.leases!, "renew").mockRejectedValue(new StorageError("unreachable"));
  await advance(29_999);
  expect(lease.signal.aborted).toBe(false);
  await advance(1);
  expect(lease.signal.reason).toMatchObject({ code: "LEASE_LOST" });
});

each("a write that fails is tried again (%s)", async (_, start) => {
  const { storage, options, advance } = start();
  let failures = 3;
  const failing = withWrites(storage, async (call, _isLazy, titles) => {
    if (titles.includes("step a") && failures-- > 0) throw new StorageError("unreachable", { retryable: true });
    return call();
  });
  const { manager } = managerOn(failing, options);
  const result = manager.run("t", (run) => run.step("a", () => 1));
  await advance(50 + 100 + 200 - 1);
  expect((await manager.latest("t"))?.status).toBe("running");
  await advance(1);
  expect(await result).toBe(1);
});

each("a worker begins a task at its time (%s)", async (_, start) => {
  const { manager, advance, now } = open(start);
  const dueMs = now() + DAY_MS;
  await manager.enqueue("q/t", undefined, { dueAt: new Date(dueMs) });
  const began: number[] = [];
  const drain = working(manager, () => void began.push(now()));
  await advance(DAY_MS - 1);
  expect(began).toEqual([]);
  await advance(250);
  await manager.result("q/t");
  expect(began[0]).toBeGreaterThanOrEqual(dueMs);
  expect(began[0]).toBeLessThan(dueMs + 250);
  await drain();
});

each("a worker suspends a run that sleeps, and resumes it a day later (%s)", async (_, start) => {
  const { manager, storage, advance, now } = open(start);
  await manager.enqueue("q/t");
  const ran: string[] = [];
  const drain = working(manager, async (run) => {
    await run.step("before", () => ran.push("before"));
    const until = await run.step("until", () => now() + DAY_MS);
    await run.sleepUntil("a day", new Date(until));
    await run.step("after", () => ran.push("after"));
    return "woke";
  });
  await advance(MINUTE_MS);
  expect((await manager.latest("q/t"))?.status).toBe("paused");
  expect(await storage.leases?.current("q/t")).toBeUndefined();
  await advance(DAY_MS);
  expect(await manager.result("q/t")).toBe("woke");
  expect(ran).toEqual(["before", "after"]);
  expect((await runOf(manager, "q/t"))?.attempt).toBe(2);
  await drain();
});

each("a worker takes over the task of a worker that is gone (%s)", async (_, start) => {
  const { manager, storage, advance, now } = open(start);
  await manager.enqueue("q/t");
  await storage.queue?.claimNext({ prefix: "q/", dueBy: new Date(now()).toISOString() }, "gone", 30_000, 1);
  const drain = working(manager, () => "ran");
  await advance(29_999);
  expect((await manager.latest("q/t"))?.status).toBe("paused");
  await advance(250);
  expect(await manager.result("q/t")).toBe("ran");
  await drain();
});

it("timers in the background don't keep the process alive", () => {
  const count = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = count();
  const cancel = realRuntime.setTimeout(() => undefined, DAY_MS, true);
  expect(count()).toBe(before);
  const cancelOther = realRuntime.setTimeout(() => undefined, DAY_MS);
  expect(count()).toBe(before + 1);
  cancel();
  cancelOther();
  expect(count()).toBe(before);
});

it("a manager that was made before the fake timers also follows them", async () => {
  const { manager } = managerOn();
  const { advance } = TIMES["vi.useFakeTimers"]!();
  const second = manager.run("t", (run) =>
    run.step("flaky", ({ attempt }) => (attempt < 2 ? Promise.reject(new Error("no")) : attempt), {
      retry: { times: 1 },
    }),
  );
  await advance(1000);
  expect(await second).toBe(2);
  expect((await manager.latest("t"))?.createdAt).toBe(new Date().toISOString());
});

it("`clock` decides when a sleep is over and a task is due", async () => {
  const runtime = new SimulatedRuntime();
  const clock = { nowMs: 0 };
  const { manager } = managerOn(new MemoryAdapter({ runtime }), { runtime, clock: () => clock.nowMs });
  await manager.enqueue("q/t", undefined, { dueAt: new Date(1) });
  const began = deferred<void>();
  const drain = working(manager, async (run) => {
    began.resolve();
    await run.sleepUntil("a day", new Date(DAY_MS));
    return "woke";
  });
  await runtime.advance(MINUTE_MS);
  expect((await manager.latest("q/t"))?.label).toBe("Enqueued");
  clock.nowMs = 1;
  await runtime.advance(MINUTE_MS);
  await began.promise;
  expect((await manager.latest("q/t"))?.status).toBe("paused");
  clock.nowMs = DAY_MS;
  await runtime.advance(MINUTE_MS);
  expect(await manager.result("q/t")).toBe("woke");
  await drain();
});
