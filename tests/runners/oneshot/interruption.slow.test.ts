import { describe, expect, it } from "vitest";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { isAlive } from "../processes/processes.js";
import { chain, outcomeOf, Project, workstream } from "./project.js";

/** Prints its pid, and never ends by itself. */
const BLOCKS = 'echo "pid $$"; exec sleep 1000';
const plan = { workstreams: [workstream("a"), workstream("b", BLOCKS), workstream("c")] };
const mended = chain("a", "b", "c");

/** The pid of the first workstream that prints one. */
const PID = /"line":"pid (\d+)"/;

describe("Ctrl-C", () => {
  it("saves paused, ends the workstreams' process groups, then the process as without Waymark", async () => {
    const project = await Project.create();
    const { run, output } = project.spawn(plan);
    const pid = await output.until(PID);

    run.kill("SIGINT");

    expect(await run).toMatchObject({ signal: "SIGINT" });
    expect(isAlive(pid)).toBe(false);
    expect(await project.file()).toMatchObject({ status: "paused", completed_ws: ["a"], current_ws: "b" });
    await project.run(mended, { resume: true });
    expect(await project.log()).toEqual(["a", "b", "b", "c"]);
    expect(await project.files()).toEqual([]);
  });

  it("with several running, ends all of them, and the earliest is the current one", async () => {
    const project = await Project.create();
    const ids = ["a", "b", "c"];
    const blocked = { workstreams: ids.map((id) => ({ id, command: `echo "pid-${id} $$"; exec sleep 1000` })) };
    const { run, output } = project.spawn(blocked, { jobs: 3 });
    const pids = await Promise.all(ids.map((id) => output.until(new RegExp(`"line":"pid-${id} (\\d+)"`))));

    run.kill("SIGINT");
    await run;

    expect(pids.map(isAlive)).toEqual([false, false, false]);
    expect(await project.file()).toMatchObject({ status: "paused", completed_ws: [], current_ws: "a" });
  });

  it("in a program that listens to it rejects with INTERRUPTED, and the program continues", async () => {
    const project = await Project.create();
    const { run, output } = project.spawn(plan, { listensTo: "SIGINT" });
    await output.until(PID);

    run.kill("SIGINT");

    const { exitCode, stdout } = await run;
    expect(exitCode).toBe(0);
    expect(outcomeOf(stdout)).toMatchObject({ error: "INTERRUPTED" });
    expect(await project.file()).toMatchObject({ status: "paused" });
  });
});

describe("kill -9", () => {
  it("ends the workstream that runs, and resume runs it again", async () => {
    const project = await Project.create();
    const { run, output } = project.spawn(plan);
    const pid = await output.until(PID);
    run.kill("SIGKILL");
    await run;
    expect(await project.file()).toMatchObject({ status: "running", completed_ws: ["a"], current_ws: "b" });
    let wasAlive: boolean | undefined;

    const { result } = await project.run(mended, {
      resume: true,
      onEvent: ({ type }) => {
        if (type === "workstreamStarted") wasAlive ??= isAlive(pid);
      },
    });

    expect(wasAlive).toBe(false);
    expect(result).toMatchObject({ success: true, completed: ["a", "b", "c"] });
    expect(await project.log()).toEqual(["a", "b", "b", "c"]);
    expect(await project.files()).toEqual([]);
  });

  it("of a run whose workstream ends slowly: restart waits for it, and reports it", async () => {
    const project = await Project.create();
    const slow = "mkfifo go; trap 'cat go; exit' TERM; sh -c 'echo pid $$; exec sleep 1000' & wait";
    const { run, output } = project.spawn({ workstreams: [workstream("a", slow)] }, { killGraceMs: 60_000 });
    await output.until(PID);
    run.kill("SIGKILL");
    await run;
    const waits = deferred();
    const info = (_details: object, message: string) => {
      if (message.includes("waiting until its commands have ended")) waits.resolve();
    };
    const logger = { ...recordingLogger(), info };
    const restarted = project.run(chain("x"), { restart: true, logger });
    await waits.promise;
    expect(await project.log()).toEqual(["a"]);
    await project.write("go");

    expect((await restarted).result.success).toBe(true);
    expect(await project.log()).toEqual(["a", "x"]);
  });
});
