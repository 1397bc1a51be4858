// Forks of runs.
import { expect, it } from "vitest";
import type { Run } from "waymark";
import { collect } from "../../support/collect.js";
import { managerOn } from "./run-support.js";

it("a run can be forked at each of its records, and runs the steps after that record again", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = (taskId: string) =>
    manager.run(
      taskId,
      async (run: Run<{ readonly turn: number }>) => {
        const { turn } = run.state;
        for (const name of ["a", "b"]) await run.step(name, () => ran.push(`${turn}${name}`));
        if (turn === 1) await run.save({ turn: 9 }, { stage: "half" });
        return turn === 2 ? "done" : run.next({ turn: turn + 1 });
      },
      { initialState: { turn: 0 } },
    );
  await program("t");
  const all = ran.splice(0);
  let recorded = 0;
  const ranAgain: string[][] = [];
  const items = await collect(manager.records("t"));
  for (const { sequence, kind } of items.slice(items.findIndex((item) => item.kind === "checkpoint"))) {
    if (kind === "step") recorded += 1;
    await manager.fork("t", sequence, `fork-${sequence}`);
    expect(await program(`fork-${sequence}`)).toBe("done");
    ranAgain.push(ran.splice(0));
    if (sequence < (items.at(-1)?.sequence ?? 0)) expect(ranAgain.at(-1)).toEqual(all.slice(recorded));
  }
  // From a run that has ended, the last turn runs again.
  expect(ranAgain.at(-1)).toEqual(["2a", "2b"]);
});

it("a fork of a failed run doesn't count the attempts of its steps that had ended", async () => {
  const { manager } = managerOn();
  const attempts: number[] = [];
  const program = (taskId: string) =>
    manager.run(taskId, (run) =>
      run.step("a", ({ attempt }) => {
        attempts.push(attempt);
        throw new Error("stop");
      }),
    );
  await expect(program("t")).rejects.toThrow("stop");
  await manager.fork("t", (await manager.latest("t"))?.id ?? "", "copy");
  await expect(program("copy")).rejects.toThrow("stop");
  await expect(program("t")).rejects.toThrow("stop");
  expect(attempts).toEqual([1, 1, 2]);
});

it("an event whose receipt a fork has, and whose wait its function no longer has, is received by the next turn", async () => {
  const { manager } = managerOn();
  await manager.send("t", "msg", "hello");
  const stopping = async (run: Run) => {
    await run.waitFor("msg");
    await run.step("work", () => 1);
    throw new Error("stop");
  };
  await expect(manager.run("t", stopping)).rejects.toThrow("stop");
  const steps = await collect(manager.records("t", { kinds: ["step"] }));
  await manager.fork("t", steps.at(-1)?.sequence ?? 0, "copy");
  const changed = async (run: Run) => {
    if (run.state === undefined) return run.next(await run.step("work", () => 2));
    if (run.attempt === 1) throw new Error("stop");
    return (await run.waitFor("msg", { timeoutMs: 0 }))?.value;
  };
  await expect(manager.run("copy", changed)).rejects.toThrow("stop");
  expect(await manager.run("copy", changed)).toBe("hello");
});

it("a completed run's checkpoint names no time to continue, and a fork or rewind of it does", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) => run.step("work", () => 1));
  const checkpoints = await manager.list("t");
  expect(checkpoints.map(({ status, dueAt }) => [status, dueAt])).toEqual([
    ["completed", undefined],
    ["running", expect.any(String)],
  ]);
  expect(await manager.queue({ prefix: "t" })).toMatchObject({ tasks: 0 });
  await manager.fork("t", checkpoints[0]?.id ?? "", "t/copy");
  expect(await manager.queue({ prefix: "t/" })).toMatchObject({ tasks: 1 });
  await manager.rewind("t", checkpoints[0]?.id ?? "");
  expect(await manager.queue({ prefix: "t" })).toMatchObject({ tasks: 2 });
});
