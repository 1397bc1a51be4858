import { describe, expect, it } from "vitest";
import { planTask } from "waymark-runners/plans";
import { Project } from "./project.js";

const TWO = "- [ ] 1 Erste\r\n- [ ] 2 Zweite\r\n";

describe("a plan", () => {
  it("runs item by item: the coder, the gate, then the done-mark", async () => {
    const project = await Project.create(TWO);
    const { done, open, spent } = await project.run();
    expect([done, open]).toEqual([["1", "2"], []]);
    expect(spent).toMatchObject({ calls: 2, costUsd: 0.5, tokens: 200 });
    expect(await project.read("tasks.md")).toBe(TWO.replaceAll("[ ]", "[x]"));
    expect(await project.lines("calls")).toEqual(["1 work 1", "2 work 1"]);
    expect(await project.lines("gates")).toHaveLength(2);
    expect(await project.items()).toMatchObject({
      1: { status: "done", calls: 1, costUsd: 0.25 },
      2: { title: "Zweite" },
    });
    expect(planTask("a/b.md", ".")).toBe("plan/a/b.md");
  });

  it("tells the coder the item, its context and its gates", async () => {
    const project = await Project.create("## Phase 1\n- [ ] 1 Erste\n  - bullet\n");
    await project.write("spec.md", "");
    await project.run();
    const prompt = await project.read("prompt-1-1");
    for (const part of ['<item id="1">\nErste\n- bullet\n</item>', "Phase 1", "./gate", "tasks.md", "spec.md"]) {
      expect(prompt).toContain(part);
    }
  });

  it("asks the coder to fix what the gate finds, with its output", async () => {
    const project = await Project.create(TWO, { 1: ["break", "work"] });
    await project.run();
    expect(await project.lines("calls")).toEqual(["1 break 1", "1 work 2", "2 work 1"]);
    expect(await project.read("prompt-1-2")).toContain("out/1 is missing");
  });

  it("stops at an item that isn't done, takes back its mark, and begins it anew in the next run", async () => {
    const project = await Project.create(TWO, { 2: ["break", "break"] });
    await project.write("tasks.md", TWO);
    await expect(project.run({ maxFixes: 1 })).rejects.toMatchObject({
      code: "ITEM_FAILED",
      message: expect.stringMatching(/out\/2 is missing/),
    });
    expect(await project.read("tasks.md")).toBe(TWO.replace("[ ]", "[x]"));
    expect((await project.manager.tasks())[0]?.status).toBe("failed");

    const { done, spent } = await project.run({ maxFixes: 1 });
    expect([done, spent.calls]).toEqual([["2"], 4]);
    expect(await project.lines("calls")).toEqual(["1 work 1", "2 break 1", "2 break 2", "2 work 1"]);
  });

  it("counts a coder that exits with an error as a try, with the end of its output", async () => {
    const project = await Project.create(TWO, { 1: ["fail"], 2: ["fail", "fail"] });
    await expect(project.run({ maxFixes: 1 })).rejects.toThrow(/The coder exited with 1: the model is overloaded/);
    expect(await project.lines("gates")).toHaveLength(1);
  });

  it.each(["prose", "huge"])("lets the gates decide, whatever the coder says: %s", async (form) => {
    const project = await Project.create(TWO, { 1: [form] });
    expect((await project.run()).done).toEqual(["1", "2"]);
  });

  it("streams output into the log, up to a bound", async () => {
    const project = await Project.create("- [ ] 1 A\n", { 1: ["huge"] });
    await project.run();
    let streamed = "";
    for await (const { value } of project.manager.records("plan/tasks.md", { kinds: ["chunk"] })) {
      streamed += typeof value === "object" && value !== null && "chunk" in value ? String(value.chunk) : "";
    }
    expect(streamed).toMatch(/^x{1000}\n/);
    expect(streamed).toContain("the rest of this output isn't kept");
    expect(streamed.length).toBeLessThan(1_300_000);
  });

  it("waits for a usage limit, and then continues the session", async () => {
    const project = await Project.create("- [ ] 1 A\n", { 1: [{ limitMs: 1 }] });
    await project.run({ coder: "claude" });
    expect((await project.lines("calls")).map((line) => line.replace(/\{.*?\}|\[object Object\]/, "limit"))).toEqual([
      "1 limit 1",
      "1 work --resume s-1-1 2",
    ]);
    const waits: string[] = [];
    for await (const { name = "" } of project.manager.records("plan/tasks.md", { kinds: ["step"] })) waits.push(name);
    expect(waits).toEqual(["next", "1 coder", "1 usage limit", "1 coder", "1 gate ./gate", "1 finish", "next"]);
  });

  it("continues the session in a fix round, and begins a new one if that is gone", async () => {
    const project = await Project.create("- [ ] 1 A\n", { 1: ["break", "lost"] });
    await project.run({ coder: "claude" });
    expect(await project.lines("calls")).toEqual(["1 break 1", "1 lost --resume s-1-1 2", "1 work 2"]);
  });

  it("stops when the budget is spent, and continues with a larger one", async () => {
    const project = await Project.create("- [ ] 1 A\n- [ ] 2 B\n- [ ] 3 C\n");
    await expect(project.run({ budget: { usd: 0.5 } })).rejects.toMatchObject({ code: "BUDGET_SPENT" });
    expect(await project.lines("calls")).toHaveLength(2);
    await expect(project.run({ budget: { tokens: 200 } })).rejects.toMatchObject({ code: "BUDGET_SPENT" });
    expect((await project.run({ budget: { usd: 0.75 } })).spent).toMatchObject({ calls: 3, costUsd: 0.75 });
  });

  it("pauses after --max-items, and runs items that were added later", async () => {
    const project = await Project.create(TWO);
    expect(await project.run({ maxItems: 1 })).toMatchObject({ done: ["1"], open: ["2"] });
    expect((await project.manager.tasks())[0]?.status).toBe("paused");
    expect(await project.run()).toMatchObject({ done: ["2"], open: [] });
    expect(await project.run()).toMatchObject({ done: [], open: [] });
    await project.write("tasks.md", `${await project.read("tasks.md")}- [ ] 3 Dritte\n`);
    expect(await project.run()).toMatchObject({ done: ["3"] });
  });

  it("ends a group once its items are done, without a call", async () => {
    const project = await Project.create("- [ ] 1 Group\n  - [ ] 1.1 A\n- [ ] 2 B (depends on 3)\n- [ ] 3 C\n");
    expect((await project.run({ gates: ["true"] })).done).toEqual(["1.1", "1", "3", "2"]);
    expect(await project.lines("calls")).toEqual(["1.1 work 1", "3 work 1", "2 work 1"]);
  });

  it("runs optional and deferred items only if they are asked for", async () => {
    const project = await Project.create("- [ ] 1 A\n- [ ]* 2 B\n- [>] 3 C\n");
    expect(await project.run()).toMatchObject({ done: ["1"], open: [] });
    expect(await project.run({ only: ["2", "3"] })).toMatchObject({ done: ["2", "3"] });
    await expect(project.run({ only: ["9"] })).rejects.toThrow(/it has no item 9/);
  });

  it("is refused before the coder is asked if an item has no gate", async () => {
    const project = await Project.create(TWO);
    await expect(project.run({ gates: [] })).rejects.toMatchObject({
      code: "PLAN_INVALID",
      message: expect.stringMatching(/1, 2 have no gate, so nothing shows when the work is done/),
    });
    await expect(project.read("calls")).rejects.toThrow();
    expect((await project.run({ gates: [], allowsNoGates: true })).done).toEqual(["1", "2"]);
  });

  it("doesn't ask the coder to fix a gate that times out", async () => {
    const project = await Project.create(TWO);
    await expect(project.run({ gates: ["sleep 60"], gateTimeoutMs: 50 })).rejects.toMatchObject({
      code: "GATE_TIMED_OUT",
    });
    expect(await project.lines("calls")).toHaveLength(1);
    expect((await project.run()).done).toEqual(["1", "2"]);
    expect(await project.lines("calls")).toHaveLength(2);
  });
});

describe("with commits", () => {
  it("makes one commit per item, with its done-mark", async () => {
    const project = await Project.create(TWO, {}, { git: true });
    await project.run({ commits: true });
    expect((await project.git("log", "--format=%s")).split("\n")).toEqual(["2: Zweite", "1: Erste", "Begin"]);
    expect((await project.git("show", "--format=", "--name-only", "HEAD~1")).split("\n")).toEqual([
      "out/1",
      "tasks.md",
    ]);
    expect(await project.git("status", "--porcelain")).toBe("");
  });

  it("is refused with files that would land in the first item's commit, except the plan", async () => {
    const project = await Project.create(TWO, { 2: ["fail"] }, { git: true });
    await project.write("tasks.md", `${TWO}- [ ] 3 Dritte\r\n`);
    await project.write("mine.txt", "");
    const run = (options = {}) => project.run({ commits: true, maxFixes: 0, ...options });
    await expect(run()).rejects.toMatchObject({
      code: "TREE_DIRTY",
      message: expect.stringMatching(/: mine\.txt\. They would land in the commit/),
    });
    await expect(project.read("calls")).rejects.toThrow();

    await expect(run({ allowsDirty: true })).rejects.toMatchObject({ code: "ITEM_FAILED" });
    expect(await project.git("show", "--format=%s", "--name-only", "HEAD")).toBe(
      "1: Erste\n\nmine.txt\nout/1\ntasks.md",
    );
    // The changes of a failed item are no reason.
    await project.write("half-done", "");
    expect((await run()).done).toEqual(["2", "3"]);
  });

  it("is refused without a repository", async () => {
    const project = await Project.create(TWO);
    await expect(project.run({ commits: true })).rejects.toMatchObject({ code: "GIT_FAILED" });
  });
});
