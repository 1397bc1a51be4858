import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type OneshotPlan, runOneshot } from "waymark/oneshot";
import { Moments, momentOf } from "../../support/moments.js";
import { isAlive } from "../processes/processes.js";
import { chain, outcomeOf, Project, workstream } from "./project.js";

/** Says its pid, and never ends by itself. */
const BLOCKS = 'echo "pid $$"; exec sleep 1000';
const plan = { workstreams: [workstream("a"), workstream("b", BLOCKS), workstream("c")] };
const mended = chain("a", "b", "c");

/** The pid of the first workstream that says one. */
const PID = /"line":"pid (\d+)"/;

describe("Ctrl-C", () => {
  it.each(["SIGINT", "SIGTERM"] as const)(
    "%s saves paused, ends the workstreams' process groups, and then the process as it would have",
    async (signal) => {
      const project = await Project.create();
      const { run, output } = project.spawn(plan);
      const pid = await output.until(PID);

      run.kill(signal);

      expect(await run).toMatchObject({ signal });
      expect(await isAlive(pid)).toBe(false);
      expect(await project.file()).toMatchObject({ status: "paused", completed_ws: ["a"], current_ws: "b" });
      await project.run(mended, { resume: true });
      expect(await project.log()).toEqual(["a", "b", "b", "c"]);
      expect(await project.files()).toEqual([]);
    },
  );

  it("with several running, ends all of them, and the earliest is the current one", async () => {
    const project = await Project.create();
    const ids = ["a", "b", "c"];
    const blocked = { workstreams: ids.map((id) => ({ id, command: `echo "pid-${id} $$"; exec sleep 1000` })) };
    const { run, output } = project.spawn(blocked, { jobs: 3 });
    const pids = await Promise.all(ids.map((id) => output.until(new RegExp(`"line":"pid-${id} (\\d+)"`))));

    run.kill("SIGINT");
    await run;

    expect(await Promise.all(pids.map(isAlive))).toEqual([false, false, false]);
    expect(await project.file()).toMatchObject({ status: "paused", completed_ws: [], current_ws: "a" });
  });

  it("of a program that listens to it itself rejects with INTERRUPTED, and that program goes on", async () => {
    const project = await Project.create();
    const { run, output } = project.spawn(plan, { listensTo: "SIGINT" });
    await output.until(PID);

    run.kill("SIGINT");

    const { exitCode, stdout } = await run;
    expect(exitCode).toBe(0);
    expect(outcomeOf(stdout)).toMatchObject({ error: "INTERRUPTED" });
    expect(await project.file()).toMatchObject({ status: "paused" });
  });

  it("ends one that ignores SIGTERM with SIGKILL, after killGraceMs", async () => {
    const project = await Project.create();
    const stubborn = {
      workstreams: [{ id: "a", command: 'trap "" TERM; echo "pid $$"; while :; do sleep 1000; done' }],
    };
    const { run, output } = project.spawn(stubborn, { killGraceMs: 50 });
    const pid = await output.until(PID);

    run.kill("SIGINT");
    await run;

    expect(await isAlive(pid)).toBe(false);
    expect(await project.file()).toMatchObject({ status: "paused", current_ws: "a" });
  });
});

describe("kill -9", () => {
  it("leaves a workstream running, which resume ends before it is run again", async () => {
    const project = await Project.create();
    const { run, output } = project.spawn(plan);
    const pid = await output.until(PID);
    run.kill("SIGKILL");
    await run;
    expect(await isAlive(pid)).toBe(true);
    expect(await project.file()).toMatchObject({ status: "running", completed_ws: ["a"], current_ws: "b" });
    let wasAlive: Promise<boolean> | undefined;

    const { result, events } = await project.run(mended, {
      resume: true,
      onEvent: ({ type }) => {
        if (type === "workstreamStarted") wasAlive ??= isAlive(pid);
      },
    });

    expect(await wasAlive).toBe(false);
    expect(events).toContainEqual({ type: "orphanEnded", workstream: "b", pid: Number(pid) });
    expect(result).toMatchObject({ success: true, completed: ["a", "b", "c"] });
    expect(await project.log()).toEqual(["a", "b", "b", "c"]);
    expect(await project.files()).toEqual([]);
  });

  it("leaves workstreams running that restart ends too, be they in the plan any more or not", async () => {
    const project = await Project.create();
    const { run, output } = project.spawn(plan);
    const pid = await output.until(PID);
    run.kill("SIGKILL");
    await run;

    await project.run(chain("x"), { restart: true });

    expect(await isAlive(pid)).toBe(false);
  });

  it("twice in a row leaves nothing behind either", async () => {
    const project = await Project.create();
    for (const options of [{}, { resume: true }]) {
      const { run, output } = project.spawn(plan, options);
      await output.until(PID);
      run.kill("SIGKILL");
      await run;
    }

    await project.run(mended, { resume: true });

    expect(await project.log()).toEqual(["a", "b", "b", "b", "c"]);
    expect(await project.files()).toEqual([]);
  });
});

describe("two processes", () => {
  it("run one feature: the second is refused with who runs it, and the first goes on", async () => {
    const project = await Project.create();
    const waits = { workstreams: [workstream("a", 'echo "pid $$"; while [ ! -e go ]; do sleep 0.01; done')] };
    const first = project.spawn(waits, { agentId: "agent-1" });
    await first.output.until(PID);

    for (const options of [{ resume: true }, { restart: true }, {}]) {
      const { stdout } = await project.spawn(waits, options).run;
      expect(outcomeOf(stdout)).toMatchObject({
        error: "CHECKPOINT_CONFLICT",
        message: expect.stringContaining(`run already, by process ${first.run.pid} (agent "agent-1"`),
      });
    }

    await project.write("go");
    expect(outcomeOf((await first.run).stdout)).toMatchObject({ result: { success: true } });
    expect(await project.log()).toEqual(["a"]);
  });

  it("that resume one feature at once: one does", async () => {
    const project = await Project.create();
    const killed = project.spawn(plan);
    await killed.output.until(PID);
    killed.run.kill("SIGKILL");
    await killed.run;
    const waits = { workstreams: [workstream("b", "while [ ! -e go ]; do sleep 0.01; done")] };

    const runs = [1, 2, 3].map(() => project.spawn(waits, { resume: true }).run);
    let refused = 0;
    const outcomes = await Promise.all(
      runs.map(async (run) => {
        const outcome = outcomeOf((await run).stdout);
        if (outcome.error === "CHECKPOINT_CONFLICT") refused += 1;
        if (refused === 2) await project.write("go");
        return outcome;
      }),
    );

    expect(outcomes.filter(({ result }) => result?.success)).toHaveLength(1);
    expect(refused).toBe(2);
    expect(await project.log()).toEqual(["a", "b", "b"]);
  });

  it("run different features of one folder side by side", async () => {
    const project = await Project.create();
    const other = runOneshot("F02", { baseDir: project.path, plan: chain("x", "y"), jobs: 2 });
    const { result } = await project.run(chain("a", "b"), { jobs: 2 });

    expect([result.success, (await other).success]).toEqual([true, true]);
    expect(await project.files()).toEqual([]);
  });
});

/** Each notes its begin and its end; some wait for others, so that there are always some that run and some that can't. */
const WORK: OneshotPlan = {
  workstreams: Array.from({ length: 12 }, (_, i) => ({
    id: `w${i}`,
    command: `echo "begin w${i} $$" >> log; sleep 0.0${(i % 4) + 2}; echo "end w${i} $$" >> log; touch effect-w${i}`,
    dependsOn: i < 4 ? [] : [`w${i - 4}`, `w${i - 3}`],
  })),
};
const IDS = WORK.workstreams.map(({ id }) => id);

describe("a run with jobs: 4 that is killed with kill -9 at a random moment", () => {
  let measured: Promise<number> | undefined;

  /** Kills it at that moment: a line of its output, or a change of its checkpoints' folder or of what its work leaves. */
  async function runUntil(project: Project, moment: number) {
    await mkdir(project.repository.checkpointDir, { recursive: true });
    const moments = new Moments([project.repository.checkpointDir, project.path], (count) => {
      if (count === moment) run.kill("SIGKILL");
    });
    const { run } = project.spawn(WORK, { jobs: 4 });
    run.stdout.on("data", () => moments.add());
    const { stdout } = await run;
    moments.close();
    return { stdout, count: moments.count };
  }

  /** How many moments it has where nobody kills it. */
  async function measure(): Promise<number> {
    const { stdout, count } = await runUntil(await Project.create(), Number.POSITIVE_INFINITY);
    expect(outcomeOf(stdout)).toMatchObject({ result: { success: true } });
    return count;
  }

  it.each(Array.from({ length: 20 }, (_, seed) => seed))(
    "seed %d: ends after resume with the right result",
    async (seed) => {
      const project = await Project.create();
      measured ??= measure();
      const count = await measured;
      const at = momentOf(seed, count);
      await runUntil(project, at);
      const moment = `seed ${seed}: killed at moment ${at} of ${count}`;
      const isLeft = await project.repository.exists("F01");
      // Killed before its first entry, it has started nothing, and there is nothing to resume.
      const hasBegun = isLeft || (await project.log()).length > 0;
      const completedAtEnd = hasBegun ? IDS : [];
      const completed = isLeft ? (await project.repository.load("F01")).completedWs : completedAtEnd;

      const options = { jobs: 4, resume: hasBegun };
      const resumed = await project.run(WORK, options).catch((error: unknown) => ({ error }));

      if ("error" in resumed)
        expect({ error: resumed.error, isLeft }, moment).toMatchObject({
          error: { code: "CHECKPOINT_NOT_FOUND" },
          isLeft: false,
        });
      else expect(resumed.result, moment).toMatchObject({ success: true, completed: expect.arrayContaining(IDS) });
      const lines = (await project.log()).map((line) => line.split(" ") as [string, string, string]);
      for (const id of IDS) {
        const own = lines.filter(([, name]) => name === id);
        const effect = await readFile(join(project.path, `effect-${id}`), "utf8").catch(() => "none");
        expect(effect, `${moment}: the effect of ${id}`).toBe("");
        // What the checkpoint had as completed has run once, from begin to end.
        if (completed.includes(id)) expect(own, `${moment}: ${id} was completed`).toHaveLength(2);
        expect(own.at(-1)?.[0], `${moment}: the last of ${id}`).toBe("end");
        // Nothing comes of the one that was killed once the next has begun.
        const pids = own.map(([, , pid]) => pid);
        expect(pids, `${moment}: ${id} ran twice at a time`).toEqual(
          [...new Set(pids)].flatMap((pid) => pids.filter((other) => other === pid)),
        );
      }
      expect(await project.files(), moment).toEqual([]);
    },
  );
});
