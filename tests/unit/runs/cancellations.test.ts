import { beforeEach, expect, it } from "vitest";
import type { RunFunction } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { shortenPauses } from "../../support/stopped-clock.js";
import { managerOn, runOf } from "./run-support.js";
import { ends, type Fn, working } from "./worker-support.js";

beforeEach(shortenPauses);

/** Called at each try of {@link fails}. */
let tried: (value?: unknown) => void;

const fails: Fn = (run) =>
  run.step(
    "flaky",
    () => {
      tried();
      throw new Error("no answer");
    },
    { retry: { times: 9, backoffMs: 60_000 } },
  );

it("a checkpoint of another writer during an attempt leaves the task for the next run", async () => {
  const { manager, storage } = managerOn();
  await manager.enqueue("q/t");
  const stopped = ends(manager, "stopped");
  const worker = working(manager, async (run) => {
    await managerOn(storage).manager.save("q/t", { mine: true });
    await run.step("a", () => 1);
  });
  await stopped;
  await worker.drain();
  expect(worker.errors).toMatchObject([{ code: "CHECKPOINT_CONFLICT" }]);
  expect(await manager.enqueue("q/t")).toBe(true);
  expect((await manager.latest("q/t"))?.state).toEqual({ mine: true });
});

it("cancel takes a task from its runner, which stops, and the task runs again only with restart", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const begun = deferred<void>();
  const go = deferred<void>();
  const running = manager.run("t", async (run) => {
    await run.step("a", () => 1);
    await run.step("b", async () => {
      begun.resolve();
      await go.promise;
    });
  });
  const stopped = expect(running).rejects.toMatchObject({ code: "RUN_CANCELLED" });
  await begun.promise;
  expect(await managerOn(storage).manager.cancel("t", "ada: wrong input")).toBe(1);
  go.resolve();
  await stopped;
  const newest = await manager.latest("t");
  expect(newest).toMatchObject({ status: "failed", error: { message: "ada: wrong input" } });
  expect((await runOf(manager, "t"))?.steps.map(({ name }) => name)).toEqual(["a"]);
  expect(await manager.leaseOf("t")).toBeUndefined();
  await expect(manager.run("t", () => 1)).rejects.toMatchObject({
    code: "RUN_CANCELLED",
    message: expect.stringContaining("ada: wrong input"),
  });
  await expect(manager.enqueue("t")).rejects.toMatchObject({ code: "RUN_CANCELLED" });
  expect(await manager.findIncomplete()).toEqual([]);
  expect(await manager.cancel("t", "again")).toBe(0);
  expect(await manager.run("t", () => 1, { restart: true })).toBe(1);
  await expect(manager.cancel("t", "late")).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
});

it.each(["the runner's own manager", "another one"])(
  "%s cancels: the step's signal says so, with the reason",
  async (who) => {
    const storage = new MemoryAdapter();
    const { manager } = managerOn(storage);
    const canceller = who === "another one" ? managerOn(storage).manager : manager;
    await using lease = await manager.lease("t", { ttlMs: 100 });
    const [begun, stopped] = [deferred(), deferred<unknown>()];
    const running = manager.run(
      "t",
      (run) =>
        run.step("a", async ({ signal }) => {
          signal.addEventListener("abort", () => stopped.resolve(signal.reason));
          begun.resolve();
          await stopped.promise;
        }),
      { lease },
    );
    const cancelled = { code: "RUN_CANCELLED", message: expect.stringContaining("was cancelled: ada: wrong input") };
    const rejected = expect(running).rejects.toMatchObject(cancelled);
    await begun.promise;
    await canceller.cancel("t", "ada: wrong input");
    expect(await stopped.promise).toMatchObject(cancelled);
    await rejected;
    expect(lease.signal.reason).toMatchObject(cancelled);
    await expect(manager.save("t", {}, { lease })).rejects.toMatchObject(cancelled);
    expect((await manager.latest("t"))?.error).toMatchObject({ code: "RUN_CANCELLED", message: "ada: wrong input" });
  },
);

it.each<[string, Fn]>([
  ["the pause before a retry", fails],
  ["a sleep", (run) => run.sleepUntil("later", new Date(Date.now() + 3_600_000))],
  ["a wait for an event", (run) => run.waitFor("approve")],
])("cancel ends %s, from the runner's own manager and from another one", async (_, fn) => {
  const storage = new MemoryAdapter();
  const [own, other] = [managerOn(storage).manager, managerOn(storage).manager];
  for (const canceller of [own, other]) {
    const pausing = new Promise((resolve) => {
      own.on("waitStarted", resolve);
      tried = resolve;
    });
    await using lease = await own.lease("t", { ttlMs: 100 });
    const running = own.run("t", fn as RunFunction<unknown, unknown, unknown, unknown>, { restart: true, lease });
    const stopped = expect(running).rejects.toMatchObject({ code: "RUN_CANCELLED" });
    await pausing;
    expect(await canceller.cancel("t", "ada: wrong input")).toBe(1);
    await stopped;
  }
});

it("a run that pauses before it notices its cancellation leaves the cancellation unchanged, without a warning", async () => {
  const storage = new MemoryAdapter();
  const { manager, logger } = managerOn(storage);
  const controller = new AbortController();
  const paused = manager.run(
    "t",
    (run) =>
      run.step("a", async () => {
        await managerOn(storage).manager.cancel("t", "ada: wrong input");
        controller.abort();
      }),
    { signal: controller.signal },
  );
  await expect(paused).rejects.toMatchObject({ code: "RUN_PAUSED" });
  expect(logger.lines.filter(({ level }) => level === "warn")).toEqual([]);
  expect(await manager.latest("t")).toMatchObject({ status: "failed", error: { message: "ada: wrong input" } });
});

it("findIncomplete with a limit reads few times, however many tasks it leaves out", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("live");
  for (let n = 0; n < 100; n += 1) await manager.enqueue(`old/${n}`);
  await manager.cancel({ prefix: "old/" }, "ada: not needed");
  const tasks = storage.tasks.bind(storage);
  let reads = 0;
  storage.tasks = (query) => {
    reads += 1;
    return tasks(query);
  };
  expect((await manager.findIncomplete({ limit: 1 })).map(({ taskId }) => taskId)).toEqual(["live"]);
  expect(reads).toBeLessThan(10);
});

it("cancel of a prefix leaves out a task that is completed meanwhile", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  for (const taskId of ["q/a", "q/b", "q/c"]) await manager.enqueue(taskId);
  const claim = storage.leases.claim.bind(storage.leases);
  storage.leases.claim = async (taskId, ...args) => {
    if (taskId === "q/b") await manager.complete("q/b");
    return claim(taskId, ...args);
  };
  expect(await manager.cancel({ prefix: "q/" }, "stop all")).toBe(2);
  expect((await manager.tasks({ prefix: "q/" })).map(({ newest }) => newest.status)).toEqual([
    "failed",
    "completed",
    "failed",
  ]);
});

it("cancel of a prefix takes the incomplete tasks, and a parent isn't cancelled by its child's error", async () => {
  const { manager } = managerOn();
  await manager.run("q/done", () => 1);
  await manager.enqueue("q/a");
  await manager.enqueue("q/b");
  await manager.enqueue("other");
  expect(await manager.cancel({ prefix: "q/" }, "stop all")).toBe(2);
  expect((await manager.latest("other"))?.status).toBe("paused");
  const parent = () => manager.run("parent", (run) => run.step("child", () => manager.run("q/a", () => 1)));
  await expect(parent()).rejects.toMatchObject({ code: "RUN_CANCELLED" });
  expect(await manager.retry("parent")).toBe(1);
});
