// Tests run.next, run.save and run.state: the state at a turn's beginning, and the content of its milestones.
import { expect, it } from "vitest";
import {
  type CheckpointManager,
  type NextTurn,
  StateInvalidError,
  StateNotSerializableError,
  StorageError,
} from "waymark";
import { isTransient } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { readRun } from "../../../src/runs/run-view.js";
import { dyingAfter, managerOn } from "./run-support.js";

interface Chat {
  turns: number;
  said: string[];
}

const begin: Chat = { turns: 0, said: [] };

/** An agent of three turns with two steps each. It changes its state in place. */
const agent = (manager: CheckpointManager, ran: string[] = []) =>
  manager.run(
    "agent",
    async (run) => {
      const chat = run.state;
      chat.said.push(await run.step("model", () => `model ${ran.push(`model ${chat.turns}`)}`));
      await run.step("tool", () => ran.push(`tool ${chat.turns}`));
      chat.turns += 1;
      return chat.turns === 3 ? chat.said.length : run.next(chat, { stage: "turn" });
    },
    { initialState: begin },
  );

it("run.next saves a milestone and begins the function anew with its state", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  expect(await agent(manager, ran)).toBe(3);
  expect(ran).toEqual(["model 0", "tool 0", "model 1", "tool 1", "model 2", "tool 2"]);
  const saved: unknown[] = [];
  for await (const checkpoint of manager.history("agent", { order: "oldest" })) {
    const { stage, state, status } = checkpoint;
    const run = await readRun(manager, checkpoint);
    saved.push([
      stage,
      state,
      status,
      run?.turn,
      run?.isTurnOver,
      run?.steps.map(({ name, result }) => [name, result]),
    ]);
  }
  // The results of earlier turns stay readable.
  const steps = (turn: number) => [
    ["model", `model ${2 * turn - 1}`],
    ["tool", 2 * turn],
  ];
  expect(saved).toEqual([
    [undefined, { turns: 0, said: [] }, "running", 1, false, []],
    ["turn", { turns: 1, said: ["model 1"] }, "running", 1, true, steps(1)],
    ["turn", { turns: 2, said: ["model 1", "model 3"] }, "running", 2, true, steps(2)],
    ["turn", { turns: 2, said: ["model 1", "model 3"] }, "completed", 3, true, steps(3)],
  ]);
});

it("a loop that is stopped after any save continues in the same turn, with the state from its beginning", async () => {
  for (let saves = 1; saves <= 9; saves++) {
    const storage = new MemoryAdapter();
    const ran: string[] = [];
    await expect(agent(managerOn(dyingAfter(saves, storage)).manager, ran)).rejects.toThrow(StorageError);
    expect(await agent(managerOn(storage).manager, ran)).toBe(3);
    // Only the step whose save was cut off runs again.
    expect(ran.length - new Set(ran).size).toBeLessThanOrEqual(1);
    expect(new Set(ran).size).toBe(6);
  }
});

it("run.state is the turn's first state at each resume, even if the function has changed its copy", async () => {
  const { manager } = managerOn();
  const seen: unknown[] = [];
  const program = () =>
    manager.run(
      "t",
      async (run) => {
        seen.push(structuredClone(run.state));
        run.state.n += 1;
        await run.step("a", () => 1);
        if (seen.length < 3) throw new Error("again");
        return run.state.n;
      },
      { initialState: { n: 7 } },
    );
  await expect(program()).rejects.toThrow("again");
  await expect(program()).rejects.toThrow("again");
  expect(await program()).toBe(8);
  expect(seen).toEqual([{ n: 7 }, { n: 7 }, { n: 7 }]);
});

it("a run without a state has undefined, also with a schema that refuses it", async () => {
  const { manager } = managerOn(undefined, { schema: z.object({ n: z.number() }) });
  await manager.run("t", async (run) => {
    expect(run.state).toBeUndefined();
    await run.step("a", () => 1);
    expect((await manager.latest("t"))?.state).toBeUndefined();
  });
});

it("a run begins with the state of the task's newest checkpoint", async () => {
  const { manager } = managerOn();
  await manager.save("t", { n: 1 });
  const last = await manager.save("t", { n: 2 }, { stage: "plan" });
  expect(await manager.run("t", (run) => run.step("a", () => run.state), { initialState: { n: 0 } })).toEqual({ n: 2 });
  expect((await manager.list("t", { order: "oldest" })).map(({ sequence }) => sequence).slice(0, 2)).toEqual([1, 2]);
  expect((await manager.latest("t"))?.stage).toBe(last.stage);
});

it("a schema's codecs convert between the function's and the stored values", async () => {
  const date = z.codec(z.iso.datetime(), z.date(), {
    decode: (text) => new Date(text),
    encode: (at) => at.toISOString(),
  });
  const { manager } = managerOn(undefined, { schema: z.object({ at: date }) });
  const result = await manager.run(
    "t",
    (run): Date | NextTurn => {
      if (run.state.at.getTime() > 5) return run.state.at;
      return run.next({ at: new Date(6) });
    },
    { initialState: { at: new Date(5) } },
  );
  expect(result).toEqual(new Date(6));
});

it("a state that can't be saved is refused by the call of run.next", async () => {
  const { manager } = managerOn();
  const unstorable = manager.run("t", (run) => run.next({ f: () => 1 }));
  await expect(unstorable).rejects.toThrow(StateNotSerializableError);
  const strict = managerOn(undefined, { schema: z.object({ n: z.number() }) }).manager;
  // @ts-expect-error: the schema has a number there.
  await expect(strict.run("t", (run) => run.next({ n: "1" }))).rejects.toThrow(StateInvalidError);
});

it("the value of run.next must be returned, and no call may follow it", async () => {
  const { manager } = managerOn();
  await expect(manager.run("a", (run) => void run.next(1))).rejects.toThrow(/must return its value/);
  await expect(manager.run("b", (run) => [run.next(1), run.next(2)][1])).rejects.toThrow(/after its turn was over/);
  const after = manager.run("c", async (run) => {
    run.next(1);
    await run.step("late", () => 1);
  });
  await expect(after).rejects.toThrow(TypeError);
  let former: unknown;
  const kept = manager.run("d", (run) => {
    former ??= run.next(1);
    return former as NextTurn;
  });
  await expect(kept).rejects.toThrow(/must return its value/);
});

it("run.next and run.save are refused beside a step and within one", async () => {
  const { manager } = managerOn();
  for (const call of ["next", "save"] as const) {
    const beside = manager.run(`beside ${call}`, async (run) => {
      const step = run.step("a", () => 1);
      try {
        await run[call](1);
      } finally {
        await step;
      }
    });
    await expect(beside).rejects.toThrow(/while a step is under way \("a"\)/);
    const within = manager.run(`within ${call}`, (run) => run.step("a", async () => void (await run[call](1))));
    await expect(within).rejects.toThrow(/inside step "a"/);
  }
});

it("run.save changes only the result of `latest`, and a resume doesn't save again", async () => {
  const { manager, storage } = managerOn();
  const ids: string[] = [];
  const program = (on: CheckpointManager) =>
    on.run(
      "t",
      async (run) => {
        const plan = await run.step("plan", () => ["x"]);
        ids.push((await run.save({ n: 1, plan }, { stage: "planned", label: "Planned", metadata: { by: "me" } })).id);
        expect(run.state).toEqual({ n: 0 });
        ids.push((await run.save({ n: 2, plan }, { stage: "planned" })).id);
        await run.step("code", () => 1);
        if (ids.length < 6) throw new Error("again");
        return "done";
      },
      { initialState: { n: 0 } as { n: number; plan?: string[] } },
    );
  await expect(program(manager)).rejects.toThrow("again");
  // The second attempt saves that it continues, and its end.
  const dying = managerOn(dyingAfter(1, storage)).manager;
  await expect(program(dying)).rejects.toThrow("again");
  expect((await manager.latest("t"))?.state).toEqual({ n: 2, plan: ["x"] });
  expect(await program(manager)).toBe("done");
  expect(ids).toEqual([ids[0], ids[1], ids[0], ids[1], ids[0], ids[1]]);
  expect((await manager.latest("t"))?.state).toEqual({ n: 2, plan: ["x"] });
  const milestones = (await manager.list("t", { order: "oldest" })).filter((each) => !isTransient(each));
  expect(milestones.map(({ stage, label }) => [stage, label])).toEqual([
    ["planned", "Planned"],
    ["planned", undefined],
    ["planned", "Run failed after code"],
    ["planned", "Run completed"],
  ]);
  expect(milestones[0]?.metadata).toMatchObject({ by: "me" });
  expect((await manager.restore("t", ids[0]!)).state).toEqual({ n: 1, plan: ["x"] });
});

it("a run continues from a milestone of run.save, in the middle of its turn", async () => {
  const { manager, storage } = managerOn();
  const ran: string[] = [];
  const program = (on: CheckpointManager) =>
    on.run("t", async (run) => {
      await run.step("a", () => ran.push("a"));
      await run.save({ n: 1 });
      return run.step("b", () => `${ran.push("b")} ${JSON.stringify(run.state)}`);
    });
  await expect(program(managerOn(dyingAfter(3, storage)).manager)).rejects.toThrow(StorageError);
  expect(await program(manager)).toBe("3 undefined");
  expect(ran).toEqual(["a", "b", "b"]);
});
