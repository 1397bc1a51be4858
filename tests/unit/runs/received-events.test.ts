// Tests which wait receives an event: after a pause, a changed function or a refusal, and during a write.
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import type { Run, StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { readRunNote } from "../../../src/contract/run-note.js";
import { listEventHeaders } from "../../../src/runs/event-headers.js";
import { collect } from "../../support/collect.js";
import { deferred } from "../../support/deferred.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, withWrites } from "./run-support.js";

/** Returns the value of the next event; `undefined` if there is none. */
const nextValue = async (run: Run) => (await run.waitFor("msg", { timeoutMs: 0 }))?.value;

it("a function doesn't get the event of a wait if its run is paused while the receipt is written", async () => {
  const pause = new AbortController();
  const storage = withWrites(new MemoryAdapter(), async (call, _isLazy, titles) => {
    if (titles.includes("step msg")) pause.abort();
    return call();
  });
  const { manager } = managerOn(storage);
  const received: unknown[] = [];
  const attempt = (signal?: AbortSignal) =>
    manager.run("t", async (run) => void received.push((await run.waitFor("msg")).value), { signal });
  await manager.send("t", "msg", "A");
  await expect(attempt(pause.signal)).rejects.toMatchObject({ code: "RUN_PAUSED" });
  expect(received).toEqual([]);
  await attempt();
  expect(received).toEqual(["A"]);
});

it("an event whose wait is dropped by a changed input is received again, and once", async () => {
  const { manager } = managerOn();
  const attempt = (input: number) =>
    manager.run("t", async (run) => {
      await run.step("ask", () => input, { input });
      // It reads the log while the event of the dropped wait is pending.
      await run.waitFor("other", { timeoutMs: 0 });
      const received = [await nextValue(run), await nextValue(run)];
      if (run.attempt === 1) throw new Error("stop");
      return received;
    });
  await manager.send("t", "msg", "A");
  await expect(attempt(1)).rejects.toThrow("stop");
  expect(await attempt(2)).toEqual(["A", undefined]);
});

it.each(["a changed input", "retry from a step"])(
  "an event whose receipt %s has dropped is listed as pending",
  async (by) => {
    const { manager, storage } = managerOn();
    const attempt = (input: number) =>
      manager.run("t", async (run) => {
        await run.step("ask", () => input, { input });
        if (run.attempt === 1) await nextValue(run);
        throw new Error("stop");
      });
    const statuses = (events: readonly { readonly status: string }[]) => events.map(({ status }) => status);
    await manager.send("t", "msg", "A");
    await expect(attempt(1)).rejects.toThrow("stop");
    expect(statuses(await listEventHeaders(storage, "t"))).toEqual(["received"]);
    if (by === "a changed input") await expect(attempt(2)).rejects.toThrow("stop");
    else expect(await manager.retry("t", { from: "msg" })).toBe(1);
    expect(statuses(await manager.events("t"))).toEqual(["pending"]);
    expect(statuses(await listEventHeaders(storage, "t"))).toEqual(["pending"]);
  },
);

it.each(["a save", "a restart", "a rewind"])(
  "an event that a failed run has received stays received after %s",
  async (how) => {
    const { manager } = managerOn();
    let fails = true;
    const attempt = (restart = false) =>
      manager.run(
        "t",
        async (run) => {
          const value = await nextValue(run);
          await run.step("work", () => {
            if (fails) throw new Error("stop");
          });
          return value;
        },
        { restart },
      );
    await manager.send("t", "msg", "A");
    await expect(attempt()).rejects.toThrow("stop");
    fails = false;
    if (how === "a save") await manager.save("t", {});
    if (how === "a rewind") await manager.rewind("t", (await manager.list("t")).at(-1)?.sequence ?? 0);
    expect(await attempt(how === "a restart")).toBeUndefined();
    expect(await manager.events("t")).toMatchObject([{ status: "received" }]);
  },
);

it("an event whose wait is gone from the changed function is pending again in the next turn", async () => {
  const { manager } = managerOn();
  const statuses: unknown[] = [];
  const attempt = (isChanged: boolean) =>
    manager.run(
      "t",
      async (run: Run<{ readonly turn: number }>) => {
        if (run.state.turn === 1) statuses.push(...(await manager.events("t")).map(({ status }) => status));
        if (run.state.turn === 1) return nextValue(run);
        if (!isChanged) await nextValue(run);
        if (!isChanged) throw new Error("stop");
        return run.next({ turn: 1 });
      },
      { initialState: { turn: 0 } },
    );
  await manager.send("t", "msg", "A");
  await expect(attempt(false)).rejects.toThrow("stop");
  expect(await attempt(true)).toBe("A");
  expect(statuses).toEqual(["pending"]);
});

it("an event that a schema has refused is received by no wait after a resume or in a fork either", async () => {
  const { manager } = managerOn();
  let fails = true;
  const attempt = (taskId: string) =>
    manager.run(taskId, async (run) => {
      await run.waitFor("msg", { schema: z.number(), timeoutMs: 0 });
      if (fails) throw new Error("stop");
      return nextValue(run);
    });
  await manager.send("t", "msg", "A");
  await expect(attempt("t")).rejects.toThrow("stop");
  fails = false;
  await manager.fork("t", (await manager.latest("t"))?.id ?? "", "fork");
  for (const taskId of ["t", "fork"]) {
    expect(await manager.events(taskId)).toMatchObject([{ status: "refused" }]);
    expect(await attempt(taskId)).toBeUndefined();
    expect(await manager.events(taskId)).toMatchObject([{ status: "refused" }]);
  }
});

it("a wait receives an event that comes while it reads the log, before another record of its run", async () => {
  const storage = new MemoryAdapter();
  const [works, isRecorded] = [deferred(), deferred()];
  const { manager } = managerOn(
    withWrites(storage, async (call, _isLazy, titles) => {
      const sequence = await call();
      if (titles.includes("step work")) isRecorded.resolve();
      return sequence;
    }),
  );
  const read = storage.log.read.bind(storage.log);
  let reads = 0;
  storage.log.read = async function* (query) {
    yield* read(query);
    if (query.kinds?.join() !== "event" || ++reads > 1) return;
    await manager.send("t", "msg", "A");
    works.resolve();
    await isRecorded.promise;
    await nextTurn();
  };
  const received = await manager.run("t", async (run) => {
    const [event] = await Promise.all([run.waitFor("msg"), run.step("work", () => works.promise)]);
    return event.value;
  });
  expect(received).toBe("A");
});

it("a run that is suspended while an event is sent is due for it", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const suspended = new Promise<unknown>((resolve) => manager.on("runPaused", resolve));
  await manager.enqueue("q/t");
  const drain = new AbortController();
  const working = manager.work({ prefix: "q/", signal: drain.signal, pauseOnSignal: false }, async (run) => {
    return (await run.waitFor("msg")).value;
  });
  const list: StorageAdapter["list"] = async function* (query) {
    const items = await collect(storage.list(query));
    await suspended;
    yield* items;
  };
  const late = managerOn(withMembers<StorageAdapter>(storage, { list })).manager;
  await late.send("q/t", "msg", "A");
  expect(await manager.result("q/t")).toBe("A");
  drain.abort();
  await working;
});

it("a run that is suspended while its wait reads an event is due for it", async () => {
  const { manager, storage } = managerOn(new MemoryAdapter());
  const suspends = deferred();
  const log = storage.log ?? expect.fail();
  const read = log.read.bind(log);
  let loads = 0;
  log.read = async function* (query) {
    if (query.kinds?.join() === "event" && !query.headersOnly && ++loads === 1) await suspends.promise;
    yield* read(query);
  };
  manager.on("waitStarted", () => void manager.send("q/t", "msg", "A", { id: "a" }));
  await manager.enqueue("q/t");
  const drain = new AbortController();
  const working = manager.work({ prefix: "q/", signal: drain.signal, pauseOnSignal: false }, async (run) => {
    run.signal.addEventListener("abort", () => suspends.resolve());
    return (await run.waitFor("msg")).value;
  });
  expect(await manager.result("q/t")).toBe("A");
  drain.abort();
  await working;
});

it.each<[string, string, string | undefined]>([
  ["a stale event", "old", undefined],
  ["an event for one wait", "msg", "another"],
])("beside %s, checkpoints stay small for 500 turns, and a resume reads few events again", async (_, name, wait) => {
  const TURNS = 500;
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  await manager.send("t", name, "stale", { wait, force: true });
  const program = async (run: Run<number>) => {
    if (run.state === TURNS) throw new Error("stop");
    await manager.send("t", "msg", run.state);
    return run.next((await run.waitFor<number>("msg")).value + 1);
  };
  await expect(manager.run("t", program, { initialState: 0 })).rejects.toThrow("stop");
  const newest = (await manager.latest("t")) ?? expect.fail();
  expect(newest.state).toBe(TURNS);
  expect(readRunNote(newest)?.received).toHaveLength(2);
  await manager.send("t", "msg", "new");
  const read = storage.log.read.bind(storage.log);
  let events = 0;
  storage.log.read = async function* (query) {
    for await (const item of read(query)) {
      events += Number("kind" in item && item.kind === "event");
      yield item;
    }
  };
  const values = await manager.run("t", async (run) => [await nextValue(run), await nextValue(run)]);
  expect(values).toEqual(["new", undefined]);
  expect(events).toBeLessThan(10);
  const left = (await manager.events("t")).filter(({ status }) => status === "pending");
  expect(left).toMatchObject([{ name, value: "stale" }]);
});
