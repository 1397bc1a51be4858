// Tests manager.enqueue and manager.work.
import { once } from "node:events";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { CheckpointManager, StorageAdapter } from "waymark";
import { StorageError } from "waymark";
import type { TaskQueue } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { deferred } from "../../support/deferred.js";
import { shortenPauses } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, STORAGES } from "./run-support.js";
import { ends, type Fn, held, working } from "./worker-support.js";

beforeEach(shortenPauses);

/** Resolves once the worker has polled for tasks after running one. */
async function untilLooked(manager: CheckpointManager): Promise<void> {
  const completed = ends(manager, "completed");
  await manager.enqueue("q/next");
  await completed;
}

/** Starts a worker on a storage in memory. Records the times at which it polls for tasks. */
function lookingWorker(multiProcess: boolean, isAway = false) {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  const lookedMs: number[] = [];
  const world = { isAway };
  const claimNext: TaskQueue["claimNext"] = async (...args) => {
    lookedMs.push(runtime.now());
    if (world.isAway) throw new StorageError("The storage is away.");
    return inner.queue.claimNext(...args);
  };
  const capabilities = { durable: false, multiProcess };
  const storage = withMembers<StorageAdapter>(inner, { capabilities, queue: { ...inner.queue, claimNext } });
  const { manager } = managerOn(storage, { runtime });
  /** Returns the polls of the next milliseconds. */
  const looks = async (ms: number) => {
    await runtime.advance(ms);
    return lookedMs.splice(0);
  };
  return { manager, storage, runtime, looks, world, worker: working(manager, () => 1) };
}

it.each(Object.entries(STORAGES))("workers run what is enqueued, each task once (%s)", async (_, open) => {
  const storage = await open();
  const { manager } = managerOn(storage);
  const ran: number[] = [];
  for (let n = 0; n < 6; n += 1) expect(await manager.enqueue(`q/${n}`, { n })).toBe(true);
  expect(await manager.enqueue("q/3", { n: 3 })).toBe(false);
  await expect(manager.enqueue("q/3", { n: 4 })).rejects.toMatchObject({ code: "RUN_MISMATCH" });
  await manager.save("q/saved", { no: "run" });
  await manager.enqueue("other/1", {});
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(6);
  expect((await manager.latest("q/0"))?.status).toBe("paused");
  const other = managerOn(storage).manager;
  const all = Promise.all([ends(manager, "completed", 3), ends(other, "completed", 3)]);
  const fn: Fn = async (run) => {
    const { n } = run.input as { n: number };
    await run.step("work", () => ran.push(n));
    // Each worker runs three tasks, so neither is idle.
    if (ran.length === 6) gate.resolve();
    await run.step("gate", () => gate.promise);
  };
  const gate = deferred<void>();
  const workers = [working(manager, fn, { concurrency: 3 }), working(other, fn, { concurrency: 3 })];
  await all;
  for (const { drain, errors } of workers) {
    await drain();
    expect(errors).toEqual([]);
  }
  expect(ran.toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
  expect(await manager.enqueue("q/3", { n: 3 })).toBe(false);
  expect((await manager.latest("q/saved"))?.status).toBe("running");
  expect((await manager.latest("other/1"))?.status).toBe("paused");
  expect(await held(storage)).toEqual([]);
  await storage.close();
});

it("a drained worker pauses its runs, and another one continues them", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const begun = deferred<void>();
  const ran: string[] = [];
  const first = working(manager, async (run) => {
    await run.step("a", () => ran.push("a"));
    await run.step("b", async ({ signal }) => {
      begun.resolve();
      if (!signal.aborted) await once(signal, "abort");
      throw signal.reason;
    });
  });
  await begun.promise;
  await first.drain();
  expect((await manager.latest("q/t"))?.status).toBe("paused");
  expect(await held(storage)).toEqual([]);
  const other = managerOn(storage).manager;
  const completed = ends(other, "completed");
  const second = working(other, async (run) => {
    await run.step("a", () => ran.push("a"));
    await run.step("b", () => ran.push("b"));
  });
  await completed;
  await second.drain();
  expect(ran).toEqual(["a", "b"]);
});

it("a worker that is drained right after a claim releases the claimed tasks, and begins none", async () => {
  const storage = new MemoryAdapter();
  const draining = new AbortController();
  const claimed: string[] = [];
  const { queue } = storage;
  const drainsAfterClaim: TaskQueue = {
    ...queue,
    claimNext: async (...args) => {
      const tasks = await queue.claimNext(...args);
      claimed.push(...tasks.map(({ taskId }) => taskId));
      draining.abort();
      return tasks;
    },
  };
  const { manager } = managerOn(Object.assign(storage, { queue: drainsAfterClaim }));
  for (let n = 1; n <= 20; n += 1) await manager.enqueue(`q/${n}`);
  const started: string[] = [];
  manager.on("runStarted", ({ taskId }) => started.push(taskId));
  await manager.work({ prefix: "q/", concurrency: 20, signal: draining.signal }, () => undefined);
  // Other workers get the rest.
  expect(claimed).toHaveLength(16);
  expect(started).toEqual([]);
  expect(await manager.queue({ prefix: "q/" })).toMatchObject({ tasks: 20 });
});

it("a worker that was suspended after a claim, while another process completed the task, has lost its lease", async () => {
  const storage = new MemoryAdapter();
  const { manager: other } = managerOn(storage);
  await other.enqueue("q/t");
  const { queue, leases } = storage;
  const suspendedAfterClaim: TaskQueue = {
    ...queue,
    claimNext: async (...args) => {
      const tasks = await queue.claimNext(...args);
      for (const { taskId, token } of tasks) {
        // Releases the lease as if it had expired.
        await leases.release(taskId, token);
        await other.run(taskId, () => "done");
      }
      return tasks;
    },
  };
  const { manager } = managerOn(withMembers<StorageAdapter>(storage, { queue: suspendedAfterClaim }));
  const told = deferred<unknown>();
  const worker = working(manager, () => "again", { onError: told.resolve });
  expect(await told.promise).toMatchObject({ code: "LEASE_LOST" });
  await worker.drain();
  expect(await other.run("q/t", () => "again")).toBe("done");
});

it("many tasks at once cause no warning about listeners", async () => {
  const { manager } = managerOn();
  const [tasks, warnings] = [12, [] as string[]];
  const warn = ({ message }: Error) => warnings.push(message);
  process.on("warning", warn);
  const gate = deferred<void>();
  for (let n = 0; n < tasks; n += 1) await manager.enqueue(`q/${n}`);
  const completed = ends(manager, "completed", tasks);
  let begun = 0;
  const worker = working(
    manager,
    (run) =>
      run.step("gate", () => {
        begun += 1;
        if (begun === tasks) gate.resolve();
        return gate.promise;
      }),
    { concurrency: tasks },
  );
  await completed;
  await worker.drain();
  process.off("warning", warn);
  expect(warnings).toEqual([]);
});

it("a worker that restarts a run of another version keeps its input", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t", { to: "ada" });
  const isOld = manager.run("q/t", () => Promise.reject(new Error("stop")), { version: 1 });
  await expect(isOld).rejects.toThrow("stop");
  await manager.retry("q/t");
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) => run.input, { version: 2, ifVersionChanged: "restart" });
  await completed;
  expect(await manager.result("q/t")).toEqual({ to: "ada" });
  await worker.drain();
  expect(await manager.run("q/t", (run) => run.input, { restart: true })).toEqual({ to: "ada" });
  expect(await manager.run("q/t", (run) => run.input, { restart: true, input: 7 })).toBe(7);
});

it("a run of another version is left to others, and the worker continues", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const controller = new AbortController();
  const begun = manager.run("q/old", (run) => run.step("a", () => controller.abort()), {
    version: 1,
    signal: controller.signal,
  });
  await expect(begun).rejects.toMatchObject({ code: "RUN_PAUSED" });
  await manager.enqueue("q/new");
  const completed = ends(manager, "completed");
  const worker = working(manager, () => 1, { version: 2 });
  expect(await completed).toEqual(["q/new"]);
  // The worker's next polls skip the old task, and a worker of the old version gets it.
  await untilLooked(manager);
  expect((await manager.latest("q/old"))?.status).toBe("paused");
  const old = managerOn(storage).manager;
  const ended = ends(old, "completed");
  const other = working(old, (run) => run.step("a", () => 1), { version: 1 });
  expect(await ended).toEqual(["q/old"]);
  for (const { drain } of [worker, other]) await drain();
  expect(worker.errors).toMatchObject([{ code: "RUN_MISMATCH" }]);
  expect(other.errors).toEqual([]);
});

it("a task whose start can't be saved is taken again after half a minute", async () => {
  const clock = { nowMs: Date.now() };
  const { manager, storage } = managerOn(new MemoryAdapter(), { clock: () => clock.nowMs });
  await manager.enqueue("q/t");
  const append = storage.append.bind(storage);
  let starts = 0;
  storage.append = async (draft, ...how) => {
    if (draft.taskId !== "q/t") return append(draft, ...how);
    starts += 1;
    throw new StorageError("The file would be too large.");
  };
  const stopped = ends(manager, "stopped");
  const worker = working(manager, () => 1);
  await stopped;
  await untilLooked(manager);
  expect(starts).toBe(1);
  storage.append = append;
  clock.nowMs += 30_000;
  const completed = ends(manager, "completed");
  expect(await completed).toEqual(["q/t"]);
  await worker.drain();
});

it("a worker continues its task once its storage is back, though the lease expired meanwhile", async () => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance", "hrtime"],
  });
  onTestFinished(() => void vi.useRealTimers());
  const storage = new MemoryAdapter();
  let isAway = false;
  const away = () => {
    if (isAway) throw new StorageError("The storage is away.", { retryable: true });
  };
  const { renew } = storage.leases;
  storage.leases.renew = async (...args) => {
    away();
    return renew.call(storage.leases, ...args);
  };
  const { claimNext } = storage.queue;
  storage.queue.claimNext = async (...args) => {
    away();
    return claimNext.call(storage.queue, ...args);
  };
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const begun = deferred<void>();
  const stopped = ends(manager, "stopped");
  const completed = ends(manager, "completed");
  const worker = working(
    manager,
    (run) =>
      run.step("step", ({ signal }) => {
        begun.resolve();
        return run.attempt === 2 ? [] : once(signal, "abort");
      }),
    { leaseOptions: { ttlMs: 2000 } },
  );
  await begun.promise;
  isAway = true;
  await vi.advanceTimersByTimeAsync(2500);
  isAway = false;
  await stopped;
  await vi.advanceTimersByTimeAsync(2000);
  expect(await completed).toEqual(["q/t"]);
  await worker.drain();
});

it("a task whose checkpoint can't be read for the moment is taken again after a second, not sooner", async () => {
  const clock = { nowMs: Date.now() };
  const { manager, storage } = managerOn(new MemoryAdapter(), { clock: () => clock.nowMs });
  await manager.enqueue("q/t");
  const read = storage.read.bind(storage);
  const failed = deferred<void>();
  let reads = 0;
  storage.read = (query) => {
    if (query.taskId !== "q/t") return read(query);
    reads += 1;
    throw new StorageError("Too many files are open.", { retryable: true });
  };
  const worker = working(manager, () => 1, { onError: () => failed.resolve() });
  await failed.promise;
  await untilLooked(manager);
  expect(reads).toBe(1);
  storage.read = read;
  clock.nowMs += 1000;
  expect(await ends(manager, "completed")).toEqual(["q/t"]);
  await worker.drain();
});

it("a task whose end can't be saved isn't run again at once", async () => {
  const { manager, storage } = managerOn();
  await manager.enqueue("q/t");
  await manager.run("q/t", (run) => run.step("a", () => 1), { signal: AbortSignal.abort() }).catch(() => undefined);
  const append = storage.append.bind(storage);
  storage.append = async (draft, ...how) => {
    if (draft.status === "failed") throw new StorageError("The record is refused.");
    return append(draft, ...how);
  };
  let attempts = 0;
  const told = deferred<unknown>();
  const worker = working(
    manager,
    (run) => {
      if (run.taskId !== "q/t") return;
      attempts += 1;
      throw new Error("no answer");
    },
    { onError: told.resolve },
  );
  expect(await told.promise).toMatchObject({ message: "no answer" });
  await untilLooked(manager);
  await worker.drain();
  expect(attempts).toBe(1);
});

it("a storage without a queue refuses workers", async () => {
  const storage = new MemoryAdapter();
  Reflect.set(storage, "queue", undefined);
  const { manager } = managerOn(storage);
  const refused = { code: "UNSUPPORTED_OPERATION", message: expect.stringContaining("has no queue") };
  await expect(manager.work({ prefix: "q/" }, () => 1)).rejects.toMatchObject(refused);
  await expect(manager.queue({ prefix: "q/" })).rejects.toMatchObject(refused);
});

it("a worker with many runs at once causes no warning about listeners", async () => {
  const { manager } = managerOn();
  const warnings: unknown[] = [];
  const note = (warning: unknown) => warnings.push(warning);
  process.on("warning", note);
  for (let n = 0; n < 30; n += 1) await manager.enqueue(`q/${n}`);
  const completed = ends(manager, "completed", 30);
  const gate = deferred<void>();
  let begun = 0;
  const worker = working(
    manager,
    (run) =>
      run.step("gate", () => {
        begun += 1;
        if (begun === 30) gate.resolve();
        return gate.promise;
      }),
    { concurrency: 30 },
  );
  await completed;
  await worker.drain();
  // Node emits warnings in a later turn.
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", note);
  expect(warnings).toEqual([]);
});

it("a worker's options are checked", async () => {
  const { manager } = managerOn();
  await expect(manager.work({ prefix: "" }, () => 1)).rejects.toThrow(/needs a prefix/);
  // @ts-expect-error A misspelled option.
  await expect(manager.work({ prefix: "q/", concurency: 2 }, () => 1)).rejects.toThrow(/concurency/);
  await expect(manager.work({ prefix: "q/", concurrency: 0 }, () => 1)).rejects.toThrow(RangeError);
  await expect(manager.work({ prefix: "q/", leaseOptions: { ttlMs: 1 } }, () => 1)).rejects.toThrow(RangeError);
});

it("close drains the workers of the manager", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const waits = new Promise((resolve) => manager.on("waitStarted", resolve));
  const worker = working(manager, (run) => run.waitFor("never"));
  await waits;
  await manager.close();
  await worker.ended;
  expect(await held(storage)).toEqual([]);
});

it("a worker looks after growing pauses while its storage is away, and then as often as before", async () => {
  const { looks, world, worker } = lookingWorker(true, true);
  expect(await looks(35_500)).toEqual([0, 500, 1500, 3500, 7500, 15_500, 25_500, 35_500]);
  world.isAway = false;
  expect(await looks(10_250)).toEqual([45_500, 45_750]);
  world.isAway = true;
  expect(await looks(1750)).toEqual([46_000, 46_500, 47_500]);
  await worker.drain();
});

it("in a storage of this process alone, an idle worker looks when something has changed or is due", async () => {
  const { manager, storage, runtime, looks, worker } = lookingWorker(false);
  expect(await looks(60_500)).toEqual([0, 60_250]);
  const other = managerOn(storage, { runtime }).manager;
  await other.enqueue("q/later", undefined, { dueAt: new Date(62_000) });
  expect(await looks(1400)).toEqual([60_500]);
  expect(await looks(200)).toEqual([62_000, 62_000]);
  expect(await manager.result("q/later")).toBe(1);
  await worker.drain();
});

it("an idle worker takes a task as soon as its holder has released it", async () => {
  const { manager, storage, runtime, looks, worker } = lookingWorker(false);
  await looks(1000);
  const other = managerOn(storage, { runtime }).manager;
  const lease = await other.lease("q/t");
  await other.enqueue("q/t");
  await looks(5000);
  await lease.release();
  await runtime.settle();
  expect(await manager.result("q/t")).toBe(1);
  expect(runtime.now()).toBe(6000);
  await worker.drain();
});

it("a task isn't overlooked that is enqueued while an idle worker asks when the next one is due", async () => {
  const runtime = new SimulatedRuntime({ startAt: new Date(0) });
  const inner = new MemoryAdapter({ runtime });
  const other = managerOn(inner, { runtime }).manager;
  let isEnqueued = false;
  const count: TaskQueue["count"] = async (query) => {
    const counted = await inner.queue.count(query);
    if (!isEnqueued) {
      isEnqueued = true;
      await other.enqueue("q/t");
    }
    return counted;
  };
  const storage = withMembers<StorageAdapter>(inner, { queue: { ...inner.queue, count } });
  const { manager } = managerOn(storage, { runtime });
  const worker = working(manager, () => 1);
  await runtime.advance(500);
  expect(await manager.result("q/t")).toBe(1);
  await worker.drain();
});

it("a worker reads the records of an enqueued task once before its first attempt", async () => {
  const inner = new MemoryAdapter();
  const reads: string[] = [];
  const storage = withMembers<StorageAdapter>(inner, {
    log: withMembers(inner.log, {
      read(query) {
        reads.push(`log: ${query.kinds}`);
        return inner.log.read(query);
      },
    }),
    read(query) {
      reads.push("checkpoints");
      return inner.read(query);
    },
  });
  const { manager } = managerOn(storage);
  await manager.enqueue("q/1");
  reads.length = 0;
  const ended = ends(manager, "completed");
  const { drain } = working(manager, (run) => run.step("one", () => 1));
  await ended;
  await drain();
  expect(reads).toEqual(["checkpoints", "log: step,run,mark"]);
});
