// Tests changed code, versions, inputs and restarts.
import { describe, expect, it } from "vitest";
import { type CheckpointManager, type Run, RunMismatchError, type RunOptions } from "waymark";
import { managerOn, runOf } from "./run-support.js";

/** Fails every attempt after its steps, and records which of them ran. */
function stepsOf(manager: CheckpointManager) {
  const ran: string[] = [];
  const attempt = async (names: readonly string[], options: RunOptions<number> = {}) => {
    ran.length = 0;
    const running = manager.run(
      "t",
      async (run) => {
        for (const name of names) await run.step(name, () => ran.push(name));
        throw new Error("stop");
      },
      options,
    );
    await expect(running).rejects.toThrow("stop");
    return ran.join();
  };
  return attempt;
}

it("a new step runs, a removed one is ignored, and a changed order doesn't matter", async () => {
  const { manager } = managerOn();
  const attempt = stepsOf(manager);
  expect(await attempt(["a", "b", "c"])).toBe("a,b,c");
  expect(await attempt(["c", "new", "a"])).toBe("new");
  expect(await attempt(["a", "b", "c", "new"])).toBe("");
});

it("steps of one name are told apart by their order, unless their input shows that they moved", async () => {
  const fetchAll = async (taskId: string, items: readonly string[], fails: boolean, hasInput: boolean) => {
    return manager.run(taskId, async (run) => {
      const results: string[] = [];
      for (const item of items)
        results.push(await run.step("fetch", () => `of ${item}`, hasInput ? { input: item } : {}));
      if (fails) throw new Error("stop");
      return results.join();
    });
  };
  const { manager } = managerOn();
  for (const hasInput of [false, true]) {
    const taskId = `with input: ${hasInput}`;
    await expect(fetchAll(taskId, ["a", "b"], true, hasInput)).rejects.toThrow("stop");
    const resumed = await fetchAll(taskId, ["new", "a", "b"], false, hasInput);
    expect(resumed).toBe(hasInput ? "of new,of a,of b" : "of a,of b,of b");
  }
});

it("an event and the log name recorded steps that the function doesn't call", async () => {
  const { manager, logger } = managerOn();
  const unused: unknown[] = [];
  manager.on("stepsUnused", (details) => unused.push(details));
  await stepsOf(manager)(["a", "b", "b"]);
  await manager.run("t", (run) => run.step("b", () => expect.unreachable()));
  expect(unused).toEqual([{ taskId: "t", steps: ["a", "b 2"] }]);
  expect(logger.lines.filter(({ level }) => level === "warn").at(-1)).toMatchObject({
    message: expect.stringMatching(/task "t" .*: "a", "b 2"$/),
  });
});

describe("another version", () => {
  it("is refused with both versions, and nothing runs", async () => {
    const { manager } = managerOn();
    const attempt = stepsOf(manager);
    await attempt(["a"], { version: 1 });
    for (const version of [2, "1", undefined]) {
      const refused = manager.run("t", () => expect.unreachable(), { version });
      await expect(refused).rejects.toThrow(RunMismatchError);
      const name = version === undefined ? "without a version" : `with version ${JSON.stringify(version)}`;
      await expect(refused).rejects.toThrow(`with version 1, but is now called ${name}`);
    }
    expect(await attempt(["a"], { version: 1 })).toBe("");
  });

  it("resumes or starts over, as ifVersionChanged says", async () => {
    const { manager } = managerOn();
    const attempt = stepsOf(manager);
    await attempt(["a"], { version: 1 });
    expect(await attempt(["a", "b"], { version: 2, ifVersionChanged: "resume" })).toBe("b");
    expect(await attempt(["a", "b"], { version: 2 })).toBe("");
    expect(await attempt(["a", "b"], { version: 3, ifVersionChanged: "restart" })).toBe("a,b");
    expect(await runOf(manager, "t")).toMatchObject({ version: 3, attempt: 1 });
  });
});

it("restart starts a completed run over, with initialState", async () => {
  const { manager } = managerOn();
  const options = { initialState: 0 };
  const program = (restart: boolean) =>
    manager.run("t", (run) => (run.state === 2 ? `done in attempt ${run.attempt}` : run.next(run.state + 1)), {
      ...options,
      restart,
    });
  expect(await program(false)).toBe("done in attempt 1");
  expect(await program(true)).toBe("done in attempt 1");
  expect((await manager.list("t")).map(({ label }) => label)).toEqual([
    "Run completed",
    undefined,
    undefined,
    "Run started",
    "Run completed",
    undefined,
    undefined,
    "Run started",
  ]);
});

it("inputs are equal whatever the order of their properties; undefined properties don't count", async () => {
  const { manager } = managerOn();
  await manager.run("t", () => 1, { input: { a: 1, b: { c: 2, d: 3 } } });
  const input = { b: { d: 3, c: 2 }, a: 1, e: undefined };
  expect(await manager.run("t", () => expect.unreachable(), { input })).toBe(1);
});

it("ifVersionChanged restart begins with initialState, not with the state of the other version's run", async () => {
  const { manager } = managerOn();
  const first = manager.run(
    "t",
    (run) => (run.state.n === 0 ? run.next({ n: 1 }) : Promise.reject(new Error("stop"))),
    {
      ...{ version: 1, initialState: { n: 0 } },
    },
  );
  await expect(first).rejects.toThrow("stop");
  const initialState = { n: 0 };
  expect(await manager.run("t", (run) => run.state.n, { version: 2, ifVersionChanged: "restart", initialState })).toBe(
    0,
  );
});

it("a completed run refuses another input, instead of returning the first input's result", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) => run.input.n, { input: { n: 1 } });
  await expect(manager.run("t", () => 0, { input: { n: 2 } })).rejects.toThrow(RunMismatchError);
  expect(await manager.run("t", () => 0, { input: { n: 1 } })).toBe(1);
  expect(await manager.run("t", () => 0)).toBe(1);
});

it("a run keeps the input that it began with, and another one is refused", async () => {
  const { manager } = managerOn();
  const seen: unknown[] = [];
  const program = (options: RunOptions<{ url: URL }, undefined>) =>
    manager.run(
      "t",
      (run: Run<unknown, unknown, { url: URL }>) => {
        seen.push(run.input);
        if (seen.length < 3) throw new Error("stop");
      },
      options,
    );
  const input = { url: new URL("https://example.com/a") };
  await expect(program({ input })).rejects.toThrow("stop");
  await expect(program({ input })).rejects.toThrow("stop");
  await expect(program({ input: { url: new URL("https://example.com/b") } })).rejects.toThrow(RunMismatchError);
  await program({});
  expect(seen).toEqual([input, input, input]);
});
