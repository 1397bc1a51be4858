import { describe, expect, it, onTestFinished, vi } from "vitest";
import { rehearse } from "waymark/testing";
import { z } from "zod";

it("finds nothing in a run that returns the same result wherever it is stopped", async () => {
  const rehearsal = await rehearse(
    async (run) => {
      const chat = run.state;
      chat.push(await run.step("model", () => `turn ${chat.length + 1}`));
      const tools = await Promise.all(
        ["a", "b", "c"].map((id) => run.step(`tool ${id}`, ({ key }) => id + key.length)),
      );
      await run.save(chat, { stage: "asked" });
      return chat.length < 3 ? run.next(chat, { stage: "turn" }) : { chat, tools };
    },
    { initialState: [] as string[] },
  );
  expect(rehearsal.problems, rehearsal.text).toEqual([]);
  expect(rehearsal.result).toEqual({ chat: ["turn 1", "turn 2", "turn 3"], tools: ["a32", "b32", "c32"] });
  expect(rehearsal).toMatchObject({ steps: 12, stops: expect.any(Number) });
  const keys = new Map(rehearsal.ranTwice.map(({ step, usesKey }) => [step, usesKey]));
  expect([keys.get("model"), keys.get("model, turn 3"), keys.get("tool b, turn 2")]).toEqual([false, false, true]);
  expect(rehearsal.text).toMatch(
    /^A run of 12 steps was stopped at \d+ places and resumed: the result is always the same\./,
  );
  expect(rehearsal.text).toMatch(/^ {2}tool a, turn 3 +after \d+ stops?, uses its key$/m);
});

it("leaves no timers behind, such as those of the leases of stopped runs", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  await rehearse((run, manager) =>
    run.step("parent", () => manager.run("child", (child) => child.step("one", () => 1))),
  );
  expect(vi.getTimerCount()).toBe(0);
});

describe("it finds", () => {
  it("a name that depends on chance", async () => {
    let calls = 0;
    const { problems } = await rehearse(async (run) => {
      const name = `step ${++calls}`;
      await run.step(name, () => 1);
      return run.step("last", () => 2);
    });
    expect(problems).toEqual([
      expect.objectContaining({
        kind: "unstable",
        message: expect.stringMatching(
          /^not every run has the step "step \d+", "step \d+", "step \d+" and \d+ more: a name/,
        ),
      }),
    ]);
  });

  it("a result that depends on something outside the steps", async () => {
    const outside: string[] = [];
    const { problems, text } = await rehearse(async (run) => {
      outside.push(await run.step("a", () => "a"));
      await run.step("b", () => "b");
      return outside.length;
    });
    expect(problems.map(({ kind }) => kind)).toEqual(expect.arrayContaining(["different"]));
    expect(text).toMatch(/different: the run's result is \d+ instead of 1 \(stopped before Run started is saved/);
  });

  it("a step with another result each time", async () => {
    let calls = 0;
    const { problems } = await rehearse(async (run) => {
      await run.step("count", () => ++calls);
      return "done";
    });
    expect(problems).toEqual([expect.objectContaining({ kind: "different", stop: "before Run started is saved" })]);
  });

  it("steps whose order decides the result", async () => {
    const { problems } = await rehearse(async (run) => {
      const order: string[] = [];
      const ids = ["a", "b", "c", "d"];
      await Promise.all(ids.map((id) => run.step(id, () => order.push(id))));
      return order.join("");
    });
    expect(problems.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^the run's result is '[a-d]*' instead of 'abcd'$/),
    );
  });

  it("a milestone that differs after a resume", async () => {
    let calls = 0;
    const { problems } = await rehearse(async (run) => {
      calls += 1;
      await run.step("a", () => 1);
      await run.save({ calls });
      return "done";
    });
    expect(problems).toContainEqual(
      expect.objectContaining({
        message: expect.stringMatching(/^milestone 1 differs at \.state\.calls: it is [2-9]/),
      }),
    );
  });

  it("a value that can't be stored", async () => {
    const { problems, stops, result } = await rehearse((run) => run.step("a", (): unknown => ({ list: [() => 1] })));
    expect(problems).toEqual([
      expect.objectContaining({ kind: "unstorable", message: expect.stringMatching(/list\[0\]/) }),
    ]);
    expect([stops, result]).toEqual([0, undefined]);
  });

  it("a run that fails when it is resumed", async () => {
    let isFirst = true;
    const { problems } = await rehearse(async (run) => {
      await run.step("a", () => 1);
      if (!isFirst) throw new Error("no second time");
      await run.step("b", () => 2);
      isFirst = false;
      return 3;
    });
    expect(problems).toContainEqual(
      expect.objectContaining({ kind: "failed", message: "the resumed run throws Error: no second time" }),
    );
  });
});

it("also stops the child runs of the run", async () => {
  const program = (add: () => number) =>
    rehearse(async (run, manager) => {
      const child = await run.step("child", () =>
        manager.run("child", async (within) => (await within.step("a", add)) + (await within.step("b", add))),
      );
      return run.step("last", () => child);
    });
  const same = await program(() => 1);
  expect(same).toMatchObject({ problems: [], steps: 4, result: 2 });
  expect(same.ranTwice.map(({ step }) => step)).toEqual(expect.arrayContaining(["child", "a of child", "b of child"]));
  let calls = 0;
  expect((await program(() => ++calls)).problems[0]).toMatchObject({ kind: "different" });
});

it("reports a step with atMostOnce that a stop interrupted, and whether the function catches the error", async () => {
  const program = (isCaught: boolean) =>
    rehearse(async (run) => {
      try {
        return await run.step("tag", () => "tagged", { atMostOnce: true });
      } catch (error) {
        if (!isCaught) throw error;
        return run.step("look", () => "found");
      }
    });
  for (const isCaught of [true, false]) {
    const { problems, interrupted, text } = await program(isCaught);
    expect(problems, text).toEqual([]);
    expect(interrupted).toEqual([{ step: "tag", stops: 2, isCaught }]);
    expect(text).toMatch(
      isCaught
        ? /tag {2}after 2 stops: the function catches the StepInterruptedError/
        : /ends with a StepInterruptedError/,
    );
  }
});

it("gives up on a step that waits for another step that the stop cut off", async () => {
  const { problems } = await rehearse(
    async (run) => {
      let stop: () => void = () => undefined;
      const stopped = new Promise<void>((resolve) => {
        stop = resolve;
      });
      await Promise.all([run.step("watch", () => stopped), run.step("build", () => 1).then(stop)]);
      return "built";
    },
    { kills: 3 },
  );
  expect(problems).toEqual([]);
});

it("doesn't wait between the retries of a step", async () => {
  const { problems } = await rehearse(async (run) => {
    const retry = { times: 1, backoffMs: 2 ** 30 };
    await run.step("a", ({ attempt }) => (attempt === 1 ? Promise.reject(new Error("no")) : "done"), { retry });
  });
  expect(problems).toEqual([]);
});

it("counts a stop once, even if it shows a problem in several ways", async () => {
  let calls = 0;
  const { problems, stops } = await rehearse(async (run) => {
    const one = await run.step("one", () => ++calls);
    return run.step("two", () => [one, ++calls]);
  });
  for (const problem of problems) expect(problem.stops).toBeLessThanOrEqual(stops);
});

it("runs no catch and no finally of the program at a stop", async () => {
  const after: string[] = [];
  const { problems } = await rehearse(async (run) => {
    try {
      const result = await run.step("a", () => 1);
      after.push("step");
      return result;
    } catch {
      after.push("catch");
      return 2;
    } finally {
      after.push("finally");
    }
  });
  expect(problems).toEqual([]);
  expect(after).not.toContain("catch");
  expect(after.filter((what) => what === "finally")).toHaveLength(after.filter((what) => what === "step").length);
});

it("stops at `kills` places, spread over the run", async () => {
  const program = async (run: { step: (name: string, fn: () => number) => Promise<number> }) => {
    for (let step = 1; step <= 20; step++) await run.step(`step ${step}`, () => step);
    return 0;
  };
  expect(await rehearse(program, { kills: 5 })).toMatchObject({ stops: 5, problems: [] });
});

it("resets the world before each run, and names the place that differs", async () => {
  const world = { ledger: [] as string[], runs: 0 };
  const program = (kept: () => unknown) =>
    rehearse(
      async (run) => {
        const receipt = await run.step("send", ({ key }) => {
          if (!world.ledger.includes(key)) world.ledger.push(key);
          return world.ledger.length;
        });
        return { receipts: [{ receipt, kept: kept() }] };
      },
      {
        before: () => {
          world.ledger = [];
          world.runs += 1;
        },
      },
    );
  expect((await program(() => 0)).problems).toEqual([]);
  const { problems } = await program(() => world.runs);
  expect(problems).toMatchObject([
    { message: expect.stringMatching(/^the run's result differs at \.receipts\[0\]\.kept: it is \d+ instead of \d+$/) },
  ]);
  await expect(rehearse(() => 1, { before: 7 } as object)).rejects.toThrow(/before/);
});

it("takes the manager's schema and redaction, and the run's input", async () => {
  const rehearsal = await rehearse(
    async (run) => {
      const { token } = await run.step("login", () => ({ token: "secret" }));
      return run.state.at.getTime() + run.input + token.length;
    },
    {
      ...{ schema: z.object({ at: z.coerce.date() }), initialState: { at: new Date(5) }, input: 7 },
      redact: { paths: ["step.login.token"] },
    },
  );
  expect(rehearsal).toMatchObject({ problems: [], result: 12 + "[redacted]".length });
});

it("throws the undisturbed run's error, and names a misspelled option", async () => {
  await expect(rehearse(() => Promise.reject(new RangeError("no")))).rejects.toThrow(RangeError);
  await expect(rehearse(() => 1, { kill: "every" } as object)).rejects.toThrow(/kill/);
  await expect(rehearse(() => 1, { kills: 0 })).rejects.toThrow(/kills/);
});

it("sends the events that a run waits for, ends sleeps at once, and stops between them", async () => {
  const rehearsal = await rehearse(
    async (run) => {
      const first = await run.waitFor<number>("approve");
      await run.sleepUntil("night", new Date(8e15));
      const late = await run.waitFor("late", { timeoutMs: 1e9 });
      const second = await run.waitFor<number>("approve");
      return [first.value, late, second.value, await run.step("act", () => "done")];
    },
    { events: { approve: [1, 2] } },
  );
  expect(rehearsal).toMatchObject({ problems: [], result: [1, undefined, 2, "done"] });
  expect(rehearsal.stops).toBeGreaterThan(8);
  const short = rehearse((run) => run.waitFor("approve"));
  await expect(short).rejects.toThrow(/waits for an event "approve" that the rehearsal doesn't have/);
});
