// Tests run.step: names, retries, timeouts, schemas, inputs and keys.
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  type CheckpointManager,
  type Run,
  RunPausedError,
  StateInvalidError,
  StepInterruptedError,
  StorageError,
} from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SimulatedRuntime } from "waymark/testing";
import { z } from "zod";
import { deferred } from "../../support/deferred.js";
import { dyingAfter, managerOn, runOf, withWrites } from "./run-support.js";

/** Runs until the storage dies after some saves, then runs again. @returns The result of the second attempt. */
async function resumedAfter<Result>(
  saves: number,
  program: (run: Run<unknown, unknown, undefined>) => Promise<Result>,
  storage = new MemoryAdapter(),
) {
  await expect(managerOn(dyingAfter(saves, storage)).manager.run("t", program)).rejects.toThrow(StorageError);
  return managerOn(storage).manager.run("t", program);
}

it("the first run also gets a copy of the stored result", async () => {
  const { manager } = managerOn();
  await manager.run("t", async (run) => {
    const given = { at: new Date(5), list: [1, undefined, 3] };
    const got = await run.step("a", () => given);
    expect(got).toEqual(given);
    expect(got).not.toBe(given);
  });
});

it("consecutive steps of one name are distinguished by their order", async () => {
  const ran: number[] = [];
  const result = await resumedAfter(3, async (run) => {
    const got: number[] = [];
    for (let n = 0; n < 3; n++) got.push(await run.step("model", () => ran.push(n)));
    return got;
  });
  expect(result).toEqual([1, 2, 4]);
});

it("overlapping steps of one name are an error, even on a resume", async () => {
  const { manager } = managerOn();
  const pair = (run: Run) => Promise.all([run.step("tool", () => 1), run.step("tool", () => 2)]);
  await expect(manager.run("t", pair)).rejects.toThrow(/A step named "tool" is already under way/);
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "tool", status: "completed" }]);
  await expect(manager.run("t", pair)).rejects.toThrow(/A step named "tool" is already under way/);
});

it("a step within a step is an error, unless it belongs to a child run", async () => {
  const { manager } = managerOn();
  const nested = manager.run("t", (run) => run.step("outer", () => run.step("inner", () => 1)));
  await expect(nested).rejects.toThrow(/inside step "outer"/);
  const child = (run: Run) =>
    run.step("child", () =>
      manager.run("child", async (inner) => {
        await expect(run.step("parent's", () => 1)).rejects.toThrow(/inside step "child"/);
        return inner.step("inner", () => 1);
      }),
    );
  expect(await manager.run("parent", child)).toBe(1);
});

it("steps that start or end at the same moment share a write, and those that end during a write share the next", async () => {
  const storage = new MemoryAdapter();
  const late = deferred();
  let isSlow = false;
  const writes: boolean[] = [];
  const { manager } = managerOn(
    withWrites(storage, async (call, isLazy) => {
      writes.push(isLazy);
      if (!isSlow || isLazy) return call();
      isSlow = false;
      late.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      return call();
    }),
  );
  await manager.run("t", async (run) => {
    writes.length = 0;
    await Promise.all(Array.from({ length: 10 }, (_, n) => run.step(`s${n}`, async () => n)));
    expect(writes).toEqual([true, false]);
    writes.length = 0;
    isSlow = true;
    await Promise.all([
      run.step("first", () => 1),
      run.step("second", () => late.promise),
      run.step("third", () => late.promise),
    ]);
    expect(writes).toEqual([true, false, false]);
  });
});

describe("the mark of a step's start", () => {
  /** Runs 20 quick steps, one that takes a turn of the event loop, and one more. Returns the calls and writes in order. */
  async function runSteps(storage = new MemoryAdapter()) {
    // Time stands still, so the steps are quick on any machine.
    const runtime = new SimulatedRuntime({ startAt: new Date(0) });
    const events: string[] = [];
    const noting = withWrites(storage, (call, _isLazy, titles) => {
      events.push(...titles);
      return call();
    });
    const call = (name: string, fn: () => unknown) => async () => {
      events.push(`call ${name}`);
      await fn();
    };
    await managerOn(noting, { runtime }).manager.run("t", async (run) => {
      const quick = Array.from({ length: 20 }, (_, n) => `quick ${n + 1}`);
      for (const name of quick)
        await run.step(
          name,
          call(name, () => undefined),
        );
      await run.step("longer", call("longer", nextTurn));
      await run.step(
        "last",
        call("last", () => undefined),
      );
    });
    return events;
  }

  it("is stored before the first steps of an attempt, and while a later one runs", async () => {
    const events = await runSteps();
    const around = (name: string) => events.filter((event) => event.endsWith(` ${name}`));
    expect(around("quick 1")).toEqual(["mark quick 1", "call quick 1", "step quick 1"]);
    expect(around("quick 16")).toEqual(["mark quick 16", "call quick 16", "step quick 16"]);
    expect(around("quick 17")).toEqual(["call quick 17", "step quick 17"]);
    expect(around("longer")).toEqual(["call longer", "mark longer", "step longer"]);
  });

  it("is stored before the first steps after a kill, since one of them may be the reason", async () => {
    const storage = new MemoryAdapter();
    const died = new StorageError("The process was killed.");
    await managerOn(dyingAfter(19, storage))
      .manager.run("t", async (run) => {
        for (let n = 1; n <= 20; n++) await run.step(`quick ${n}`, () => undefined);
      })
      .catch((error: unknown) => expect(error).toEqual(died));
    const events = await runSteps(storage);
    expect(events).not.toContain("call quick 1");
    expect(events.slice(-7, -1)).toEqual([
      "mark longer",
      "call longer",
      "step longer",
      "mark last",
      "call last",
      "step last",
    ]);
  });

  it("is stored before a step again once one has taken long", async () => {
    const storage = new MemoryAdapter();
    const runtime = new SimulatedRuntime({ startAt: new Date(0) });
    const { manager } = managerOn(storage, { runtime });
    const ended = manager.run("t", async (run) => {
      for (let n = 1; n <= 20; n++) await run.step(`quick ${n}`, () => undefined);
      await run.step("long", () => new Promise<void>((resolve) => void runtime.setTimeout(resolve, 5)));
      await run.step("next", () => undefined);
    });
    await runtime.advance(5);
    await ended;
    const names: (string | undefined)[] = [];
    for await (const { name } of manager.records("t", { kinds: ["mark"] })) names.push(name);
    expect(names.slice(-2)).toEqual(["long", "next"]);
  });
});

it("a step is tried again according to its `retry`, with the same key", async () => {
  const { manager } = managerOn();
  const calls: [string, number][] = [];
  const retry = { times: 3, backoffMs: 1, factor: 1, maxMs: 1, if: (error: unknown) => error instanceof RangeError };
  await manager.run("t", async (run) => {
    const result = await run.step(
      "a",
      ({ key, attempt }) => {
        calls.push([key, attempt]);
        if (attempt < 3) throw new RangeError("early");
        return attempt;
      },
      { retry },
    );
    expect(result).toBe(3);
    expect((await runOf(manager, "t"))?.steps[0]).toMatchObject({ attempts: 3 });
    const refused = run.step("b", () => Promise.reject(new TypeError("no")), { retry });
    await expect(refused).rejects.toThrow("no");
    const exhausted = run.step("c", ({ attempt }) => Promise.reject(new RangeError(`${attempt}`)), { retry });
    await expect(exhausted).rejects.toThrow(new RangeError("4"));
  });
  expect(calls.map(([, attempt]) => attempt)).toEqual([1, 2, 3]);
  expect(new Set(calls.map(([key]) => key)).size).toBe(1);
});

it("a timeout aborts the attempt, waits for its end, and becomes the step's error", async () => {
  const { manager } = managerOn();
  let hasEnded = false;
  await manager.run("t", async (run) => {
    const slow = run.step(
      "slow",
      ({ signal }) =>
        new Promise<never>((_, reject) => {
          signal.addEventListener("abort", () => {
            setImmediate(() => {
              hasEnded = true;
              reject(new Error("cleaned up"));
            });
          });
        }),
      { timeoutMs: 1 },
    );
    await expect(slow).rejects.toMatchObject({
      name: "TimeoutError",
      message: expect.stringMatching(/Step "slow" took longer than 1 ms/),
    });
    expect(hasEnded).toBe(true);
    expect(run.signal.aborted).toBe(false);
  });
});

it("a result that an attempt returns after its timeout counts", async () => {
  const { manager } = managerOn();
  const late = ({ signal }: { signal: AbortSignal }) =>
    new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("late")));
  expect(await manager.run("t", (run) => run.step("a", late, { timeoutMs: 1 }))).toBe("late");
});

it("a step's schema validates its result, even a recorded one after the schema changed", async () => {
  const { manager } = managerOn();
  const withDate = z.codec(z.iso.datetime(), z.date(), {
    decode: (text) => new Date(text),
    encode: (at) => at.toISOString(),
  });
  const fails = manager.run("t", async (run) => {
    expect(await run.step("at", () => new Date(5), { schema: withDate })).toEqual(new Date(5));
    // @ts-expect-error: the schema has a date.
    await expect(run.step("bad", () => 5, { schema: withDate })).rejects.toThrow(
      /The schema refuses the result of step "bad"/,
    );
    throw new Error("stop");
  });
  await expect(fails).rejects.toThrow("stop");
  const changed = manager.run("t", (run) => run.step("at", () => 1, { schema: z.number() }));
  await expect(changed).rejects.toThrow(StateInvalidError);
  await expect(changed).rejects.toThrow(/recorded result of step "at"/);
});

it("another input of a step makes it and all later recorded steps run again", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = (input: unknown) =>
    manager.run("t", async (run) => {
      await run.step("a", () => ran.push("a"));
      await run.step("b", () => ran.push("b"), { input });
      await run.step("c", () => ran.push("c"));
      throw new Error("stop");
    });
  await expect(program({ model: 1 })).rejects.toThrow("stop");
  await expect(program({ model: 1 })).rejects.toThrow("stop");
  expect(ran).toEqual(["a", "b", "c"]);
  await expect(program({ model: 2 })).rejects.toThrow("stop");
  expect(ran).toEqual(["a", "b", "c", "b", "c"]);
  await expect(program({ model: 2 })).rejects.toThrow("stop");
  expect(ran).toHaveLength(5);
});

it("another input of a step leaves the later results that the function has called before it", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = (input: number, names: readonly string[]) =>
    manager.run("t", async (run) => {
      for (const name of names) await run.step(name, () => ran.push(name), name === "a" ? { input } : {});
      throw new Error("stop");
    });
  await expect(program(1, ["a", "b", "c"])).rejects.toThrow("stop");
  await expect(program(2, ["b", "a", "c"])).rejects.toThrow("stop");
  await expect(program(2, ["b", "a", "c"])).rejects.toThrow("stop");
  expect(ran.join("")).toBe("abcac");
});

it("a step gets another key for another input, because it does something else then", async () => {
  const { manager } = managerOn();
  const keys: string[] = [];
  for (const input of [{ amount: 1 }, { amount: 2 }]) {
    const paying = manager.run("t", async (run) => {
      await run.step("pay", ({ key }) => keys.push(key), { input });
      throw new Error("stop");
    });
    await expect(paying).rejects.toThrow("stop");
  }
  expect(new Set(keys).size).toBe(2);
});

it("a step gets another key in another task, even if its checkpoints have the same ids", async () => {
  const keys: string[] = [];
  for (const taskId of ["t", "u"]) {
    let ids = 0;
    const { manager } = managerOn(undefined, { createId: () => `${++ids}` });
    await manager.run(taskId, (run) => run.step("a", ({ key }) => keys.push(key)));
  }
  expect(new Set(keys).size).toBe(2);
});

it("a result that its schema refuses fails the attempt: the step is tried again, and a caught refusal is kept", async () => {
  const { manager } = managerOn();
  const schema = z.object({ answer: z.number() });
  let asked = 0;
  const program = (isLast: boolean) =>
    manager.run("t", async (run) => {
      const reply = await run.step("model", ({ attempt }) => ({ answer: attempt === 1 ? Number.NaN : attempt }), {
        ...{ schema, retry: { times: 1, backoffMs: 0 } },
      });
      const other = await run
        .step("other", () => ({ answer: Number(`no ${++asked}`) }), { schema })
        .catch((error: unknown) => error);
      expect(other).toMatchObject({ code: "STATE_INVALID" });
      await run.step("last", () => 1);
      if (!isLast) throw new Error("stop");
      return [reply.answer, asked];
    });
  await expect(program(false)).rejects.toThrow("stop");
  expect(await program(true)).toEqual([2, 1]);
});

it("a step of a child run can't call the parent run's step", async () => {
  const { manager } = managerOn();
  const nested = manager.run("outer", (outer) =>
    outer.step("inner", () =>
      manager.run("inner", (inner) => inner.step("a", () => outer.step("b", () => expect.unreachable()))),
    ),
  );
  await expect(nested).rejects.toThrow(/inside step "inner"/);
});

it("a step's timeout leaves no timer behind", async () => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const { manager } = managerOn();
  const before = timers();
  await manager.run("t", (run) => run.step("a", () => 1, { timeoutMs: 2 ** 31 - 1 }));
  // A timer of an earlier test may end meanwhile.
  expect(timers()).toBeLessThanOrEqual(before);
});

it("many simultaneous steps with timeouts, and many runs, cause no warning of a leak", async () => {
  const { manager } = managerOn();
  const warnings: string[] = [];
  const note = ({ name }: Error) => warnings.push(name);
  process.on("warning", note);
  onTestFinished(() => void process.off("warning", note));
  const many = Array.from({ length: 20 }, (_, n) => `${n}`);
  await Promise.all(
    many.map((id) =>
      manager.run(id, (run) => Promise.all(many.map((name) => run.step(name, () => 1, { timeoutMs: 60_000 })))),
    ),
  );
  await nextTurn();
  expect(warnings).toEqual([]);
});

describe("atMostOnce", () => {
  it("begins if the run was stopped before its function was called", async () => {
    const controller = new AbortController();
    let appends = 0;
    const storage = withWrites(new MemoryAdapter(), async (call) => {
      if (++appends === 2) controller.abort();
      return call();
    });
    const { manager } = managerOn(storage);
    const program = (signal?: AbortSignal) =>
      manager.run("t", (run) => run.step("pay", () => "paid", { atMostOnce: true }), { signal });
    await expect(program(controller.signal)).rejects.toThrow(RunPausedError);
    expect(await program()).toBe("paid");
    expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "pay", status: "completed" }]);
  });

  it("doesn't restart a step that was started and interrupted", async () => {
    const storage = new MemoryAdapter();
    const ran: string[] = [];
    const program = (manager: CheckpointManager) =>
      manager.run("t", (run) => run.step("pay", () => ran.push("pay"), { atMostOnce: true }));
    await expect(program(managerOn(dyingAfter(2, storage)).manager)).rejects.toThrow(StorageError);
    const { manager, logger } = managerOn(storage);
    for (let again = 0; again < 3; again++) {
      await expect(program(manager)).rejects.toThrow(/retry\("t", \{ from: "pay" \}\)/);
      expect(await manager.latest("t")).toMatchObject({ label: "Run failed in pay" });
      expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "pay", status: "interrupted" }]);
      if (again === 1) await manager.retry("t");
    }
    expect(logger.lines.filter(({ level }) => level === "warn")).toEqual([]);
    expect(ran).toEqual(["pay"]);
    const handled = await manager.run("t", async (run) => {
      try {
        return await run.step("pay", () => ran.push("pay"), { atMostOnce: true });
      } catch (error) {
        if (error instanceof StepInterruptedError) return error.step;
        throw error;
      }
    });
    expect(handled).toBe("pay");
  });

  it("runs an interrupted step again after retry from it", async () => {
    const storage = new MemoryAdapter();
    const ran: number[] = [];
    const program = (manager: CheckpointManager) =>
      manager.run("t", (run) => run.step("pay", ({ attempt }) => ran.push(attempt), { atMostOnce: true }));
    await expect(program(managerOn(dyingAfter(2, storage)).manager)).rejects.toThrow(StorageError);
    const { manager } = managerOn(storage);
    await expect(program(manager)).rejects.toThrow(StepInterruptedError);
    await manager.retry("t", { from: "pay" });
    expect(await program(manager)).toBe(2);
  });

  it("that was interrupted doesn't win a race that a recorded result has won", async () => {
    const storage = new MemoryAdapter();
    const winners: string[] = [];
    const program = (manager: CheckpointManager) =>
      manager.run("t", async (run) => {
        const pay = run.step("pay", () => new Promise((resolve) => setImmediate(resolve, "paid")), {
          atMostOnce: true,
        });
        const settled = pay.then(
          () => "paid",
          () => "interrupted",
        );
        winners.push(await Promise.race([settled, run.step("limit", () => "limit")]));
        await settled;
        return run.step("end", () => "end");
      });
    // The process dies before it records that the payment has ended.
    const mortal = withWrites(storage, async (call) => {
      const before = winners.length;
      if (before > 0) throw new StorageError("The process was killed.");
      return call();
    });
    await expect(program(managerOn(mortal).manager)).rejects.toThrow(StorageError);
    expect(winners).toEqual(["limit"]);
    for (let again = 0; again < 2; again++) {
      winners.length = 0;
      expect(await program(managerOn(storage).manager)).toBe("end");
      if (again === 0) expect(winners).toEqual(["limit"]);
    }
  });

  it("runs again after an error of its own, because a step that threw has ended", async () => {
    const { manager } = managerOn();
    let ran = 0;
    const pay = () => (++ran === 1 ? Promise.reject(new Error("DNS failed")) : "paid");
    const program = () => manager.run("t", (run) => run.step("pay", pay, { atMostOnce: true }));
    await expect(program()).rejects.toThrow("DNS failed");
    expect((await manager.latest("t"))?.label).toBe("Run failed in pay");
    expect(await program()).toBe("paid");
    expect(ran).toBe(2);
  });

  it("can't be retried", async () => {
    const { manager } = managerOn();
    const both = manager.run("t", (run) => run.step("a", () => 1, { atMostOnce: true, retry: { times: 1 } }));
    await expect(both).rejects.toThrow(TypeError);
  });
});

it("a key is the same for each attempt of a step, and different for every other step", async () => {
  const keys: [string, string][] = [];
  await resumedAfter(3, async (run) => {
    await run.step("a", ({ key }) => keys.push(["a", key]));
    await run.step("b", ({ key }) => keys.push(["b", key]));
    await run.step("b", ({ key }) => keys.push(["b 2", key]));
  });
  expect(keys.map(([name]) => name)).toEqual(["a", "b", "b 2", "b 2"]);
  expect(keys[2]).toEqual(keys[3]);
  expect(new Set(keys.map(([, key]) => key)).size).toBe(3);
});

it("a step gets another key in the next turn, after a restart, in a fork and after a rewind", async () => {
  const { manager } = managerOn();
  const keys: string[] = [];
  const program = (taskId: string, restart = false) =>
    manager.run(
      taskId,
      async (run) => {
        await run.step("a", ({ key }) => keys.push(key));
        return run.state === 1 ? "done" : run.next(1);
      },
      { restart },
    );
  await program("t");
  await program("t", true);
  const [newest] = await manager.list("t", { stage: undefined });
  const first = (await manager.list("t", { order: "oldest" }))[1]!;
  await manager.fork("t", first.id, "fork");
  await program("fork");
  await manager.rewind("t", first.id);
  await program("t");
  expect(newest?.status).toBe("completed");
  expect(keys).toHaveLength(6);
  expect(new Set(keys).size).toBe(6);
});

it("a misspelled option or a wrong name is refused before anything runs", async () => {
  const { manager } = managerOn();
  const ran = vi.fn();
  const wrong: ((run: Run) => unknown)[] = [
    (run) => run.step("", ran),
    (run) => run.step("a", ran, { timeout: 5 } as object),
    (run) => run.step("a", ran, { timeoutMs: -1 }),
    (run) => run.step("a", ran, { retry: { times: 1, factor: 0 } }),
    (run) => run.step("a", ran, { retry: {} as { times: number } }),
    (run) => run.step("a", ran, { schema: {} as z.ZodNumber }),
    (run) => run.step("a", undefined as unknown as () => 1),
    (run) => run.save(1, { status: "paused" } as object),
  ];
  for (const [n, call] of wrong.entries()) {
    await expect(manager.run(`t${n}`, async (run) => void (await call(run)))).rejects.toThrow(
      /must|There is no|needs|Unknown|unknown|has no/,
    );
  }
  await expect(manager.run("u", ran, { onchange: "resume" } as object)).rejects.toThrow(TypeError);
  await expect(manager.run("u", ran, { ifVersionChanged: "maybe" as "resume" })).rejects.toThrow(TypeError);
  await expect(manager.run("u", "x" as unknown as () => 1)).rejects.toThrow(TypeError);
  expect(ran).not.toHaveBeenCalled();
});

it.each<[string, object, string]>([
  ["a number as retry", { retry: 3 }, 'StepOptions.retry of step "a" must be an object: { times: 3 }.'],
  [
    "a text as timeoutMs",
    { timeoutMs: "3s" },
    'StepOptions.timeoutMs of step "a" must be a number of milliseconds, such as 3000, not string.',
  ],
  ["a retry without times", { retry: {} }, 'StepOptions.retry of step "a" needs `times`'],
])("%s names the step and the form", async (_what, options, message) => {
  const { manager } = managerOn();
  const running = manager.run("t", (run) => run.step("a", () => 1, options));
  await expect(running).rejects.toThrow(message);
  await expect(running).rejects.toThrow(TypeError);
});
