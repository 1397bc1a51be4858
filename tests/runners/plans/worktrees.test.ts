import { access, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { RunnerError, runPlan } from "waymark-runners/plans";
import { Project, type Script } from "./project.js";

const PARALLEL = "- [ ] T001 [P] A\n- [ ] T002 [P] B\n- [ ] T003 C\n";

async function parallelProject(script: Script = {}, plan = PARALLEL) {
  const project = await Project.create(plan, script, { git: true });
  const options = { gates: [`pwd >> ${project.cwd}/gates; test -d out`], jobs: 3, worktrees: true, commits: true };
  const run = (more: object = {}) => project.run({ ...options, ...more });
  const commits = async () => (await project.git("log", "--reverse", "--format=%s")).split("\n").slice(1);
  return { project, run, commits };
}

describe("parallel items with --worktrees", () => {
  it("run side by side, each in its own worktree, and come to the branch as one commit each", async () => {
    const meet = [{ meet: ["T001", "T002"] }];
    const { project, run, commits } = await parallelProject({ T001: meet, T002: meet });
    expect((await run()).done).toEqual(["T001", "T002", "T003"]);

    expect(await project.read("tasks.md")).toBe(PARALLEL.replaceAll("[ ]", "[x]"));
    expect((await commits()).toSorted()).toEqual(["T001: A", "T002: B", "T003: C"]);
    for (const id of ["T001", "T002"]) {
      const names = await project.git("log", "--format=", "--name-only", `--grep=^${id}:`);
      expect(names.split("\n")).toEqual([`out/${id}`, "tasks.md"]);
    }
    expect(await project.git("status", "--porcelain")).toBe("");
    // The item that came second was tested again on top of the first item.
    const folders = (await project.lines("gates")).map((line) => line.split("/").at(-1));
    expect(folders.slice(0, -1).toSorted()).toEqual(expect.arrayContaining(["T001", "T002"]));
    expect(folders).toHaveLength(4);
    expect((await project.git("worktree", "list")).split("\n")).toHaveLength(1);
    await expect(access(join(project.cwd, ".waymark", "worktrees", "T001"))).rejects.toThrow();
    expect((await project.items())?.["T001"]).toMatchObject({
      status: "done",
      commit: expect.stringMatching(/^\w{40}$/),
    });
  });

  it("are done again on the new tree if their changes are in conflict", async () => {
    const { project, run, commits } = await parallelProject({ T001: ["clash", "clash"], T002: ["clash", "clash"] });
    expect((await run()).done).toEqual(["T001", "T002", "T003"]);
    expect((await commits()).toSorted()).toEqual(["T001: A", "T002: B", "T003: C"]);
    const calls = await project.lines("calls");
    expect(calls).toHaveLength(4);
    const again = calls[2]?.slice(0, 4) ?? "";
    expect(await project.read(`prompt-${again}-2`)).toContain("meanwhile, in: out/shared. Your changes were undone");
    expect(await project.read("out/shared")).toBe(`${again}\n`);
  });

  it("fail with the conflict if no fix is left, and are begun anew by the next run", async () => {
    const { project, run } = await parallelProject({ T001: ["clash"], T002: ["clash"] });
    await expect(run({ maxFixes: 0 })).rejects.toMatchObject({
      code: "ITEM_FAILED",
      message: expect.stringMatching(/conflict with those of other items.*out\/shared.*\.waymark\/worktrees\//s),
    });
    expect(await project.git("status", "--porcelain")).toBe("");
    expect((await project.git("worktree", "list")).split("\n")).toHaveLength(2);
    expect((await run({ jobs: 1, worktrees: false })).done).toHaveLength(2);
    expect((await project.git("worktree", "list")).split("\n")).toHaveLength(1);
  });

  it("of Taskmaster are those whose dependencies are done", async () => {
    const { project } = await parallelProject();
    const tasks = [
      { id: 1, title: "A", status: "pending", dependencies: [] },
      { id: 2, title: "B", status: "pending", dependencies: [1] },
      { id: 3, title: "C", status: "pending", dependencies: [] },
    ];
    await project.write("tasks.json", JSON.stringify({ master: { tasks } }));
    await project.write("script.json", JSON.stringify({ 1: [{ meet: ["1", "3"] }], 3: [{ meet: ["1", "3"] }] }));
    const { cwd, log, manager } = project;
    const { done } = await runPlan(manager, join(cwd, "tasks.json"), {
      ...{ coder: "./claude", gates: ["true"], cwd, logger: log, output: () => undefined },
      ...{ jobs: 2, worktrees: true, commits: true },
    });
    expect(done).toEqual(["1", "3", "2"]);
  });

  it("work where the plan is in a subfolder that git doesn't have yet", async () => {
    const { project, commits } = await parallelProject();
    await mkdir(join(project.cwd, "app"));
    await project.write("app/tasks.md", PARALLEL);
    const { manager, log } = project;
    const cwd = join(project.cwd, "app");
    const { done } = await runPlan(manager, join(cwd, "tasks.md"), {
      ...{ coder: "../claude", gates: ["test -d out && test -e tasks.md"], cwd, logger: log, output: () => undefined },
      ...{ jobs: 2, worktrees: true, commits: true },
    });
    expect(done).toEqual(["T001", "T002", "T003"]);
    expect((await commits()).toSorted()).toEqual(["T001: A", "T002: B", "T003: C"]);
    expect(await project.git("status", "--porcelain")).toBe("");
  });

  it.each([
    [{ worktrees: false }, /3 coders in one folder would overwrite each other's work/],
    [{ commits: false }, /reaches the branch as a commit. Pass --commit/],
  ])("are refused with %j", async (options, message) => {
    const { run } = await parallelProject();
    await expect(run(options)).rejects.toMatchObject({ code: "PLAN_INVALID", message: expect.stringMatching(message) });
  });

  it("are refused without git", async () => {
    const project = await Project.create(PARALLEL);
    const options = { jobs: 2, worktrees: true, commits: true };
    await expect(project.run(options)).rejects.toMatchObject({ code: "GIT_FAILED" });
    await project.git("init", "--quiet");
    await expect(project.run(options)).rejects.toThrow(RunnerError);
    await expect(project.run(options)).rejects.toThrow(/needs a commit to begin with/);
  });
});
