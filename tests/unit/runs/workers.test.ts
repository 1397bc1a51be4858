// enqueue, work, queue, cancel and retry.
import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { CheckpointManager, Run, RunFunction, StorageAdapter, WorkOptions } from "waymark";
import { StorageError } from "waymark";
import type { TaskQueue } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { NEVER, readWaits } from "../../../src/contract/transient.js";
import { deferred } from "../../support/deferred.js";
import { shortenPauses, stopTimeouts } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { dyingAfter, managerOn, runOf, STORAGES, withWrites } from "./run-support.js";

type Fn = RunFunction<unknown, unknown, unknown, never>;

beforeEach(shortenPauses);

/** Starts a worker. `until` resolves once a task's newest checkpoint has the status, then the worker can be drained. */
function working(manager: CheckpointManager, fn: Fn, options: Partial<WorkOptions> = {}) {
  const controller = new AbortController();
  const errors: unknown[] = [];
  const ended = manager.work(
    {
      prefix: "q/",
      signal: controller.signal,
      pauseOnSignal: false,
      onError: (error) => errors.push(error),
      ...options,
    },
    fn as RunFunction<unknown, unknown, unknown, unknown>,
  );
  const drain = async () => {
    controller.abort();
    await ended;
  };
  return { errors, drain, ended };
}

/** Resolves once so many runs have ended with the status. */
function ends(manager: CheckpointManager, status: string, count = 1): Promise<string[]> {
  const found: string[] = [];
  return new Promise((resolve) => {
    const note = (is: string, taskId: string) => {
      if (is === status) found.push(taskId);
      if (found.length === count) resolve(found);
    };
    manager.on("runEnded", (run) => note(run.status, run.taskId));
    manager.on("runPaused", (run) => note("paused", run.taskId));
  });
}

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

async function held(storage: StorageAdapter): Promise<string[]> {
  const found: string[] = [];
  for await (const { taskId } of storage.leases?.held() ?? []) found.push(taskId);
  return found;
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

it.each(Object.entries(STORAGES))("a run lets go of its worker while it waits (%s)", async (_, open) => {
  const storage = await open();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const paused = ends(manager, "paused");
  const completed = ends(manager, "completed");
  const worker = working(manager, async (run) => {
    const first = await run.waitFor("approve");
    await run.sleepUntil("a moment", new Date(0));
    return first.value;
  });
  await paused;
  const newest = await manager.latest("q/t");
  expect(newest).toMatchObject({ status: "paused", label: 'Run waits for "approve"' });
  expect(newest && readWaits(newest)).toEqual({ dueAt: NEVER, waitsFor: ["approve"] });
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(0);
  await managerOn(storage).manager.send("q/t", "other");
  expect((await manager.latest("q/t"))?.status).toBe("paused");
  await managerOn(storage).manager.send("q/t", "approve", "yes");
  await completed;
  expect((await runOf(manager, "q/t"))?.result).toBe("yes");
  await worker.drain();
  await storage.close();
});

it("a run that sleeps beside a wait without a limit is due at the sleep's end", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const paused = ends(manager, "paused");
  const night = new Date(Date.UTC(9000, 0));
  const later = new Date(Date.UTC(9001, 0));
  const worker = working(manager, (run) =>
    Promise.all([run.waitFor("approve"), run.sleepUntil("later", later), run.sleepUntil("night", night)]),
  );
  await paused;
  await worker.drain();
  const newest = await manager.latest("q/t");
  expect(newest && readWaits(newest)).toEqual({ dueAt: night.toISOString(), waitsFor: ["approve"] });
});

it.each(["before", "after"])("an event that comes right %s the record of a pause makes the run due", async (when) => {
  const inner = new MemoryAdapter();
  const sender = managerOn(inner).manager;
  let sent = 0;
  const append: StorageAdapter["append"] = async (...args) => {
    const isFirst = args[0].label?.startsWith("Run waits") && sent === 0;
    if (isFirst) sent += 1;
    if (isFirst && when === "before") await sender.send("q/t", "approve", 7);
    const sequence = await inner.append(...args);
    if (isFirst && when === "after") await sender.send("q/t", "approve", 7);
    return sequence;
  };
  const { manager } = managerOn(withMembers(inner, { append }));
  await sender.enqueue("q/t");
  const completed = ends(manager, "completed");
  const worker = working(manager, async (run) => (await run.waitFor("approve")).value);
  await completed;
  await worker.drain();
  expect(await manager.result("q/t")).toBe(7);
  expect(await manager.events("q/t")).toMatchObject([{ status: "received" }]);
});

it("a run whose waits look for events all the time still lets go of its worker", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const paused = ends(manager, "paused");
  const waiting = new Promise((resolve) => manager.on("waitStarted", resolve));
  const worker = working(manager, (run) => Promise.all([run.waitFor("a"), run.waitFor("b")]));
  await waiting;
  let isPaused = false;
  void paused.then(() => {
    isPaused = true;
  });
  // The same event again and again, for which nothing waits, ends each pause between two looks.
  while (!isPaused) {
    await manager.send("q/t", "other", 1, { id: "once" });
    await nextTurn();
  }
  expect(await paused).toEqual(["q/t"]);
  await worker.drain();
});

it("a sleeping run is due at its time", async () => {
  const clock = { nowMs: Date.UTC(2026, 0, 1) };
  const { manager } = managerOn(new MemoryAdapter(), { clock: () => clock.nowMs });
  await manager.enqueue("q/t", undefined, { dueAt: new Date(clock.nowMs + 1000) });
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(0);
  clock.nowMs += 1000;
  expect(await manager.queue({ prefix: "q/" })).toEqual({ tasks: 1, oldestDueAt: "2026-01-01T00:00:01.000Z" });
  const paused = ends(manager, "paused");
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) => run.sleepUntil("night", new Date(Date.UTC(2026, 0, 2))));
  await paused;
  clock.nowMs = Date.UTC(2026, 0, 2);
  await completed;
  await worker.drain();
});

it("a run doesn't let go of its worker while a step beside the wait is under way", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const step = deferred<void>();
  const waiting = new Promise((resolve) => manager.on("waitStarted", resolve));
  const pauses: string[] = [];
  manager.on("runPaused", ({ taskId }) => pauses.push(taskId));
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) => Promise.all([run.step("long", () => step.promise), run.waitFor("go")]));
  await waiting;
  await manager.send("q/t", "go");
  await new Promise((resolve) => manager.on("waitEnded", resolve));
  step.resolve();
  await completed;
  expect(pauses).toEqual([]);
  await worker.drain();
});

it("a run that throws is failed, is not tried again, and retry puts it back", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  let fails = true;
  const failed = ends(manager, "failed");
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) =>
    run.step("act", () => {
      if (fails) throw new Error("no disk");
    }),
  );
  await failed;
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(0);
  fails = false;
  expect(await manager.retry("q/t")).toBe(1);
  await completed;
  expect(await manager.retry("q/t")).toBe(0);
  await worker.drain();
  expect(worker.errors).toMatchObject([{ message: "no disk" }]);
});

it("retry of a prefix puts the failed tasks back, and leaves cancelled ones", async () => {
  const { manager } = managerOn();
  const fail = () => Promise.reject(new Error("no"));
  for (const taskId of ["q/a", "q/b", "q/c"]) await expect(manager.run(taskId, fail)).rejects.toThrow("no");
  await manager.cancel("q/c", "not needed");
  expect(await manager.retry({ prefix: "q/" })).toBe(2);
  expect((await manager.latest("q/a"))?.error?.message).toBe("no");
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(2);
  await expect(manager.retry("q/c")).rejects.toMatchObject({ code: "RUN_CANCELLED" });
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
        // As if it had expired.
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

/** Runs an attempt of the task that ends after its start is recorded, as if its process was killed there. */
async function killedOnce(storage: MemoryAdapter, maxAttempts = 5): Promise<void> {
  const { manager } = managerOn(dyingAfter(0, storage));
  const stopped = ends(manager, "stopped");
  const worker = working(manager, (run) => run.step("first", () => 1), { maxAttempts });
  await stopped;
  await worker.drain();
}

it.each<[string, (manager: CheckpointManager, run: Run, steps: (run: Run) => Promise<void>) => Promise<void>]>([
  ["it", (_, run, steps) => steps(run)],
  [
    "a run within it",
    (manager, run, steps) => run.step("inner", () => manager.run("q/inner", (inner) => steps(inner))),
  ],
])("a task that may have ended its last workers runs alone until %s has recorded a step", async (_, record) => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/poison-1");
  for (let n = 0; n < 3; n += 1) await killedOnce(storage);
  // It is due after the poison task.
  await manager.enqueue("q/u");
  const order: string[] = [];
  const other = deferred<void>();
  const completed = ends(manager, "completed", 2);
  const worker = working(
    manager,
    async (run) => {
      if (run.taskId === "q/u") {
        order.push("other begins");
        other.resolve();
        return;
      }
      await record(manager, run as Run, async (its) => {
        await its.step("first", async () => {
          // The worker has time to begin the other task.
          for (let turn = 0; turn < 100; turn += 1) await nextTurn();
          order.push("poison saves");
        });
        await its.step("long", () => other.promise);
      });
    },
    { concurrency: 2 },
  );
  await completed;
  expect(order).toEqual(["poison saves", "other begins"]);
  await worker.drain();
});

it.each([
  ["first", ["q/poison", "q/a", "q/b"]],
  ["last", ["q/a", "q/b", "q/poison"]],
])(
  "a task that crashes each of its workers ends the attempts beside it three times, and fails (due %s)",
  async (_, due) => {
    const storage = new MemoryAdapter();
    const { manager } = managerOn(storage);
    for (const taskId of due) await manager.enqueue(taskId);
    const crashes: string[][] = [];
    while ((await manager.latest("q/poison"))?.status !== "failed") {
      const [running, over] = [new Set<string>(), deferred()];
      let isDead = false;
      const mortal = withWrites(storage, async (call) => {
        if (isDead) throw new StorageError("The process was killed.");
        return call();
      });
      const runner = managerOn(mortal).manager;
      const failed = ends(runner, "failed");
      const worker = working(
        runner,
        async (run) => {
          running.add(run.taskId);
          await run.step("first", async () => {
            // The worker has time to begin other tasks.
            for (let turn = 0; turn < 100; turn += 1) await nextTurn();
            if (run.taskId === "q/poison") {
              isDead = true;
              crashes.push([...running].sort());
              over.resolve();
            } else if (running.has("q/poison")) await over.promise;
          });
          running.delete(run.taskId);
        },
        { concurrency: 3 },
      );
      await Promise.race([over.promise, failed]);
      await worker.drain();
    }
    const together = ["q/a", "q/b", "q/poison"];
    expect(crashes).toEqual([together, together, together, ["q/poison"], ["q/poison"]]);
    const last = working(manager, (run) => run.step("first", () => 1), { concurrency: 3 });
    await Promise.all(["q/a", "q/b"].map((taskId) => manager.result(taskId)));
    await last.drain();
  },
);

it("a run that ends its workers without progress is failed after so many attempts", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const fn: Fn = (run) => run.step("first", () => 1);
  await manager.enqueue("q/t");
  for (let n = 0; n < 2; n += 1) await killedOnce(storage, 3);
  const completed = ends(manager, "completed");
  const second = working(manager, fn, { maxAttempts: 3 });
  await completed;
  await second.drain();

  await manager.enqueue("q/u");
  for (let n = 0; n < 3; n += 1) await killedOnce(storage, 3);
  const failed = ends(manager, "failed");
  const last = working(manager, fn, { maxAttempts: 3 });
  expect(await failed).toEqual(["q/u"]);
  await last.drain();
  expect(await manager.latest("q/u")).toMatchObject({
    status: "failed",
    error: { name: "AttemptsError", message: expect.stringContaining("3 attempts in a row") },
  });
  // The failure itself counts as a save.
  await manager.retry("q/u");
  const again = ends(manager, "completed");
  const worker = working(manager, fn, { maxAttempts: 3 });
  await again;
  await worker.drain();
});

it.each<[string, (run: Run, render: () => void) => unknown]>([
  ["a step", async (run, render) => [await run.step("plan", () => 1), await run.step("render", render)]],
  ["a turn", (run, render) => (run.state === undefined ? run.next(1) : run.step("render", render))],
])("a task that keeps crashing its worker after %s names the step that was running", async (_, program) => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  // The first attempt makes progress, so it doesn't count.
  for (let n = 0; n < 3; n += 1) {
    // The process dies in the step, so its result can't be stored.
    let isRunning = false;
    const mortal = withWrites(storage, async (call) => {
      if (isRunning) throw new StorageError("The process was killed.");
      return call();
    });
    const runner = managerOn(mortal).manager;
    const render = () => {
      isRunning = true;
    };
    await expect(runner.run("q/t", (run) => program(run as Run, render))).rejects.toThrow("killed");
  }
  const failed = ends(manager, "failed");
  const worker = working(manager, (run) => run.step("render", () => 1), { maxAttempts: 2 });
  await failed;
  await worker.drain();
  const newest = await manager.latest("q/t");
  expect(newest?.label).toBe("Run failed in render");
  expect(newest?.error?.message).toMatch(/^2 attempts .* The last one ended in step "render"/);
  expect((await runOf(manager, "q/t"))?.steps.at(-1)).toMatchObject({ name: "render", status: "started" });
});

it("retry from a step drops its result and the later ones, and keeps those before it and the keys", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const keys = new Map<string, Set<string>>();
  let isMended = false;
  const program = () =>
    manager.run("t", async (run) => {
      for (const name of ["load", "plan", "plan", "apply"]) {
        await run.step(name, ({ key }) => {
          ran.push(name);
          keys.set(key, (keys.get(key) ?? new Set()).add(name));
          if (name === "apply" && !isMended) throw new Error("no");
        });
      }
    });
  await expect(program()).rejects.toThrow("no");
  await expect(manager.retry("t", { from: "nothing" })).rejects.toMatchObject({
    code: "RUN_MISMATCH",
    message: expect.stringMatching(/no recorded step "nothing".*"load", "plan", "plan 2"/),
  });
  await expect(manager.retry({ prefix: "t" }, { from: "plan" })).rejects.toThrow(TypeError);
  expect(await manager.retry("t", { from: "plan 2" })).toBe(1);
  isMended = true;
  ran.length = 0;
  await program();
  expect(ran).toEqual(["plan", "apply"]);
  expect(keys.size).toBe(4);
});

it("retry from a step drops a milestone of run.save after the last step, too", async () => {
  const { manager } = managerOn();
  let isMended = false;
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("plan", () => 1);
      await run.save({}, { stage: "planned" });
      if (!isMended) throw new Error("no");
    });
  await expect(program()).rejects.toThrow("no");
  await manager.retry("t", { from: "plan" });
  isMended = true;
  await program();
  expect(await manager.list("t", { stage: "planned", status: ["running"] })).toHaveLength(2);
});

it("retry can begin with the step that failed, or that was running when its worker ended", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("load", () => ran.push("load"));
      await run.save("half", { stage: "half" });
      await run.step("plan", () => {
        ran.push("plan");
        if (ran.length < 3) throw new Error("no");
      });
    });
  await expect(program()).rejects.toThrow("no");
  await expect(manager.retry("t", { from: "half" })).rejects.toThrow(
    /has no recorded step "half".* It has "load", "plan"\.$/,
  );
  expect(await manager.retry("t", { from: "plan" })).toBe(1);
  await program();
  expect(ran).toEqual(["load", "plan", "plan"]);

  const storage = new MemoryAdapter();
  let isRunning = false;
  const mortal = withWrites(storage, (call) => {
    if (isRunning) throw new StorageError("The process was killed.");
    return call();
  });
  const first = (run: Run) =>
    run.step("first", () => {
      isRunning = true;
    });
  await expect(managerOn(mortal).manager.run("u", first)).rejects.toThrow("killed");
  const other = managerOn(storage).manager;
  await other.fail("u", new Error("by hand"));
  expect(await other.retry("u", { from: "first" })).toBe(1);
  expect(await other.run("u", (run) => run.step("first", () => 2))).toBe(2);
});

it("an answer to a wait that is over doesn't wake the run again and again", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const first = ends(manager, "paused");
  const second = ends(manager, "paused", 2);
  const worker = working(manager, (run) => run.waitFor("approve"));
  await first;
  await manager.send("q/t", "approve", "late", { wait: "of an earlier question", force: true });
  await second;
  const newest = await manager.latest("q/t");
  expect(newest && readWaits(newest)).toEqual({ dueAt: NEVER, waitsFor: ["approve"] });
  expect(await manager.events("q/t")).toMatchObject([{ status: "pending" }]);
  await worker.drain();
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

it("claims that begin no attempt count as none", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  await killedOnce(storage, 2);
  for (let n = 0; n < 5; n += 1) {
    await expect(manager.run("q/t", () => 1, { input: n })).rejects.toMatchObject({ code: "RUN_MISMATCH" });
    await (await manager.lease("q/t")).release();
  }
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) => run.step("first", () => 1), { maxAttempts: 2 });
  await completed;
  await worker.drain();
});

it("a run whose function has ended doesn't wait for its other waits", async () => {
  const { manager } = managerOn();
  await manager.send("a", "approve", 1);
  const first = (run: Run) => Promise.race([run.waitFor("approve"), run.waitFor("reject")]);
  expect((await manager.run("a", first)).value).toBe(1);
  const failing = manager.run("b", (run) =>
    Promise.all([run.step("act", () => Promise.reject(new Error("no disk"))), run.waitFor("never")]),
  );
  await expect(failing).rejects.toThrow("no disk");
  expect((await manager.latest("b"))?.status).toBe("failed");
  const turns = manager.run(
    "c",
    async (run) => {
      const state = run.state ?? { turn: 0 };
      const step = run.step("quick", () => state.turn + 1);
      const turn = await Promise.race([step, run.sleepUntil("night", new Date(Date.UTC(9000, 0))).then(() => 0)]);
      return turn === 3 ? turn : run.next({ turn });
    },
    { initialState: { turn: 0 } },
  );
  expect(await turns).toBe(3);
  await manager.enqueue("q/t");
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) =>
    Promise.race([run.waitFor("approve"), run.sleepUntil("limit", new Date(0))]),
  );
  await completed;
  await worker.drain();
});

it("a run within a run that is paused for its own reason is told, and isn't taken again at once", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const attempts: number[] = [];
  const aborted = AbortSignal.abort(new Error("enough"));
  const told = deferred<unknown>();
  const worker = working(
    manager,
    (run) => {
      if (run.taskId !== "q/t") return 1;
      attempts.push(run.attempt);
      return run.step("child", () => manager.run("child", () => 1, { signal: aborted }));
    },
    { onError: told.resolve },
  );
  expect(await told.promise).toMatchObject({ code: "RUN_PAUSED" });
  await untilLooked(manager);
  await worker.drain();
  expect(attempts).toEqual([1]);
});

it("a checkpoint of somebody else during an attempt leaves the task for the next run", async () => {
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

it("a run that pauses before it knows of its cancellation leaves it as it is, without a warning", async () => {
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
  // Its next looks leave the old one out, and a worker of the old version gets it.
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

it("a run that saves beside its wait lets go of its worker", async () => {
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const paused = ends(manager, "paused");
  const worker = working(manager, async (run) => {
    const answer = run.waitFor("answer");
    await run.save({ isAsked: true });
    return answer;
  });
  expect(await paused).toEqual(["q/t"]);
  await worker.drain();
});

/** Resolves once the worker has looked for tasks after it ran one. */
async function untilLooked(manager: CheckpointManager): Promise<void> {
  const completed = ends(manager, "completed");
  await manager.enqueue("q/next");
  await completed;
}

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
  // Node tells warnings in a later turn.
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

it("a run doesn't let go of its worker if a step begins soon after another one beside the wait", async () => {
  const timeouts = stopTimeouts();
  const { manager } = managerOn();
  await manager.enqueue("q/t");
  const [short, begun, long] = [deferred<void>(), deferred<void>(), deferred<void>()];
  const waiting = new Promise((resolve) => manager.on("waitStarted", resolve));
  const paused = vi.fn();
  manager.on("runPaused", paused);
  const completed = ends(manager, "completed");
  const worker = working(manager, (run) => {
    const steps = async () => {
      await run.step("short", () => short.promise);
      await run.step("long", () => {
        begun.resolve();
        return long.promise;
      });
    };
    return Promise.all([run.waitFor("go"), steps()]);
  });
  await waiting;
  await nextTurn();
  short.resolve();
  await begun.promise;
  // Between the steps, nothing but the wait was under way.
  timeouts.pass(250);
  long.resolve();
  await manager.send("q/t", "go");
  await completed;
  await worker.drain();
  expect(paused).not.toHaveBeenCalled();
});

/** A worker on a storage in memory, and the times at which it has looked for tasks. */
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
  /** The looks of the next milliseconds. */
  const looks = async (ms: number) => {
    await runtime.advance(ms);
    return lookedMs.splice(0);
  };
  return { manager, storage, runtime, looks, world, worker: working(manager, () => 1) };
}

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

/** A storage in which somebody saves a checkpoint of the task right before the first change of a status. */
function savedBetween(inner: MemoryAdapter, taskId: string): StorageAdapter {
  let isSaved = false;
  const setStatus: StorageAdapter["setStatus"] = async (...args) => {
    if (!isSaved) {
      isSaved = true;
      await managerOn(inner).manager.save(taskId, { mine: true });
    }
    return inner.setStatus(...args);
  };
  return withMembers(inner, { setStatus });
}

it("an event leaves the checkpoint of a pause as it is if somebody saves before the event is stored", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.enqueue("q/t");
  const paused = ends(manager, "paused");
  const worker = working(manager, (run) => run.waitFor("go"));
  await paused;
  await worker.drain();
  let isSaved = false;
  const saving = withWrites(storage, async (call) => {
    if (!isSaved) await managerOn(storage).manager.save("q/t", { mine: true });
    isSaved = true;
    return call();
  });
  await managerOn(saving).manager.send("q/t", "go");
  expect(await manager.list("q/t", { limit: 2 })).toMatchObject([{ status: "running" }, { status: "paused" }]);
  expect((await manager.list("q/t", { limit: 2 })).map(({ dueAt }) => dueAt)).toEqual([undefined, NEVER]);
  expect(await manager.events("q/t")).toMatchObject([{ name: "go", status: "pending" }]);
});

it("a run that can't look for events before its pause continues in another worker, and receives them", async () => {
  const inner = new MemoryAdapter();
  let isAway = false;
  const read: typeof inner.log.read = (query) => {
    if (isAway && query.kinds?.includes("event")) throw new StorageError("The storage is away.");
    return inner.log.read(query);
  };
  const { manager } = managerOn(withMembers(inner, { log: { ...inner.log, read } }));
  await managerOn(inner).manager.enqueue("q/t");
  const stopped = new Promise((resolve) => manager.on("runPaused", resolve));
  manager.on("waitStarted", () => {
    isAway = true;
  });
  const first = working(manager, (run) => run.waitFor("approve"));
  await stopped;
  await first.drain();
  await managerOn(inner).manager.send("q/t", "approve", 7);
  const other = managerOn(inner).manager;
  const completed = ends(other, "completed");
  const second = working(other, async (run) => (await run.waitFor("approve")).value);
  await completed;
  await second.drain();
  expect(await other.result("q/t")).toBe(7);
});

it("retry leaves a failed checkpoint as it is if somebody saves before it is put back", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const fail = () => Promise.reject(new Error("no disk"));
  for (const taskId of ["q/a", "q/b"]) await expect(manager.run(taskId, fail)).rejects.toThrow("no disk");
  const retrying = managerOn(savedBetween(storage, "q/a")).manager.retry("q/a");
  await expect(retrying).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
  expect((await manager.list("q/a")).map(({ status }) => status)).toEqual(["running", "failed", "running"]);
  expect(await managerOn(savedBetween(storage, "q/b")).manager.retry({ prefix: "q/" })).toBe(0);
  expect((await manager.list("q/b")).map(({ status }) => status)).toEqual(["running", "failed", "running"]);
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
