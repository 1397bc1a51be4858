// Tests runs that are stopped by signals, a lost lease, another writer, or closing their manager.
import { once } from "node:events";
import { expect, it } from "vitest";
import { CheckpointConflictError, ClosedError, LeaseLostError, RunPausedError, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { deferred } from "../../support/deferred.js";
import { withMembers } from "../../support/with-members.js";
import { dyingAfter, managerOn, runOf, withWrites } from "./run-support.js";

/** The function of a step that ends when its signal aborts, like `fetch`. */
async function untilAborted({ signal }: { readonly signal: AbortSignal }): Promise<never> {
  if (!signal.aborted) await once(signal, "abort");
  throw signal.reason;
}

it("a signal from outside pauses the run, and the next run continues it", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  const events: string[] = [];
  manager.on("runPaused", () => events.push("paused"));
  manager.on("runEnded", ({ status }) => events.push(status));
  const ran: string[] = [];
  const program = (signal?: AbortSignal) =>
    manager.run(
      "t",
      async (run) => {
        await run.step("a", () => ran.push("a"));
        await run.step("b", async (call) => {
          ran.push("b");
          if (signal === undefined) return;
          controller.abort(new Error("enough"));
          await untilAborted(call);
        });
      },
      { signal },
    );
  const paused = program(controller.signal);
  await expect(paused).rejects.toThrow(RunPausedError);
  await expect(paused).rejects.toMatchObject({ code: "RUN_PAUSED", cause: { message: "enough" } });
  expect(await manager.latest("t")).toMatchObject({ status: "paused" });
  expect(await runOf(manager, "t")).toMatchObject({ steps: [{ name: "a" }] });
  expect(await manager.leaseOf("t")).toBeUndefined();
  await program();
  expect(ran).toEqual(["a", "b", "b"]);
  expect(events).toEqual(["paused", "completed"]);
});

it("a function that catches the reason of a stop and waits again doesn't keep timers and signals from arriving", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  manager.on("waitStarted", () => controller.abort());
  let isLate = false;
  let rejections = 0;
  const paused = manager.run(
    "t",
    async (run) => {
      for (;;) {
        await run.waitFor("never").catch((error: unknown) => {
          rejections += 1;
          if (rejections === 1) setImmediate(() => (isLate = true));
          if (isLate || rejections === 1000) throw error;
        });
      }
    },
    { signal: controller.signal },
  );
  await expect(paused).rejects.toThrow(RunPausedError);
  expect(rejections).toBeLessThan(1000);
});

it("an error that the program caught stays recorded when the run is paused", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  const ran: string[] = [];
  const program = (signal?: AbortSignal) =>
    manager.run(
      "t",
      async (run) => {
        const caught = await run
          .step("main", () => {
            ran.push("main");
            throw new Error("It is down.");
          })
          .catch((error: unknown) => error);
        controller.abort();
        return run.step("after", () => `${caught}`);
      },
      { signal },
    );
  await expect(program(controller.signal)).rejects.toThrow(RunPausedError);
  expect(await program()).toBe("Error: It is down.");
  expect(ran).toEqual(["main"]);
});

it("a result that comes after the signal is recorded, and no further step begins", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  const began: string[] = [];
  const paused = manager.run(
    "t",
    async (run) => {
      await run.step("a", () => controller.abort());
      await run.step("b", () => began.push("b"));
    },
    { signal: controller.signal },
  );
  await expect(paused).rejects.toThrow(RunPausedError);
  expect(began).toEqual([]);
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "a", status: "completed" }]);
});

it.each(["result", "next state"])(
  "a %s that the function returns after the stop isn't saved: it may have caught the stop",
  async (kind) => {
    const { manager } = managerOn();
    const program = (signal?: AbortSignal) =>
      manager.run(
        "t",
        async (run) => {
          if (run.state.turn === 2) return "done";
          const found = await run
            .step("look", (call) => (signal ? untilAborted(call) : "there"))
            .catch(() => "nothing");
          return kind === "result" ? found : run.next({ turn: 2, found });
        },
        { initialState: { turn: 1, found: "" }, signal },
      );
    await expect(program(AbortSignal.timeout(1))).rejects.toThrow(RunPausedError);
    expect(await manager.latest("t")).toMatchObject({ status: "paused", state: { turn: 1 } });
    expect(await program()).toBe(kind === "result" ? "there" : "done");
  },
);

it("a step that fails because of the stop isn't recorded, and is stopped through its timeout and its retry's pause", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  const reasons: unknown[] = [];
  const paused = manager.run(
    "t",
    (run) =>
      Promise.all([
        run.step("fails", (call) => untilAborted(call).catch(() => Promise.reject(new Error("aborted")))),
        run.step("timed", (call) => untilAborted(call).catch((reason: unknown) => reasons.push(reason)), {
          timeoutMs: 60_000,
        }),
        run.step(
          "retried",
          () => {
            setImmediate(() => controller.abort());
            throw new Error("again");
          },
          { retry: { times: 1, backoffMs: 2 ** 30 } },
        ),
      ]),
    { signal: controller.signal },
  );
  await expect(paused).rejects.toThrow(RunPausedError);
  expect(reasons).toEqual([expect.any(RunPausedError)]);
  expect((await runOf(manager, "t"))?.steps.map(({ name }) => name)).toEqual(["timed"]);
});

it("a paused run begins no further turn, and the next save replaces its checkpoint", async () => {
  const { manager, storage } = managerOn();
  const controller = new AbortController();
  const append = storage.append.bind(storage);
  storage.append = async (draft, ...rest) => {
    if (draft.stage === "turn") controller.abort();
    return append(draft, ...rest);
  };
  const turns: number[] = [];
  const program = (signal?: AbortSignal) =>
    manager.run(
      "t",
      async (run) => {
        turns.push(run.state.n);
        return run.state.n === 0 ? run.next({ n: 1 }, { stage: "turn" }) : run.step("a", () => "done");
      },
      { initialState: { n: 0 }, signal },
    );
  await expect(program(controller.signal)).rejects.toThrow(RunPausedError);
  expect(turns).toEqual([0]);
  expect((await manager.list("t")).map(({ status }) => status)).toEqual(["paused", "running", "running"]);
  expect(await program()).toBe("done");
  expect((await manager.list("t")).map(({ status }) => status)).toEqual(["completed", "running", "running"]);
});

it("a save that failed for good stops the run, even if the function catches its error", async () => {
  const storage = dyingAfter(2, new MemoryAdapter());
  const { manager } = managerOn(storage);
  const began: string[] = [];
  const stopped = manager.run("t", async (run) => {
    await run.step("a", () => began.push("a"));
    await run.step("b", () => began.push("b")).catch(() => undefined);
    await run.step("c", () => began.push("c")).catch(() => undefined);
    return "done";
  });
  await expect(stopped).rejects.toThrow(StorageError);
  expect(began).toEqual(["a", "b"]);
});

it("a save isn't tried again once the lease is lost", async () => {
  const { manager, storage } = managerOn();
  await using lease = await manager.lease("t");
  let appends = 0;
  storage.append = async () => {
    appends += 1;
    await lease.release();
    throw new StorageError("busy", { retryable: true });
  };
  await expect(manager.run("t", () => 1, { lease })).rejects.toThrow();
  expect(appends).toBe(1);
});

it("a process that was blocked for longer than its lease continues if no other process has claimed the task", async () => {
  const { manager, storage } = managerOn();
  const block = () => {
    const until = performance.now() + 250;
    while (performance.now() < until);
    return "passed";
  };
  await using lease = await manager.lease("t", { ttlMs: 100 });
  const result = await manager.run("t", (run) => run.step("gates", block), { lease });
  expect(result).toBe("passed");
  // A slow machine may block it once more.
  expect(lease.token).toBeGreaterThan(1);

  await using other = await manager.lease("u", { ttlMs: 100 });
  const lost = manager.run(
    "u",
    (run) =>
      run.step("gates", async () => {
        block();
        expect(await storage.leases?.claim("u", "another", 60_000)).toMatchObject({ isGranted: true });
      }),
    { lease: other },
  );
  await expect(lost).rejects.toThrow(LeaseLostError);
});

it("a run within a run is paused and resumed with it", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = (controller?: AbortController) =>
    manager.run(
      "outer",
      async (run) => {
        const inner = () =>
          manager.run("inner", async (within) => {
            await within.step("a", () => ran.push("a"));
            controller?.abort();
            return within.step("b", () => ran.push("b"));
          });
        return run.step("inner", inner);
      },
      { signal: controller?.signal },
    );
  await expect(program(new AbortController())).rejects.toThrow(RunPausedError);
  for (const taskId of ["outer", "inner"]) expect((await manager.latest(taskId))?.status).toBe("paused");
  expect(await program()).toBe(2);
  expect(ran).toEqual(["a", "b"]);
});

it("a run is paused, not failed, if a run within it is paused", async () => {
  const { manager } = managerOn();
  const signal = AbortSignal.abort();
  await expect(
    manager.run("outer", (run) => run.step("inner", () => manager.run("inner", () => 1, { signal }))),
  ).rejects.toThrow(RunPausedError);
  expect(await manager.latest("outer")).toMatchObject({ status: "paused" });
  expect(await runOf(manager, "outer")).toMatchObject({ steps: [] });
});

it("a step's timeout pauses the run within the step", async () => {
  const { manager } = managerOn();
  const timedOut = manager.run("outer", (run) =>
    run.step("inner", () => manager.run("inner", (within) => within.step("a", untilAborted)), { timeoutMs: 1 }),
  );
  await expect(timedOut).rejects.toThrow(/Step "inner" took longer than 1 ms/);
  expect((await manager.latest("inner"))?.status).toBe("paused");
});

it("a run of a task within the same task's run is refused", async () => {
  const { manager } = managerOn();
  const nested = manager.run("t", () => manager.run("t", () => 1, { waitForLeaseMs: 60_000 }));
  await expect(nested).rejects.toThrow(/inside that task's own run/);
});

it("an aborted signal keeps a run from beginning", async () => {
  const { manager } = managerOn();
  await expect(manager.run("t", () => expect.unreachable(), { signal: AbortSignal.abort() })).rejects.toThrow(
    RunPausedError,
  );
});

it("a signal ends the wait for a lease", async () => {
  const { manager, storage } = managerOn();
  await using _lease = await manager.lease("t");
  const controller = new AbortController();
  const waiting = managerOn(storage).manager.run("t", () => 1, { waitForLeaseMs: 60_000, signal: controller.signal });
  controller.abort();
  await expect(waiting).rejects.toThrow(RunPausedError);
});

it("a run whose lease is lost stops with the LeaseLostError, and stores nothing more", async () => {
  const { manager } = managerOn();
  await using lease = await manager.lease("t");
  const lost = manager.run(
    "t",
    async (run) => {
      await run.step("a", () => 1);
      await run.step("b", async (call) => {
        await lease.release();
        await untilAborted(call).catch((reason: unknown) => expect(reason).toBeInstanceOf(LeaseLostError));
        return "too late";
      });
    },
    { lease },
  );
  await expect(lost).rejects.toThrow(LeaseLostError);
  expect(await manager.latest("t")).toMatchObject({ status: "running" });
  expect(await runOf(manager, "t")).toMatchObject({
    steps: [
      { name: "a", status: "completed" },
      { name: "b", status: "started" },
    ],
  });
});

it("the signal of a run that has completed doesn't abort", async () => {
  const { manager } = managerOn();
  let signal: AbortSignal | undefined;
  await manager.run("t", (run) => {
    signal = run.signal;
  });
  expect(signal?.aborted).toBe(false);
});

it("a run whose writes and renewals fail warns at once, and its LeaseLostError has their error", async () => {
  const runtime = new SimulatedRuntime();
  const memory = new MemoryAdapter({ runtime });
  let isFull = false;
  const full = new StorageError("There is no space left.", { retryable: true });
  const whileSpace = <Result>(call: () => Promise<Result>) => (isFull ? Promise.reject(full) : call());
  const storage = withMembers(
    withWrites(memory, (call) => whileSpace(call)),
    { leases: withMembers(memory.leases, { renew: (...args) => whileSpace(() => memory.leases.renew(...args)) }) },
  );
  const { manager, logger } = managerOn(storage, { runtime });
  const running = manager.run("t", async (run) => {
    await run.step("a", () => "a");
    isFull = true;
    await run.step("b", () => "b");
  });
  const ended = running.catch((error: unknown) => error);
  await runtime.settle();
  const message = 'A write of task "t" failed, and is tried again while its lease lasts';
  expect(logger.lines.filter(({ level }) => level === "warn")).toMatchObject([{ message, details: { error: full } }]);
  await runtime.advance(60_000);
  expect(await ended).toMatchObject({
    code: "LEASE_LOST",
    message: expect.stringMatching(
      /it expired before it was renewed\. The last renewal failed: There is no space left\. Stop/,
    ),
    cause: full,
  });
});

it("a write that is refused for the lost lease stops the run", async () => {
  const { manager, storage } = managerOn();
  const ended: unknown[] = [];
  manager.on("runEnded", ({ status, error }) => ended.push(status, error));
  const lost = manager.run("t", async (run) => {
    await run.step("a", () => 1);
    await storage.leases?.release("t", 1);
    await storage.leases?.claim("t", "another", 60_000);
    await run.step("b", () => 1);
  });
  await expect(lost).rejects.toThrow(LeaseLostError);
  expect(ended).toEqual(["stopped", expect.any(LeaseLostError)]);
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "a" }]);
});

it("another program's checkpoint ends the attempt with a conflict, and the next attempt begins a turn with its state", async () => {
  const { manager, storage } = managerOn();
  const keys: string[] = [];
  const program = (input?: number) =>
    manager.run(
      "t",
      async (run) => {
        await run.step("a", ({ key }) => keys.push(key));
        if (run.state === undefined) await managerOn(storage).manager.save("t", { by: "somebody" });
        await run.step("b", () => 1);
        return [run.state, run.input];
      },
      input === undefined ? {} : { input },
    );
  const conflict = program(7);
  await expect(conflict).rejects.toThrow(CheckpointConflictError);
  expect(await runOf(manager, "t")).toBeUndefined();
  expect(await program()).toEqual([{ by: "somebody" }, 7]);
  expect(new Set(keys).size).toBe(2);
});

it("close pauses the manager's runs and waits for them", async () => {
  const { manager, storage } = managerOn();
  const began = deferred();
  const running = manager.run("t", (run) =>
    run.step("a", (call) => {
      began.resolve();
      return untilAborted(call);
    }),
  );
  const settled = expect(running).rejects.toMatchObject({ code: "RUN_PAUSED", cause: expect.any(ClosedError) });
  await began.promise;
  await manager.close();
  await settled;
  const other = managerOn(storage).manager;
  expect(await other.latest("t")).toMatchObject({ status: "paused" });
  expect(await other.leaseOf("t")).toBeUndefined();
});

it("a run waits for all of its steps, even if one of them has ended it", async () => {
  const { manager } = managerOn();
  const slow = deferred<string>();
  const running = manager.run("t", (run) =>
    Promise.all([
      run.step("fast", () => Promise.reject(new Error("no"))),
      run.step("slow", () => {
        setImmediate(() => slow.resolve("kept"));
        return slow.promise;
      }),
    ]),
  );
  await expect(running).rejects.toThrow("no");
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "slow", result: "kept" }]);
});

it("a task has either a run or an auto-save", async () => {
  const { manager, storage } = managerOn();
  const autoSave = manager.autoSave("t", () => 1);
  await expect(manager.run("t", () => 1)).rejects.toThrow(TypeError);
  await autoSave.stop();
  await manager.run("t", async (run) => {
    await run.step("a", () => 1);
    expect(() => manager.autoSave("t", () => 1)).toThrow(TypeError);
    const other = managerOn(storage).manager.autoSave("t", () => 2);
    await expect(other.flush()).rejects.toThrow(/has a run, which saves after each step/);
    await expect(other.stop()).rejects.toThrow(TypeError);
  });
});

it("close within a run is refused, instead of waiting for itself", async () => {
  const { manager } = managerOn();
  const closing = manager.run("t", async (run) => {
    await run.step("a", () => 1);
    await manager.close();
  });
  await expect(closing).rejects.toThrow(/close was called inside the run of task "t"/);
  await expect(manager.run("u", (run) => run.step("b", () => manager.close()))).rejects.toThrow(TypeError);
  expect((await manager.latest("t"))?.status).toBe("failed");
});

it("close works in a timer that a run has started, once the run is over", async () => {
  const { manager } = managerOn();
  const [ended, closed] = [deferred(), deferred()];
  await manager.run("t", () => {
    setImmediate(() => {
      ended.promise.then(() => manager.close()).then(closed.resolve, closed.reject);
    });
  });
  ended.resolve();
  await closed.promise;
});

it("a run lets timers fire, however fast its storage saves: its lease must renew itself", async () => {
  const { manager } = managerOn();
  let turns = 0;
  await manager.run("t", async (run) => {
    const count = (): void => {
      turns += 1;
      if (!run.signal.aborted && turns < 1000) setImmediate(count);
    };
    setImmediate(count);
    for (let n = 0; n < 10; n++) {
      await run.step(`s${n}`, () => {
        const until = performance.now() + 10;
        while (performance.now() < until);
      });
    }
    expect(turns).toBeGreaterThan(1);
  });
});
