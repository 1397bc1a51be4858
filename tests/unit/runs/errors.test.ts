// Tests the stored form of a step's error, and values that can't be stored or are too large.

import { describe, expect, it } from "vitest";
import { PayloadTooLargeError, type Run, StateNotSerializableError, StorageError } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { deferred } from "../../support/deferred.js";
import { dyingAfter, managerOn, runOf, withWrites } from "./run-support.js";

class HttpError extends RangeError {
  readonly status = 503;
  override readonly name = "HttpError";
}

const twoErrors = () => new AggregateError([new TypeError("one"), "two"], "both", { cause: new URIError("under") });

it.each([
  ["of a built-in class", () => new SyntaxError("no")],
  [
    "with a cause and fields",
    () => Object.assign(new HttpError("no", { cause: new URIError("why") }), { at: new Date(5) }),
  ],
  ["that gathers others", twoErrors],
  ["that aborts", () => new DOMException("stopped", "AbortError")],
  ["that is a text", () => "no"],
  ["that is undefined", () => undefined],
])("an error %s is the same in the first run and in a resume", async (_what, make) => {
  const { manager } = managerOn();
  const seen: unknown[] = [];
  const program = () =>
    manager.run("t", async (run) => {
      try {
        await run.step("a", () => {
          // eslint-disable-next-line @typescript-eslint/only-throw-error -- anything may be thrown.
          throw make();
        });
      } catch (error) {
        seen.push(error);
      }
      // After another step, the error stays recorded.
      await run.step("b", () => 1);
      if (seen.length === 1) throw new Error("again");
    });
  await expect(program()).rejects.toThrow("again");
  await program();
  const [first, resumed] = seen;
  expect(seen).toHaveLength(2);
  expect(resumed).toEqual(first);
  const made: unknown = make();
  if (made instanceof Error) {
    expect(first).toMatchObject({ name: made.name, message: made.message });
    expect((first as Error).stack).toBe((resumed as Error).stack);
    expect((first as Error).cause).toEqual(made.cause);
    expect(first).toBeInstanceOf(made instanceof HttpError ? RangeError : made.constructor);
  } else expect(first).toBe(made);
});

it("a field of an error that can't be stored is left out, and the others are kept", async () => {
  const { manager, logger } = managerOn();
  const cause = Object.assign(new TypeError("socket"), { socket: () => 1, code: "ECONNRESET" });
  const error = Object.assign(new RangeError("no", { cause }), { request: { send: () => 1 }, status: 503 });
  const got = await manager.run("t", async (run) => {
    try {
      return await run.step("a", () => Promise.reject(error));
    } catch (caught) {
      return caught;
    }
  });
  expect(got).toBeInstanceOf(RangeError);
  expect(got).toMatchObject({ message: "no", status: 503, cause: { message: "socket", code: "ECONNRESET" } });
  expect(got).not.toHaveProperty("request");
  expect((got as Error).cause).toBeInstanceOf(TypeError);
  expect(logger.lines.filter(({ level }) => level === "error")).toEqual([]);
});

/** Repeats the program until it doesn't throw. Returns the names of the steps that ran each time. */
async function attemptsOf(
  program: (run: Run, step: (name: string, fails?: boolean) => Promise<unknown>) => Promise<unknown>,
) {
  const { manager } = managerOn();
  const attempts: string[] = [];
  for (let attempt = 0; attempt < 5; attempt++) {
    const ran: string[] = [];
    const running = manager.run("t", (run) =>
      program(run, (name, fails = false) =>
        run.step(name, async () => {
          ran.push(name);
          if (fails && attempt === 0) throw new Error(name);
        }),
      ),
    );
    const isDone = await running.then(
      () => true,
      () => false,
    );
    attempts.push(ran.join());
    if (isDone) return attempts;
  }
  return attempts;
}

it.each<[string, Parameters<typeof attemptsOf>[0]]>([
  ["thrown unchanged", (_run, step) => step("a").then(() => step("b", true))],
  [
    "the cause of another",
    async (_run, step) => {
      await step("a");
      await step("b", true).catch((cause: unknown) => Promise.reject(new Error("wrapped", { cause })));
    },
  ],
  [
    "one of several",
    async (_run, step) => {
      await step("a");
      const [got] = await Promise.allSettled([step("b", true)]);
      if (got.status === "rejected") throw new AggregateError([got.reason], "some failed");
    },
  ],
])("a step whose error ended the run, %s, is tried again", async (_how, program) => {
  expect(await attemptsOf(program)).toEqual(["a,b", "b"]);
});

it("steps that failed in parallel with the one that ended the run are also tried again", async () => {
  const program = (_run: Run, step: (name: string, fails?: boolean) => Promise<unknown>) =>
    Promise.all([step("a", true), step("b"), step("c", true)]);
  expect(await attemptsOf(program)).toEqual(["a,b,c", "a,c"]);
});

it("a caught error stays recorded, though a step beside it had ended the run before", async () => {
  const { manager } = managerOn();
  const [reported, mailed] = [deferred(), deferred()];
  let [charges, isBroken] = [0, true];
  const program = () =>
    manager.run("t", async (run) => {
      const charge = run.step("charge", async () => {
        charges += 1;
        await reported.promise;
        throw new Error("declined");
      });
      const mail = charge.catch(async ({ message }: Error) => {
        await run.step("mail", () => mailed.resolve());
        return message;
      });
      const report = run.step("report", () => (isBroken ? Promise.reject(new Error("disk")) : 1));
      const slow = run.step("slow", () => mailed.promise);
      const seen = report.finally(() => reported.resolve());
      return (await Promise.all([mail, seen, slow]))[0];
    });
  await expect(program()).rejects.toThrow("disk");
  isBroken = false;
  expect(await program()).toBe("declined");
  expect(charges).toBe(1);
});

describe("steps caught one by one", () => {
  const program = (fail: (errors: readonly Error[]) => Error) => {
    const { manager, logger } = managerOn();
    let isDown = true;
    const called: string[] = [];
    const go = async () => {
      called.length = 0;
      const ran = manager.run("t", async (run) => {
        const errors: Error[] = [];
        for (const city of ["a", "b", "c"]) {
          const fetched = run.step(`fetch ${city}`, () => {
            called.push(city);
            if (isDown) throw new Error(`${city} is down`);
          });
          await fetched.catch((error: Error) => errors.push(error));
        }
        if (errors.length > 0) throw fail(errors);
      });
      const message = await ran.then(
        () => "completed",
        (error: Error) => error.message,
      );
      isDown = false;
      return { message, called: called.join() };
    };
    return { go, manager, logger };
  };

  it("are all tried again if the function throws their errors as an AggregateError", async () => {
    const { go, logger } = program((errors) => new AggregateError(errors, "some failed"));
    expect(await go()).toEqual({ message: "some failed", called: "a,b,c" });
    expect(await go()).toEqual({ message: "completed", called: "a,b,c" });
    expect(logger.lines.filter(({ level }) => level === "warn")).toEqual([]);
  });

  it("are all tried again if its error has them as its cause", async () => {
    const { go } = program((errors) => new Error("some failed", { cause: errors }));
    expect(await go()).toEqual({ message: "some failed", called: "a,b,c" });
    expect(await go()).toEqual({ message: "completed", called: "a,b,c" });
  });

  it("keep their errors if it throws one of its own; the failure and retry name them and the way out", async () => {
    const { go, logger, manager } = program((errors) => new Error(`${errors.length} of 3 failed`));
    expect(await go()).toEqual({ message: "3 of 3 failed", called: "a,b,c" });
    expect(await manager.retry("t")).toBe(1);
    const named = {
      message: expect.stringMatching(/The errors of "fetch a", "fetch b" stay recorded.*AggregateError/),
    };
    expect(logger.lines.filter(({ level }) => level === "warn")).toMatchObject([named, named]);
    expect(await go()).toEqual({ message: "2 of 3 failed", called: "c" });
  });
});

it("a step is tried again if the function throws an error of its own for it, and begins no other step", async () => {
  const { manager } = managerOn();
  let isMended = false;
  const program = () =>
    manager.run("t", async (run) => {
      const [built] = await Promise.allSettled([
        run.step("build", () => (isMended ? "built" : Promise.reject(new Error("no compiler")))),
        run.step("other", () => 1),
      ]);
      if (built.status === "rejected") throw new Error("Build failed");
      return built.value;
    });
  await expect(program()).rejects.toThrow("Build failed");
  expect((await manager.latest("t"))?.label).toBe("Run failed in build");
  isMended = true;
  expect(await program()).toBe("built");
});

it("a run that fails without a failed step warns that another run ends the same way", async () => {
  const { manager, logger } = managerOn();
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("a", () => 1);
      throw new Error("Three attempts weren't enough.");
    });
  await expect(program()).rejects.toThrow("Three attempts");
  expect(logger.lines.at(-1)).toMatchObject({
    level: "warn",
    message: expect.stringMatching(/no step threw.*restart: true/),
  });
});

it("a failed step that nobody awaits ends the run, and is tried again", async () => {
  const { manager } = managerOn();
  let calls = 0;
  const program = () =>
    manager.run("t", async (run) => {
      void run.step("mail", () => {
        if (++calls === 1) throw new Error("lost mail");
      });
      void run.step("other", () => 1);
      await run.step("last", () => 1);
      return "sent";
    });
  await expect(program()).rejects.toThrow("lost mail");
  expect((await manager.latest("t"))?.status).toBe("failed");
  expect(await program()).toBe("sent");
  expect(calls).toBe(2);
});

it("a failed step that lost a race doesn't end the run", async () => {
  const { manager } = managerOn();
  const first = await manager.run("t", (run) =>
    Promise.any([run.step("broken", () => Promise.reject(new Error("down"))), run.step("mirror", () => "found")]),
  );
  expect(first).toBe("found");
});

it("an error that the program caught is thrown again by a resume, so that it takes the same branch", async () => {
  const attempts = await attemptsOf(async (_run, step) => {
    const isDown = await step("main", true).then(
      () => false,
      () => true,
    );
    await step(isDown ? "fallback" : "unexpected");
    await step("after", true);
  });
  expect(attempts).toEqual(["main,fallback,after", "after"]);
});

it("a result that can't be stored is refused in the first run, with the step's name and the path", async () => {
  const { manager } = managerOn();
  const program = () => manager.run("t", (run) => run.step("model", (): unknown => ({ tools: [{ call: () => 1 }] })));
  const refused = program();
  await expect(refused).rejects.toThrow(StateNotSerializableError);
  await expect(refused).rejects.toMatchObject({
    path: "$.tools[0].call",
    message: expect.stringContaining(
      'The result of step "model" of task "t" can\'t be saved: $.tools[0].call is a function',
    ),
  });
  expect((await runOf(manager, "t"))?.steps).toEqual([]);
  const result = managerOn().manager.run("t", (): unknown => () => 1);
  await expect(result).rejects.toThrow(/The result of the run of task "t" can't be saved/);
});

it("a result that is too large is refused with its bytes, not retried, and the others are kept", async () => {
  const { manager } = managerOn(undefined, { maxPayloadBytes: 2000 });
  let tried = 0;
  await manager.run("t", async (run) => {
    await run.step("a", () => "x".repeat(1500));
    const large = run.step("b", () => `${++tried}`.padEnd(3000), { retry: { times: 3, backoffMs: 0 } });
    await expect(large).rejects.toThrow(PayloadTooLargeError);
    await expect(large).rejects.toThrow(/The result of step "b" .* more than 2000 bytes/);
    await expect(run.save("x".repeat(2500))).rejects.toThrow(PayloadTooLargeError);
    // Each result is a separate record, so a turn may have any number of results.
    expect(await run.step("c", () => "x".repeat(1500))).toHaveLength(1500);
  });
  expect(tried).toBe(1);
  expect((await runOf(manager, "t"))?.steps.map(({ name }) => name)).toEqual(["a", "c"]);
  const next = manager.run("u", (run) => run.next("x".repeat(2100)));
  await expect(next).rejects.toThrow(PayloadTooLargeError);
});

it("a write that failed and is retryable is tried again, without running the step again or storing it twice", async () => {
  for (let failing = 1; failing <= 4; failing++) {
    for (const isStored of [false, true]) {
      const storage = new MemoryAdapter();
      let [writes, ran] = [0, 0];
      const flaky = withWrites(storage, async (call) => {
        writes += 1;
        if (writes !== failing) return call();
        if (isStored) await call();
        throw new StorageError("busy", { retryable: true });
      });
      const { manager } = managerOn(flaky);
      expect(await manager.run("t", (run) => run.step("a", () => ++ran))).toBe(1);
      expect(ran).toBe(1);
      const kinds: string[] = [];
      for await (const { kind } of manager.records("t")) kinds.push(kind);
      expect(kinds).toEqual(["checkpoint", "mark", "step", "run", "checkpoint"]);
    }
  }
});

it("a save that failed for good stops the run, and its step never resolves", async () => {
  const { storage, manager } = managerOn();
  const dying = managerOn(dyingAfter(1, storage)).manager;
  let isAfter = false;
  const running = dying.run("t", async (run) => {
    await run.step("a", () => 1);
    isAfter = true;
  });
  await expect(running).rejects.toThrow(StorageError);
  expect(isAfter).toBe(false);
  expect((await manager.latest("t"))?.status).toBe("running");
});

it("a result is stored without the properties that a library hides in it", async () => {
  const { manager } = managerOn();
  const hidden = Symbol("of the library");
  const call = Object.defineProperty({ id: "call-1", args: { at: new Date(5) } }, hidden, { value: () => 1 });
  const result = await manager.run("t", (run) => run.step("model", () => ({ calls: [call] })));
  expect(result).toEqual({ calls: [{ id: "call-1", args: { at: new Date(5) } }] });
  expect(Object.getOwnPropertySymbols(result.calls[0] ?? {})).toEqual([]);
});

it("the checkpoint of a failure names the step that ended the run, and the next run tries that step again", async () => {
  const { manager } = managerOn();
  let isBroken = true;
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("plan", () => "ok");
      await run.step(
        "deploy",
        () => {
          if (isBroken) throw new HttpError("The server refuses");
          return "done";
        },
        { retry: { times: 2, backoffMs: 1 } },
      );
    });
  await expect(program()).rejects.toThrow("The server refuses");
  const failed = await runOf(manager, "t");
  expect(failed?.steps.map(({ name }) => name)).toEqual(["plan"]);
  expect(failed?.failedStep).toEqual({
    name: "deploy",
    occurrence: 1,
    startedAt: expect.any(String),
    runAttempt: 1,
    durationMs: expect.any(Number),
    attempts: 3,
  });
  isBroken = false;
  await program();
  const completed = await runOf(manager, "t");
  expect(completed?.steps.map(({ name }) => name)).toEqual(["plan", "deploy"]);
  expect(completed).not.toHaveProperty("failedStep");
});

it("an error of the function's own leaves no failed step", async () => {
  const { manager } = managerOn();
  const program = manager.run("t", async (run) => {
    await run.step("plan", () => "ok");
    throw new Error("of the function");
  });
  await expect(program).rejects.toThrow("of the function");
  expect(await runOf(manager, "t")).not.toHaveProperty("failedStep");
});

it("retry from a step runs all later ones again, also those that a killed process had recorded", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage);
  const ran: string[] = [];
  const program = async (run: Run) => {
    for (const name of ["a", "b", "c"]) await run.step(name, () => ran.push(name));
  };
  // The start and three steps; the end isn't stored.
  await expect(managerOn(dyingAfter(4, storage)).manager.run("t", program)).rejects.toThrow("killed");
  await manager.fail("t", new Error("by hand"));
  await manager.retry("t", { from: "b" });
  await manager.run("t", program);
  expect(ran).toEqual(["a", "b", "c", "b", "c"]);
});
