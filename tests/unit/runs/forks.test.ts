// Tests forks of runs.
import { expect, it } from "vitest";
import { CheckpointConflictError, type Run } from "waymark";
import { readRun } from "../../../src/runs/run-view.js";
import { collect } from "../../support/collect.js";
import { managerOn, runOf } from "./run-support.js";

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
  for (const { sequence, kind } of items) {
    if (kind === "step") recorded += 1;
    await manager.fork("t", sequence, `fork-${sequence}`);
    expect(await program(`fork-${sequence}`)).toBe("done");
    ranAgain.push(ran.splice(0));
    if (sequence < (items.at(-1)?.sequence ?? 0)) expect(ranAgain.at(-1)).toEqual(all.slice(recorded));
  }
  // A fork of an ended run runs the last turn again.
  expect(ranAgain.at(-1)).toEqual(["2a", "2b"]);
});

it("a run can be forked and rewound at each record that a fork or a rewind has carried", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = async (taskId: string) => {
    await manager.run(
      taskId,
      async (run: Run<number, number, string>) => {
        for (const name of ["a", "b", "c"]) await run.step(name, () => ran.push(`${run.state}${name}`));
        return run.state === 1 ? run.input : run.next(run.state + 1);
      },
      { initialState: 0, input: "in" },
    );
    return ran.splice(0).join(" ");
  };
  const all = ["0a", "0b", "0c", "1a", "1b", "1c"];
  await manager.send("t", "early", 1);
  await program("t");
  const [first, second] = await collect(manager.records("t", { kinds: ["step"] }));
  expect(first).toMatchObject({ sequence: 5, name: "a" });
  await manager.fork("t", second?.sequence ?? 0, "fork");
  await manager.rewind("t", second?.sequence ?? 0);
  const begin = (await manager.latest("t"))?.sequence ?? 0;
  const ofBranch = [
    ["fork", await collect(manager.records("fork"))],
    ["t", await collect(manager.records("t", { afterSequence: begin - 4 }))],
  ] as const;
  for (const [taskId, records] of ofBranch) {
    const left: string[] = [];
    for (const { sequence } of records) {
      await manager.fork(taskId, sequence, `${taskId}-${sequence}`);
      left.push(await program(`${taskId}-${sequence}`));
    }
    const [fromA, fromB, fromC] = [0, 1, 2].map((from) => all.slice(from).join(" "));
    // The records are the events, the steps a and b, the input, and the checkpoint.
    expect(left).toEqual([...(taskId === "fork" ? [fromA] : []), fromB, fromC, fromC, fromC]);
  }
  await manager.rewind("t", begin - 3);
  expect(await program("t")).toBe(all.slice(1).join(" "));
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

it("a step that a fork or a rewind found running isn't shown as running there, and its start counts", async () => {
  const { manager, storage } = managerOn();
  const other = managerOn(storage).manager;
  const attempts: number[] = [];
  let isKilled = true;
  const program = (taskId: string) =>
    manager.run(taskId, async (run) => {
      await run.step("plan", () => 1);
      await run.step("build", async ({ attempt }) => {
        attempts.push(attempt);
        if (!isKilled) return;
        isKilled = false;
        await other.fork("t", 4, "fork");
        await other.rewind("t", 4);
      });
    });
  await expect(program("t")).rejects.toThrow(CheckpointConflictError);
  for (const taskId of ["fork", "t"]) {
    expect((await manager.latest(taskId))?.label).toBe("Run started");
    expect((await runOf(manager, taskId))?.steps).toMatchObject([{ name: "plan", status: "completed" }]);
    await program(taskId);
  }
  expect(attempts).toEqual([1, 2, 2]);
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

it("a fork of a completed run begins its next turn", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) => run.step("work", () => 1));
  expect(await runOf(manager, "t")).toMatchObject({ turn: 1 });
  await manager.fork("t", (await manager.latest("t"))?.id ?? "", "fork");
  expect(await runOf(manager, "fork")).toMatchObject({ turn: 2, steps: [] });
});

it("the first checkpoint of a fork shows the copied steps, also after the run continues", async () => {
  const { manager } = managerOn();
  const program = (taskId: string) =>
    manager.run(taskId, async (run) => {
      if (run.state === undefined) return run.next(1);
      await run.step("work", () => 1);
      return run.step("end", () => 2);
    });
  await program("t");
  const [work] = await collect(manager.records("t", { kinds: ["step"] }));
  const first = await manager.fork("t", work?.sequence ?? 0, "fork");
  await program("fork");
  expect(await readRun(manager, first)).toMatchObject({ turn: 2, isTurnOver: false, steps: [{ name: "work" }] });
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
