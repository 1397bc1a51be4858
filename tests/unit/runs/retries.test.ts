import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeEach, expect, it } from "vitest";
import type { CheckpointManager, Run, StorageAdapter } from "waymark";
import { StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { shortenPauses } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { dyingAfter, managerOn, runOf, withWrites } from "./run-support.js";
import { ends, type Fn, working } from "./worker-support.js";

beforeEach(shortenPauses);

/** Runs an attempt of the task that ends after its start is recorded, as if its process was killed there. */
async function killedOnce(storage: MemoryAdapter, maxAttempts = 5): Promise<void> {
  const { manager } = managerOn(dyingAfter(0, storage));
  const stopped = ends(manager, "stopped");
  const worker = working(manager, (run) => run.step("first", () => 1), { maxAttempts });
  await stopped;
  await worker.drain();
}

/** A storage in which another process saves a checkpoint of the task right before the first change of a status. */
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
  // This task is due after the poison task.
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

it("a run that ends its workers without progress fails after a number of attempts", async () => {
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

it("retry from a step also drops a milestone of run.save after the last step", async () => {
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
    /has no recorded step "half".* Recorded steps: "load", "plan"\.$/,
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

it("retry leaves a failed checkpoint unchanged if another writer saves before the retry is stored", async () => {
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
