// Tests which writes of a run are durable, and which a run refuses.
import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { CheckpointConflictError, type Run, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { managerOn, withWrites } from "./run-support.js";

it("a step's result is durable, although the start of another step shares its write", async () => {
  const shared: [readonly string[], boolean][] = [];
  const [isHeld, release, isStarted] = [deferred(), deferred(), deferred()];
  const storage = withWrites(new MemoryAdapter(), async (call, isLazy, titles) => {
    if (titles.includes("mark c")) {
      isHeld.resolve();
      await release.promise;
    }
    if (titles.includes("step a")) shared.push([titles, isLazy]);
    return call();
  });
  await managerOn(storage).manager.run("t", async (run) => {
    const a = run.step("a", () => {
      isStarted.resolve();
      return isHeld.promise;
    });
    await isStarted.promise;
    const c = run.step("c", () => a);
    await isHeld.promise;
    await nextTurn();
    const b = run.step("b", () => undefined);
    await nextTurn();
    release.resolve();
    await Promise.all([a, b, c]);
  });
  expect(shared).toEqual([[["step a", "mark b"], false]]);
});

it("a write that waited for another one is made in its own caller's asynchronous context", async () => {
  const contexts = new AsyncLocalStorage<string>();
  const seen: [readonly string[], string | undefined][] = [];
  const [isHeld, release] = [deferred(), deferred()];
  const storage = withWrites(new MemoryAdapter(), async (call, _isLazy, titles) => {
    seen.push([titles, contexts.getStore()]);
    if (titles.includes("step a")) {
      isHeld.resolve();
      await release.promise;
    }
    return call();
  });
  await managerOn(storage).manager.run("t", async (run) => {
    const a = contexts.run("of a", () => run.step("a", () => undefined));
    await isHeld.promise;
    const b = contexts.run("of b", () => run.step("b", () => undefined));
    await nextTurn();
    await nextTurn();
    release.resolve();
    await Promise.all([a, b]);
  });
  expect(seen.filter(([[title = ""]]) => /step|mark b/.test(title))).toEqual([
    [["step a"], "of a"],
    [["mark b"], "of b"],
    [["step b"], "of b"],
  ]);
});

it("the start of a wait is durable if the wait has an end, so that a power cut doesn't begin its time anew", async () => {
  const marks: [string, boolean][] = [];
  const storage = withWrites(new MemoryAdapter(), (call, isLazy, titles) => {
    for (const title of titles) if (title.startsWith("mark")) marks.push([title, isLazy]);
    return call();
  });
  const { manager } = managerOn(storage);
  manager.on("waitStarted", ({ step }) => void manager.send("t", step));
  await manager.run("t", async (run) => {
    await run.waitFor("limited", { timeoutMs: 60_000 });
    await run.waitFor("unlimited");
  });
  expect(marks).toEqual([
    ["mark limited", false],
    ["mark unlimited", true],
  ]);
});

it("a run whose task was saved by another manager begins no further step", async () => {
  const { manager, storage } = managerOn();
  const other = managerOn(storage).manager;
  const ran: string[] = [];
  const running = manager.run("t", async (run) => {
    await run.step("one", () => other.save("t", { edited: true })).catch(() => undefined);
    await run.step("two", () => ran.push("two"));
  });
  await expect(running).rejects.toThrow(CheckpointConflictError);
  expect(ran).toEqual([]);
  expect(await manager.run("t", (run) => run.state)).toEqual({ edited: true });
});

it("an interrupted atMostOnce step loses a race to a result that was recorded before it, and loses it again", async () => {
  const storage = new MemoryAdapter();
  const winners: string[] = [];
  const [isHeld, release] = [deferred(), deferred()];
  const held = withWrites(storage, async (call, _isLazy, titles) => {
    if (titles.includes("mark slow")) {
      isHeld.resolve();
      await release.promise;
    }
    return call();
  });
  const dying = withWrites(storage, async (call, _isLazy, titles) => {
    if (titles.includes("step pay")) throw new StorageError("killed");
    return call();
  });
  const pay = (run: Run) => run.step("pay", () => "paid", { atMostOnce: true });
  await expect(managerOn(dying).manager.run("t", pay)).rejects.toThrow("killed");
  const { manager } = managerOn(held);
  await manager.send("t", "go");
  const program = () =>
    manager.run("t", async (run) => {
      const slow = run.step("slow", () => undefined);
      await isHeld.promise;
      const go = run.waitFor("go").then(() => "go");
      // The event's receipt waits for the running write.
      for (let turns = 0; turns < 9; turns++) await nextTurn();
      const interrupted = pay(run).catch(() => "interrupted");
      const winner = Promise.race([interrupted, go]);
      for (let turns = 0; turns < 9; turns++) await nextTurn();
      release.resolve();
      winners.push(await winner);
      await Promise.all([slow, go, interrupted]);
      if (winners.length === 1) throw new Error("stop");
      return winners;
    });
  await expect(program()).rejects.toThrow("stop");
  expect(await program()).toEqual(["go", "go"]);
});
