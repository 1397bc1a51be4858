// Tests waits whose signal aborts before or after they have received an event.
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { CheckpointManager, type Run, type StorageAdapter, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { isJsonObject } from "../../../src/contract/checkpoint.js";
import { listEventHeaders } from "../../../src/runs/event-headers.js";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { managerOn, withWrites } from "./run-support.js";

/** A run whose first wait is aborted at the moment when its event comes, and which fails `failures` times. */
function abortedRun(failures = 1) {
  const { manager, storage } = managerOn();
  const got: unknown[] = [];
  let fails = failures;
  const program = async (run: Run<{ readonly turn: number }>) => {
    if (run.state.turn === 0) {
      const listening = new AbortController();
      const aborted = run.waitFor("msg", { signal: listening.signal }).catch(() => undefined);
      await run.step("tick", async () => {
        await manager.send("t", "msg", "A", { id: "a" });
      });
      listening.abort();
      expect(await aborted).toBeUndefined();
      if (fails-- > 0) throw new Error("stop");
    }
    const { value } = (await run.waitFor("msg", { timeoutMs: 0 })) ?? {};
    got.push(value);
    return run.state.turn < 2 ? run.next({ turn: run.state.turn + 1 }) : got;
  };
  const attempt = () => manager.run("t", program, { initialState: { turn: 0 } });
  return { manager, storage, attempt, got };
}

it("an event whose wait was aborted is received by the next wait, and once", async () => {
  const { manager, storage, attempt } = abortedRun();
  await expect(attempt()).rejects.toThrow("stop");
  expect(await manager.events("t")).toMatchObject([{ id: "a", status: "pending" }]);
  expect(await listEventHeaders(storage, "t")).toMatchObject([{ id: "a", status: "pending" }]);
  expect(await attempt()).toEqual(["A", undefined, undefined]);
  expect(await manager.events("t")).toMatchObject([{ id: "a", status: "received" }]);
});

it("an event whose wait was aborted is received by the next wait of the same attempt", async () => {
  const { attempt } = abortedRun(0);
  expect(await attempt()).toEqual(["A", undefined, undefined]);
});

it.each(["a save", "a restart", "a rewind"])(
  "an event whose wait was aborted is still pending after %s",
  async (how) => {
    const { manager, attempt } = abortedRun();
    await expect(attempt()).rejects.toThrow("stop");
    const program = async (run: Run) => (await run.waitFor("msg", { timeoutMs: 0 }))?.value;
    if (how === "a save") await manager.save("t", { turn: 7 });
    if (how === "a rewind") await manager.rewind("t", (await manager.latest("t"))?.id ?? "");
    expect(await manager.run("t", program, { restart: how === "a restart" })).toBe("A");
  },
);

it("an event that a run has received stays received, if the signal of its wait is aborted at the resume", async () => {
  const { manager } = managerOn();
  const closing = new AbortController();
  const charged: unknown[] = [];
  const attempt = () =>
    manager.run("t", async (run) => {
      const { value } = await run.waitFor("job", { signal: closing.signal });
      await run.step("charge", () => charged.push(value));
      if (run.attempt === 1) throw new Error("stop");
      return value;
    });
  await manager.send("t", "job", "J1");
  await expect(attempt()).rejects.toThrow("stop");
  closing.abort();
  expect(await attempt()).toBe("J1");
  expect(charged).toEqual(["J1"]);
});

it("a wait that its signal has ended ends again at a resume, and leaves a later event for the next wait", async () => {
  const { manager } = managerOn();
  const attempt = (signal: AbortSignal) =>
    manager.run("t", async (run) => {
      const first = await run.waitFor("msg", { signal }).catch((error: unknown) => String(error));
      await run.step("handle", () => first);
      if (run.attempt === 1) throw new Error("stop");
      return [first, (await run.waitFor("msg", { timeoutMs: 0 }))?.value];
    });
  const aborted = AbortSignal.abort("closed");
  await expect(attempt(aborted)).rejects.toThrow("stop");
  await manager.send("t", "msg", "hello");
  expect(await attempt(new AbortController().signal)).toEqual(["closed", "hello"]);
});

it("a race with a wait that its signal ends has the same winner at a resume", async () => {
  const { manager } = managerOn();
  const winners: string[] = [];
  const attempt = () =>
    manager.run("t", async (run) => {
      const slowDone = deferred<void>();
      const over = new AbortController();
      const wait = run.waitFor("msg", { signal: over.signal }).then(
        () => "event",
        () => "aborted",
      );
      const slow = run.step("slow", () => slowDone.promise.then(() => "slow"));
      await run.step("tick", () => nextTurn());
      over.abort();
      const winner = await Promise.race([wait, slow]);
      winners.push(winner);
      await run.step(`after ${winner}`, () => 1);
      slowDone.resolve();
      await slow;
      if (run.attempt === 1) throw new Error("stop");
    });
  await expect(attempt()).rejects.toThrow("stop");
  await attempt();
  expect(winners).toEqual(["aborted", "aborted"]);
});

it("a wait whose signal has ended the run is open again in the next run", async () => {
  const { manager } = managerOn();
  const attempt = (signal?: AbortSignal) =>
    manager.run("t", async (run) => (await run.waitFor("msg", { signal })).value);
  const reason = new Error("closed");
  await expect(attempt(AbortSignal.abort(reason))).rejects.toBe(reason);
  await manager.send("t", "msg", "hello");
  expect(await attempt()).toBe("hello");
});

it("an event that a run has received stays received in a fork, if the signal of its wait is aborted there", async () => {
  const { manager } = managerOn();
  const attempt = (taskId: string, signal: AbortSignal) =>
    manager.run(taskId, async (run) => {
      const { value } = await run.waitFor("job", { signal });
      await run.step("charge", () => value);
      if (run.taskId === "t") throw new Error("stop");
      return value;
    });
  await manager.send("t", "job", "J1");
  await expect(attempt("t", new AbortController().signal)).rejects.toThrow("stop");
  await manager.fork("t", (await manager.latest("t"))?.sequence ?? 0, "copy");
  expect(await attempt("copy", AbortSignal.abort())).toBe("J1");
});

it("an event that a wait receives again after a changed input is given back, if its signal aborts before the delivery", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const attempt = (runner: CheckpointManager, input: number, signal?: AbortSignal) =>
    runner.run("t", async (run) => {
      if (run.state === 1) return (await run.waitFor("job", { timeoutMs: 0 }))?.value;
      await run.step("look", () => input, { input });
      const listening = signal ?? new AbortController().signal;
      const event = await run.waitFor("job", { signal: listening }).catch((error: unknown) => {
        if (error !== "closed") throw error;
      });
      if (event !== undefined) throw new Error("stop");
      return run.next(1);
    });
  await manager.send("t", "job", "J1");
  await expect(attempt(manager, 1)).rejects.toThrow("stop");
  let isDead = false;
  const mortal = withWrites(storage, async (call, _isLazy, titles) => {
    if (isDead) throw new StorageError("killed");
    isDead = titles.includes("step job");
    return call();
  });
  await expect(attempt(managerOn(mortal).manager, 2)).rejects.toThrow("killed");
  expect(await attempt(manager, 2, AbortSignal.abort("closed"))).toBe("J1");
});

it("an event of a wait with a signal reaches the function once that is recorded", async () => {
  const storage = new MemoryAdapter();
  let isDead = false;
  const mortal = withWrites(storage, async (call, _isLazy, titles) => {
    isDead ||= titles.includes("mark ");
    if (!isDead) return call();
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    throw new StorageError("killed");
  });
  const { manager: first } = managerOn(mortal);
  const { manager: second } = managerOn(storage);
  const over = new AbortController();
  const charged: unknown[] = [];
  const program = async (run: Run) => {
    // After quick steps, a step begins before its start is recorded.
    for (let number = 0; number < 20; number++) await run.step(`quick ${number}`, () => number);
    const { value } = await run.waitFor("job", { signal: over.signal });
    await run.step("charge", () => charged.push(value));
  };
  await second.send("t", "job", "J1");
  await expect(first.run("t", program)).rejects.toThrow("killed");
  over.abort("closed");
  await expect(second.run("t", program)).rejects.toThrow("closed");
  expect(charged).toEqual([]);
});

it("an answer to one wait, which returns it at a resume, isn't received by another wait", async () => {
  const storage = new MemoryAdapter();
  const managerOf = (store: StorageAdapter) =>
    new CheckpointManager({ storage: store, ownsStorage: false, logger: recordingLogger() });
  const second = managerOf(storage);
  let isDead = false;
  const mortal = withWrites(storage, async (call, _isLazy, titles) => {
    if (isDead) throw new StorageError("killed");
    const sequence = await call();
    isDead = titles.includes("step approve");
    if (!titles.includes("mark approve")) return sequence;
    for await (const { value } of second.records("t", { kinds: ["mark"], name: "approve" }))
      if (isJsonObject(value)) await first.send("t", "approve", "yes", { wait: String(value["key"]) });
    return sequence;
  });
  const first = managerOf(mortal);
  const attempt = (manager: CheckpointManager) =>
    manager.run("t", async (run) => {
      const over = new AbortController();
      if (run.attempt === 2) {
        await run.waitFor("other", { timeoutMs: 0 });
        over.abort("withdrawn");
      }
      const one = await run.waitFor("approve", { signal: over.signal }).catch((error: unknown) => {
        if (error !== "withdrawn") throw error;
        return error;
      });
      return [one, await run.waitFor("approve", { timeoutMs: 0 })];
    });
  await expect(attempt(first)).rejects.toThrow("killed");
  expect(await attempt(second)).toEqual(["withdrawn", undefined]);
});

it("a wait is refused while another one with its name is open, with advice for waits", async () => {
  const { manager } = managerOn();
  const program = async (run: Run) => {
    run.waitFor("msg").catch(() => undefined);
    return run.waitFor("msg");
  };
  await expect(manager.run("t", program)).rejects.toThrow(
    /^A wait named "msg" is already under way .* Keep the promise of the open wait, or abort its `signal` and await it/,
  );
});

interface State {
  readonly turn: number;
  readonly got?: string | undefined;
}

/** Receives one event in two turns. In the first one, a step may end the wait while the event is being received. */
async function receiving(run: Run<State>) {
  if (run.state.turn === 1) return run.state.got ?? (await run.waitFor<string>("m", { timeoutMs: 0 }))?.value;
  const over = new AbortController();
  const message = run.waitFor<string>("m", { signal: over.signal });
  const event = await Promise.race([message, run.step("tick", () => nextTurn())]);
  message.catch(() => undefined);
  over.abort();
  await run.step("work", () => nextTurn());
  return run.next({ turn: 1, got: event?.value });
}

it.each([0, 1, 2, 3])(
  "an event that a wait was receiving isn't lost by a kill at any write, acknowledged %i turns late",
  async (late) => {
    for (let sentAt = 1; sentAt <= 5; sentAt++) {
      for (let kill = sentAt; kill <= 10; kill++) {
        const storage = new MemoryAdapter();
        const managerOf = (store: StorageAdapter) =>
          new CheckpointManager<State>({ storage: store, ownsStorage: false, logger: recordingLogger() });
        let writes = 0;
        const mortal = withWrites(storage, async (call) => {
          writes += 1;
          if (writes > kill) throw new StorageError("killed");
          const sequence = await call();
          if (writes === sentAt) {
            await managerOf(storage).send("t", "m", "hello", { id: "1" });
            // This event wakes the wait.
            await first.send("t", "m", "hello", { id: "1" });
          }
          for (let turns = late; turns > 0; turns--) await nextTurn();
          return sequence;
        });
        const first = managerOf(mortal);
        const attempt = (manager: CheckpointManager<State>) =>
          manager.run("t", receiving, { initialState: { turn: 0 } });
        const killed = await attempt(first).catch(() => "killed");
        const resumed = await attempt(managerOf(storage));
        expect({ sentAt, kill, killed, resumed }).toMatchObject({
          killed: writes > kill ? "killed" : "hello",
          resumed: "hello",
        });
      }
    }
  },
);
