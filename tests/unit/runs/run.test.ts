// Tests manager.run and run.step: the records of a run, and how a later attempt uses them.
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type CheckpointManager,
  LeaseHeldError,
  type StorageAdapter,
  StorageError,
  UnsupportedOperationError,
} from "waymark";
import { isTransient } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { withMembers } from "../../support/with-members.js";
import { dyingAfter, managerOn, runOf, STORAGES } from "./run-support.js";

describe.each(Object.entries(STORAGES))("a run on %s", (_name, open) => {
  it("that is stopped after any save resumes, and runs no recorded step again", async () => {
    for (let saves = 1; saves <= 5; saves++) {
      const storage = await open();
      onTestFinished(() => storage.close());
      const ran: string[] = [];
      const program = (manager: CheckpointManager) =>
        manager.run("t", async (run) => {
          const a = await run.step("a", () => {
            ran.push("a");
            return new Map([["n", 1n]]);
          });
          const [b, c] = await Promise.all([
            run.step("b", () => ran.push("b")),
            run.step("c", async () => ran.push("c")),
          ]);
          const d = await run.step("a", () => ran.push("a 2"));
          return { a, b, c, d };
        });
      const dying = program(managerOn(dyingAfter(saves, storage)).manager);
      await (saves < 5 ? expect(dying).rejects.toThrow(StorageError) : dying);
      const { manager } = managerOn(storage);
      expect(await manager.leaseOf("t")).toBeUndefined();
      const result = await program(manager);
      expect(result).toEqual({
        a: new Map([["n", 1n]]),
        b: expect.any(Number),
        c: expect.any(Number),
        d: expect.any(Number),
      });
      expect(ran.filter((step) => step === "a")).toHaveLength(saves === 1 ? 2 : 1);
      expect(ran.filter((step) => step === "a 2")).toHaveLength(saves === 3 ? 2 : 1);
      expect(await program(manager)).toEqual(result);
      expect((await manager.latest("t"))?.status).toBe("completed");
      // Transient checkpoints replace each other, except the one at which the turn started.
      expect((await manager.list("t")).filter(isTransient)).toMatchObject([{ sequence: 1 }]);
    }
  });
});

it("a completed run returns its stored result, even while another process has the lease", async () => {
  const { manager, storage } = managerOn();
  await manager.run("t", () => ({ at: new Date(5) }));
  await using _held = await manager.lease("t");
  const other = managerOn(storage).manager;
  expect(await other.run("t", () => expect.unreachable())).toEqual({ at: new Date(5) });
});

it("the methods of a run work when destructured", async () => {
  const { manager } = managerOn();
  const result = await manager.run("t", async ({ step, sleepUntil, waitFor, save, next, state }) => {
    if (state === undefined) {
      await sleepUntil("past", new Date(0));
      await save({ n: 1 });
      return next({ n: await step("a", () => 2) });
    }
    return (await waitFor("never", { timeoutMs: 0 })) ?? state;
  });
  expect(result).toEqual({ n: 2 });
});

it.each<[string, (manager: CheckpointManager) => Promise<unknown>]>([
  ["manager.save", (manager) => manager.save("t", { percent: 50 })],
  ["manager.rewind", async (manager) => manager.rewind("t", (await manager.latest("t"))?.id ?? "")],
  ["manager.remove", async (manager) => manager.remove("t", (await manager.latest("t"))?.id ?? "")],
  ["manager.removeTask", (manager) => manager.removeTask("t")],
])(
  "%s of a run's own task is refused inside the run, in a step or outside of it, and the run continues",
  async (name, call) => {
    const { manager } = managerOn();
    const refusal = () => call(manager).catch((error: unknown) => String(error));
    const result = await manager.run("t", async (run) => [await run.step("a", refusal), await refusal()]);
    const message = `TypeError: ${name} was called for task "t" inside that task's own run`;
    expect(result).toEqual([expect.stringContaining(message), expect.stringContaining("run.save and run.next")]);
  },
);

it("a listener that a run left behind may save to the task once the run has ended", async () => {
  const { manager } = managerOn();
  const later = deferred();
  let saving: Promise<unknown> | undefined;
  await manager.run("t", (run) =>
    run.step("a", () => {
      saving = later.promise.then(() => manager.save("t", { by: "a listener" }));
    }),
  );
  later.resolve();
  await saving;
  expect((await manager.latest("t"))?.state).toEqual({ by: "a listener" });
  expect(await manager.run("t", () => 1)).toBe(1);
});

it("a step may save progress under a separate task id", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) => run.step("a", () => manager.save("t/progress", { percent: 50 })));
  expect((await manager.latest("t/progress"))?.state).toEqual({ percent: 50 });
});

it("a second run of a task in one process is refused, and told that this process has the first", async () => {
  const { manager } = managerOn();
  const [begun, go] = [deferred(), deferred()];
  const first = manager.run("t", (run) =>
    run.step("a", () => {
      begun.resolve();
      return go.promise;
    }),
  );
  await begun.promise;
  const second = manager.run("t", () => 1);
  await expect(second).rejects.toThrow(LeaseHeldError);
  await expect(second).rejects.toThrow(/already being run by this process/);
  go.resolve();
  await first;
});

it("a task that was completed without a run has no result", async () => {
  const { manager } = managerOn();
  await manager.save("t", 1, { status: "completed" });
  expect(await manager.run("t", () => expect.unreachable())).toBeUndefined();
});

it("a run holds the task's lease, and releases it however it ends", async () => {
  const { manager, storage } = managerOn();
  const other = managerOn(storage).manager;
  await manager.run("t", async (run) => {
    expect(await manager.leaseOf("t")).toBeDefined();
    await expect(other.run("t", () => 1)).rejects.toThrow(LeaseHeldError);
    return run.step("a", () => 1);
  });
  expect(await manager.leaseOf("t")).toBeUndefined();
  await expect(manager.run("u", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await manager.leaseOf("u")).toBeUndefined();
});

it("a run waits for the lease for at most waitForLeaseMs", async () => {
  const { manager, storage } = managerOn();
  const lease = await manager.lease("t");
  const waiting = managerOn(storage).manager.run("t", () => "mine", { waitForLeaseMs: 60_000 });
  await lease.release();
  expect(await waiting).toBe("mine");
  await using _again = await manager.lease("u");
  await expect(manager.run("u", () => 1, { waitForLeaseMs: 1 })).rejects.toThrow(LeaseHeldError);
});

it("a run that waited for the lease and finds the task completed returns the stored result", async () => {
  const { manager, storage } = managerOn();
  const begun = deferred();
  const first = manager.run("t", async (run) => {
    await begun.promise;
    return run.step("a", () => "first");
  });
  const second = managerOn(storage).manager.run("t", () => "second", { waitForLeaseMs: 60_000 });
  begun.resolve();
  expect(await Promise.all([first, second])).toEqual(["first", "first"]);
});

it("the first call also gets the stored result", async () => {
  const { manager } = managerOn();
  const own = { list: [1] };
  const result = await manager.run("t", () => own);
  expect(result).toEqual(own);
  expect(result).not.toBe(own);
});

it("a run under the caller's lease doesn't release it", async () => {
  const { manager } = managerOn();
  await using lease = await manager.lease("t");
  expect(await manager.run("t", (run) => run.step("a", () => 1), { lease })).toBe(1);
  expect(lease.signal.aborted).toBe(false);
});

/** Makes a storage without an optional part. */
function without(part: "leases" | "log"): StorageAdapter {
  return withMembers<StorageAdapter>(new MemoryAdapter(), { [part]: undefined });
}

it("a run needs a storage with leases", async () => {
  await expect(managerOn(without("leases")).manager.run("t", () => 1)).rejects.toThrow(UnsupportedOperationError);
});

it.each<[string, (manager: CheckpointManager) => Promise<unknown>]>([
  ["run", (manager) => manager.run("t", () => 1)],
  ["send", (manager) => manager.send("t", "approve", 1)],
  ["events", (manager) => manager.events("t")],
  ["enqueue", (manager) => manager.enqueue("t")],
])("%s needs a storage with a log, and says so before it changes anything", async (_, call) => {
  const { manager } = managerOn(without("log"));
  await expect(call(manager)).rejects.toMatchObject({
    code: "UNSUPPORTED_OPERATION",
    message: expect.stringMatching(/adapter keeps no log.*Nothing was changed; use a storage with `log`/),
  });
  expect(await manager.latest("t")).toBeUndefined();
  expect(await manager.leaseOf("t")).toBeUndefined();
});

it("`result` returns the run's result, and throws if the run failed or was cancelled", async () => {
  const { manager } = managerOn();
  await manager.run("done", () => ({ n: 1 }));
  expect(await manager.result("done")).toEqual({ n: 1 });
  const failing = manager.run("failed", (run) => run.step("pay", () => Promise.reject(new RangeError("no money"))));
  await expect(failing).rejects.toThrow("no money");
  const failure = await manager.result("failed").catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: "RUN_FAILED",
    message: expect.stringMatching(/"failed" failed: no money.*manager\.retry/),
  });
  expect(failure).toHaveProperty("cause", expect.any(RangeError));
  await manager.enqueue("cancelled");
  await manager.cancel("cancelled", "not needed");
  await expect(manager.result("cancelled")).rejects.toMatchObject({ code: "RUN_CANCELLED" });
});

it("result waits until the run has ended, or its signal aborts", async () => {
  const { manager } = managerOn();
  await manager.enqueue("t");
  const given = manager.result("t");
  await expect(manager.result("t", { signal: AbortSignal.timeout(1) })).rejects.toMatchObject({ name: "TimeoutError" });
  await manager.run("t", () => "done");
  // In the same process, a waiter doesn't wait for its next poll.
  let result: unknown;
  void given.then((value) => {
    result = value;
  });
  for (let turns = 0; turns < 100; turns++) await nextTurn();
  expect(result).toBe("done");
});

it("result's cause is the error of the last failure, also if that was recorded by hand", async () => {
  const { manager } = managerOn();
  await expect(manager.run("t", () => Promise.reject(new RangeError("bad")))).rejects.toThrow("bad");
  expect(await manager.result("t").catch((error: Error) => error.cause)).toEqual(new RangeError("bad"));
  await manager.retry("t");
  await manager.fail("t", new Error("by hand"));
  expect(await manager.result("t").catch((error: Error) => error.cause)).toMatchObject({ message: "by hand" });
  await manager.save("saved", 1);
  await manager.fail("saved", new TypeError("by hand"));
  const cause = await manager.result("saved").catch((error: Error) => error.cause);
  expect(cause).toMatchObject({ name: "TypeError", message: "by hand" });
  expect(cause).toBeInstanceOf(Error);
});

it("an error that the function throws ends the run as failed, and the next run tries the failed step again", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("a", () => ran.push("a"));
      await run.step("b", () => {
        ran.push("b");
        if (ran.length < 3) throw new RangeError("too early");
      });
      return ran.join();
    });
  await expect(program()).rejects.toThrow(new RangeError("too early"));
  const latest = await manager.latest("t");
  expect(latest).toMatchObject({ status: "failed", error: { name: "RangeError", message: "too early" } });
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "a", status: "completed", result: 1 }]);
  expect(await program()).toBe("a,b,b");
});

it("the attempt counts how many times the run was started or resumed", async () => {
  const { manager } = managerOn();
  const attempts: number[] = [];
  for (const isLast of [false, false, true]) {
    const running = manager.run("t", (run) => {
      attempts.push(run.attempt);
      if (!isLast) throw new Error("again");
    });
    await running.catch(() => undefined);
  }
  expect(attempts).toEqual([1, 2, 3]);
});

it("a run is an ordinary task from its beginning", async () => {
  const { manager } = managerOn();
  await manager.run("t", async (run) => {
    expect(await manager.findIncomplete()).toMatchObject([{ taskId: "t", newest: { status: "running" } }]);
    await run.step("model", () => 1);
    expect(await manager.latest("t")).toMatchObject({ label: "Run started", state: undefined });
    expect(await runOf(manager, "t")).toMatchObject({
      attempt: 1,
      turn: 1,
      isTurnOver: false,
      steps: [{ name: "model", occurrence: 1, status: "completed", attempts: 1, result: 1 }],
    });
  });
  expect(await manager.findIncomplete()).toEqual([]);
});
