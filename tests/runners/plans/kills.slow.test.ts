import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { randomFrom, SEED } from "../../support/seeded.js";
import { Project } from "./project.js";

const RUN = join(import.meta.dirname, "..", "..", "fixtures", "plans", "run.mjs");

function start(project: Project, options: object): ChildProcess {
  const args = [RUN, "tasks.md", JSON.stringify({ coder: "claude", gates: ["./gate"], commits: true, ...options })];
  return spawn(process.execPath, args, {
    cwd: project.cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** Runs the plan to its end, or to its kill. Returns its lines. */
async function run(project: Project, options: object = {}): Promise<readonly string[]> {
  const child = start(project, options);
  let said = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  await once(child, "close");
  return said.trimEnd().split("\n");
}

describe("a plan whose run is killed", () => {
  it.each([
    ["tick", "2 was finished before: it is marked as done"],
    ["commit", /^2 was finished before: commit \w{8} \(2: by the coder\)$/],
  ])("adopts an item that was finished and not recorded: %s", async (how, said) => {
    const project = await Project.create("- [ ] 1 A\n- [ ] 2 B\n", { 2: [how] }, { git: true });
    await run(project);
    const lines = await run(project);
    expect(lines[0]).toEqual(typeof said === "string" ? said : expect.stringMatching(said));
    expect(await project.lines("calls")).toEqual(["1 work 1", `2 ${how} 1`]);
    expect(await project.read("tasks.md")).toBe("- [x] 1 A\n- [x] 2 B\n");
    expect(await project.git("status", "--porcelain")).toBe("");
  });

  it("ends the coder with it, and tells the next one that work has begun", async () => {
    const project = await Project.create("- [ ] 1 A\n", { 1: ["hang"] }, { git: true });
    const child = start(project, {});
    // It is written once the call is in `calls`.
    await project.until("prompt-1-1");
    child.kill("SIGKILL");
    await once(child, "close");
    await run(project);
    expect(await project.lines("calls")).toEqual(["1 hang 1", "1 work 2"]);
    expect(await project.read("prompt-1-2")).toContain("Work on this item has begun already");
  });

  it("does each of 30 items once in 40 kills, on trees that the gates have passed", { timeout: 600_000 }, async () => {
    const random = randomFrom(SEED);
    const items = Array.from({ length: 30 }, (_, index) => `T${String(index + 1).padStart(3, "0")}`);
    const kinds = [["fail"], ["break"], [{ limitMs: 300 }], ["prose"], [], [], []];
    const script = Object.fromEntries(items.map((id, index) => [id, kinds[index % kinds.length] ?? []]));
    const plan = items.map((id) => `- [ ] ${id} Item ${id}\n`).join("");
    const project = await Project.create(plan, script, { git: true });
    let kills = 0;
    for (let isOver = false, starts = 1; !isOver; starts++) {
      expect(starts).toBeLessThan(100);
      const child = start(project, { maxFixes: 5 });
      // The kill comes after some number of the run's lines: anywhere, but not at a time.
      let lines = Math.floor(random() * 3);
      child.stdout?.on("data", () => {
        if (kills < 40 && lines-- === 0 && child.kill("SIGKILL")) kills += 1;
      });
      const [code] = await once(child, "close");
      isOver = code === 0;
    }
    expect(kills).toBe(40);
    expect(await project.read("tasks.md")).toBe(plan.replaceAll("[ ]", "[x]"));
    const subjects = (await project.git("log", "--reverse", "--format=%s")).split("\n");
    expect(subjects).toEqual(["Begin", ...items.map((id) => `${id}: Item ${id}`)]);
    // The gate notes the files that it passed on.
    const passed = new Set(await project.lines("passed"));
    for (const commit of (await project.git("log", "--format=%H", "-30")).split("\n")) {
      expect(passed).toContain(await project.git("rev-parse", `${commit}:out`));
    }
    const records = Object.values((await project.items()) ?? {});
    expect(records).toHaveLength(30);
    const sum = (name: string) => records.reduce((total: number, record) => total + Number(record[name]), 0);
    const calls = await project.lines("calls");
    // Each call that came to its end is counted once, with its cost. A killed one reports none.
    expect(sum("calls")).toBeLessThanOrEqual(calls.length);
    expect(sum("calls")).toBeGreaterThanOrEqual(calls.length - kills);
    const free = calls.filter((line) => / (?:fail|prose) /.test(line)).length;
    expect(sum("costUsd")).toBeLessThanOrEqual((calls.length - free) * 0.25);
    expect(sum("costUsd")).toBeGreaterThanOrEqual((calls.length - free - kills) * 0.25);
  });

  it("does parallel items once in 12 kills, each with one commit on the branch", { timeout: 600_000 }, async () => {
    const random = randomFrom(SEED);
    const items = Array.from({ length: 9 }, (_, index) => `T${String(index + 1).padStart(3, "0")}`);
    const script = Object.fromEntries(items.map((id, index) => [id, index % 3 === 0 ? ["clash", "clash"] : []]));
    const plan = items.map((id) => `- [ ] ${id} [P] Item ${id}\n`).join("");
    const project = await Project.create(plan, script, { git: true });
    let kills = 0;
    for (let code: unknown; code !== 0; ) {
      const child = start(project, { gates: ["test -d out"], jobs: 3, worktrees: true });
      let lines = Math.floor(random() * 5);
      let said = "";
      child.stdout?.setEncoding("utf8").on("data", (text: string) => {
        said += text;
        if (kills < 12 && lines-- === 0 && child.kill("SIGKILL")) kills += 1;
      });
      [code] = await once(child, "close");
      if (code === 1) expect(said).toBe("no failure");
    }
    expect(kills).toBe(12);
    expect(await project.read("tasks.md")).toBe(plan.replaceAll("[ ]", "[x]"));
    const subjects = (await project.git("log", "--format=%s")).split("\n");
    expect(subjects.sort()).toEqual(["Begin", ...items.map((id) => `${id}: Item ${id}`)]);
    for (const id of items) {
      const [commit = ""] = (await project.git("log", "--format=%H", `--grep=^${id}:`)).split("\n");
      const names = (await project.git("show", "--format=", "--name-only", commit)).split("\n");
      expect(names.filter((name) => name !== "out/shared")).toEqual([`out/${id}`, "tasks.md"]);
    }
    expect(await project.git("status", "--porcelain")).toBe("");
    expect((await project.git("worktree", "list")).split("\n")).toHaveLength(1);
  });
});
