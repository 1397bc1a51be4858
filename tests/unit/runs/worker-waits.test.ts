import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeEach, expect, it, vi } from "vitest";
import type { CheckpointManager, Run, StorageAdapter } from "waymark";
import { StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { NEVER, readWaits } from "../../../src/contract/transient.js";
import { deferred } from "../../support/deferred.js";
import { shortenPauses, stopTimeouts } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, runOf, STORAGES, withWrites } from "./run-support.js";
import { ends, working } from "./worker-support.js";

beforeEach(shortenPauses);

/** Resolves once the worker has polled for tasks after running one. */
async function untilLooked(manager: CheckpointManager): Promise<void> {
  const completed = ends(manager, "completed");
  await manager.enqueue("q/next");
  await completed;
}

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

it("a run with a sleep and a wait without a limit is due at the sleep's end", async () => {
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
  // Repeated sends of an event for which nothing waits end each pause between two polls.
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

it("a run keeps its worker while a step is running during the wait", async () => {
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

it("a child run that is paused for its own reason is reported, and isn't taken again at once", async () => {
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

it("a run that saves during its wait frees its worker", async () => {
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

it("a run keeps its worker if a step begins soon after another one during the wait", async () => {
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
  // Between the steps, only the wait was open.
  timeouts.pass(250);
  long.resolve();
  await manager.send("q/t", "go");
  await completed;
  await worker.drain();
  expect(paused).not.toHaveBeenCalled();
});

it("an event leaves the checkpoint of a pause unchanged if another writer saves before the event is stored", async () => {
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
