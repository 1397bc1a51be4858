// Tests which records of a run a retention policy keeps, and that the others are removed.
import { expect, it } from "vitest";
import type { Run } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { resolveOptions } from "../../../src/manager/options.js";
import { collect } from "../../support/collect.js";
import { draftRecord } from "../../support/draft-record.js";
import { managerOn } from "./run-support.js";

interface State {
  readonly turn: number;
}

it("a policy keeps what an unfinished run needs: its turn's first state, its results and its input", async () => {
  const { manager } = managerOn(undefined, { retention: { keepLast: 1 } });
  const ran: string[] = [];
  const program = (input?: string) =>
    manager.run(
      "t",
      async (run: Run<State, unknown, string>) => {
        if (run.state.turn < 2) return run.next({ turn: run.state.turn + 1 });
        await run.step("a", () => ran.push("a"));
        await run.save({ turn: 7 });
        await run.save({ turn: 8 });
        if (run.attempt === 1) throw new Error("stop");
        return [run.state.turn, run.input];
      },
      { initialState: { turn: 0 }, ...(input !== undefined && { input }) },
    );
  await expect(program("in")).rejects.toThrow("stop");
  await manager.retention.prune("t", { keepLast: 1 });
  expect(await program()).toEqual([2, "in"]);
  expect(ran).toEqual(["a"]);
  expect(await manager.result("t")).toEqual([2, "in"]);
});

it("a policy removes the old chunks of an open turn, and nothing else of it", async () => {
  const { manager, storage } = managerOn();
  const draftChunk = () =>
    draftRecord(resolveOptions({ storage }), { taskId: "t", kind: "chunk", name: "a", value: "" });
  const running = manager.run("t", async (run) => {
    await run.step("a", async () => storage.log?.append("t", [await draftChunk()]));
    await run.save({ turn: 1 });
    throw new Error("stop");
  });
  await expect(running).rejects.toThrow("stop");
  const kinds = async () => (await collect(manager.records("t"))).map(({ kind }) => kind);
  const before = await kinds();
  expect(before).toContain("chunk");
  await manager.retention.prune("t", { chunks: { maxBytes: 0 } });
  expect(await kinds()).toEqual(before.filter((kind) => kind !== "chunk"));
});

it("the records of a turn go with it after later saves, also those that the turn needed at an earlier one", async () => {
  const { manager } = managerOn(undefined, { retention: { keepLast: 1 } });
  await manager.run(
    "t",
    async (run: Run<State>) => {
      const { turn } = run.state;
      for (const part of [1, 2, 3]) {
        await run.step(`step ${turn} ${part}`, () => part);
        await run.save({ turn: -part });
      }
      return turn === 3 ? "done" : run.next({ turn: turn + 1 });
    },
    { initialState: { turn: 0 } },
  );
  expect(await collect(manager.records("t", { kinds: ["step"] }))).toEqual([]);
});

it("the records of a task that was removed and begun again go with their checkpoints", async () => {
  const storage = new MemoryAdapter();
  const { manager } = managerOn(storage, { retention: { keepLast: 1 } });
  const saveWithChunk = async (name: string) => {
    await storage.log.append("t", [
      await draftRecord(resolveOptions({ storage }), { taskId: "t", kind: "chunk", name, value: "" }),
    ]);
    await manager.save("t", name);
  };
  for (const name of ["a", "b", "c"]) await saveWithChunk(name);
  await manager.removeTask("t");
  for (const name of ["d", "e"]) await saveWithChunk(name);
  const chunks = await collect(manager.records("t", { kinds: ["chunk"] }));
  expect(chunks).toMatchObject([{ name: "e" }]);
});

it.each([{ maxBytes: 0 }, { maxAgeMs: 1000 }])(
  "a policy of %j says that a completed run's result goes, and with it the id's idempotency",
  async (policy) => {
    let nowMs = Date.UTC(2026, 10, 30);
    const { manager } = managerOn(undefined, { clock: () => nowMs });
    let calls = 0;
    const pay = () => manager.run("pay-7", (run) => run.step("pay", () => (calls += 1)));
    expect([await pay(), await pay()]).toEqual([1, 1]);
    nowMs += 2000;
    const plan = await manager.retention.plan("pay-7", policy);
    expect(plan.remove[0]?.reasons.at(-1)).toBe("its run's result goes too");
    expect(plan.keep).toEqual([]);
    await manager.retention.apply(plan);
    expect(await pay()).toBe(2);

    await manager.save("build", 1, { status: "completed" });
    nowMs += 2000;
    const [removed] = (await manager.retention.plan("build", policy)).remove;
    expect(removed?.reasons).not.toContain("its run's result goes too");
  },
);
