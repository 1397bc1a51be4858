import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type OneshotEvent, type OneshotPlan, runOneshot } from "waymark-runners/oneshot";
import { recordingLogger } from "../../support/recording-logger.js";
import { chain, Project, workstream } from "./project.js";

const NOW = Date.UTC(2026, 10, 22);
const DAY = 24 * 60 * 60 * 1000;

/** A checkpoint that a run of another program, or a killed one, has left. */
function left(completedWs: readonly string[], more: object = {}) {
  const now = new Date();
  const times = { startTime: now, lastUpdate: now };
  return {
    featureId: "F01",
    agentId: "agent-7",
    status: "running" as const,
    completedWs,
    currentWs: "",
    ...times,
    ...more,
  };
}

/** Each workstream copies the checkpoint file while it runs. */
function watched(...ids: string[]): OneshotPlan {
  return { workstreams: ids.map((id) => workstream(id, `cp .sdp/checkpoints/F01.json seen-${id}`)) };
}

async function seen(project: Project, id: string): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(join(project.path, `seen-${id}`), "utf8"));
}

describe("a run", () => {
  it("runs the workstreams in the plan's order, but dependencies first", async () => {
    const project = await Project.create();

    const { result } = await project.run(chain(["d", "c"], "a", "b", ["c", "a"]));

    expect(await project.log()).toEqual(["a", "b", "c", "d"]);
    expect(result).toEqual({
      success: true,
      completed: ["a", "b", "c", "d"],
      failed: [],
      notStarted: [],
      resumed: false,
    });
  });

  it("AC1, AC3, AC4: the checkpoint has what is completed and what runs, in .sdp/checkpoints/<feature>.json", async () => {
    const project = await Project.create();

    await project.run(watched("a", "b", "c"), { agentId: "agent-1", clock: () => NOW });

    const base = {
      feature_id: "F01",
      agent_id: "agent-1",
      status: "running",
      start_time: "2026-11-22T00:00:00.000Z",
      last_update: "2026-11-22T00:00:00.000Z",
    };
    expect(await seen(project, "a")).toMatchObject({ ...base, completed_ws: [], current_ws: "a" });
    expect(await seen(project, "b")).toMatchObject({ ...base, completed_ws: ["a"], current_ws: "b" });
    expect(await seen(project, "c")).toMatchObject({ ...base, completed_ws: ["a", "b"], current_ws: "c" });
  });

  it("AC6: the checkpoint is deleted after completion, and the folder is left empty", async () => {
    const project = await Project.create();

    await project.run(chain("a", "b", "c"), { jobs: 3 });

    expect(await project.files()).toEqual([]);
    expect(await project.repository.exists("F01")).toBe(false);
  });

  it("leaves other features' checkpoints alone", async () => {
    const project = await Project.create();
    await project.repository.save(left(["x"], { featureId: "F02" }));

    await project.run(chain("a"));

    expect(await project.files()).toEqual(["F02.json"]);
  });

  it("runs independent workstreams side by side with jobs, and no more than that many", async () => {
    const project = await Project.create();
    for (const name of ["a-began", "b-began"]) await project.gate(name);
    // Each workstream waits until the other has begun. If they ran one after another, neither would end.
    const meet = (own: string, other: string) => `echo > ${own}-began; read go < ${other}-began`;
    const plan = { workstreams: [workstream("a", meet("a", "b")), workstream("b", meet("b", "a")), workstream("c")] };
    let running = 0;
    let most = 0;
    const onEvent = ({ type }: OneshotEvent) => {
      if (type === "workstreamStarted") running += 1;
      if (type === "workstreamFinished") running -= 1;
      most = Math.max(most, running);
    };

    const { result } = await project.run(plan, { jobs: 2, onEvent });

    expect(result.success).toBe(true);
    expect(most).toBe(2);
  });

  it("runs different features of one folder side by side", async () => {
    const project = await Project.create();
    const other = runOneshot("F02", { baseDir: project.path, plan: chain("x", "y"), jobs: 2 });
    const { result } = await project.run(chain("a", "b"), { jobs: 2 });

    expect([result.success, (await other).success]).toEqual([true, true]);
    expect(await project.files()).toEqual([]);
  });

  it("with jobs, the current workstream is the earliest running one in the plan's order", async () => {
    const project = await Project.create();
    const pass = await project.gate("b-is-completed");
    await project.gate("c-has-seen");
    const plan = {
      workstreams: [
        { id: "a", command: "read go < c-has-seen" },
        { id: "b", command: "true" },
        { id: "c", command: "read go < b-is-completed; cp .sdp/checkpoints/F01.json seen-c; echo > c-has-seen" },
      ],
    };
    const onEvent = (event: OneshotEvent) => {
      if (event.type === "workstreamFinished" && event.workstream === "b") void pass();
    };

    await project.run(plan, { jobs: 3, onEvent });

    expect(await seen(project, "c")).toMatchObject({ current_ws: "a", completed_ws: ["b"] });
  });

  it("runs in the project's folder, or in cwd", async () => {
    const project = await Project.create();
    const other = await Project.create();
    await project.run(chain("a"));
    await project.run(chain("b"), { cwd: other.path });

    expect(await project.log()).toEqual(["a"]);
    expect(await other.log()).toEqual(["b"]);
  });

  it("reports everything that a list needs, in order", async () => {
    const project = await Project.create();
    const plan = {
      workstreams: [{ id: "a", command: "echo one; echo two >&2; printf three" }, workstream("b", "", ["a"])],
    };

    const { events } = await project.run(plan, { agentId: "agent-1", jobs: 2 });

    const durationMs = expect.any(Number);
    expect(events.filter(({ type }) => type !== "output")).toEqual([
      {
        type: "runStarted",
        feature: "F01",
        agentId: "agent-1",
        resumed: false,
        jobs: 2,
        workstreams: [
          { id: "a", command: plan.workstreams[0]!.command, dependsOn: [], completed: false },
          { id: "b", command: "echo b >> log\n", dependsOn: ["a"], completed: false },
        ],
      },
      { type: "workstreamStarted", workstream: "a" },
      { type: "workstreamFinished", workstream: "a", durationMs },
      { type: "workstreamStarted", workstream: "b" },
      { type: "workstreamFinished", workstream: "b", durationMs },
      { type: "runEnded", status: "completed", completed: ["a", "b"], durationMs },
    ]);
    const output = { type: "output", workstream: "a" };
    expect(events.filter(({ type }) => type === "output")).toEqual(
      expect.arrayContaining([
        { ...output, stream: "stdout", line: "one" },
        { ...output, stream: "stdout", line: "three" },
        { ...output, stream: "stderr", line: "two" },
      ]),
    );
  });

  it("continues if the listener throws, and reports it once", async () => {
    const project = await Project.create();
    const logger = recordingLogger();
    const onEvent = () => {
      throw new Error("broken list");
    };

    const { success } = await runOneshot("F01", { baseDir: project.path, plan: chain("a", "b"), onEvent, logger });

    expect(success).toBe(true);
    expect(logger.lines.map(({ message }) => message)).toEqual(["The listener threw at runStarted; the run continues"]);
  });

  it("continues if the listener is asynchronous and rejects", async () => {
    const project = await Project.create();
    const logger = recordingLogger();
    const listeners = { onEvent: () => Promise.reject(new Error("broken list")) };

    const { success } = await runOneshot("F01", { baseDir: project.path, plan: chain("a"), ...listeners, logger });

    expect(success).toBe(true);
    expect(logger.lines).toHaveLength(1);
  });

  it("ends the processes that a workstream leaves behind in its group", async () => {
    const project = await Project.create();
    const { result, events } = await project.run({
      workstreams: [{ id: "a", command: "sleep 1000 >/dev/null 2>&1 &" }],
    });

    expect(result.success).toBe(true);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "output", line: expect.stringContaining("left processes behind") }),
    );
  });
});

describe("a workstream that fails", () => {
  const plan = {
    workstreams: [workstream("a"), workstream("b", "echo broken >&2; exit 3; echo never"), workstream("c")],
  };

  it("saves failed, names it, and starts no other", async () => {
    const project = await Project.create();

    const { result, events } = await project.run(plan);

    const failure = { workstream: "b", exitCode: 3, signal: null, reason: "exited with 3", outputTail: ["broken"] };
    expect(result).toMatchObject({ success: false, completed: ["a"], failed: [failure], notStarted: ["c"] });
    expect(events).toContainEqual(expect.objectContaining({ type: "workstreamFailed", ...failure }));
    expect(events.at(-1)).toMatchObject({ type: "runEnded", status: "failed" });
    expect(await project.file()).toMatchObject({ status: "failed", completed_ws: ["a"], current_ws: "b" });
    expect(await project.log()).toEqual(["a", "b"]);
  });

  it("lets running ones come to their end, and counts them", async () => {
    const project = await Project.create();
    const pass = await project.gate("a-has-failed");
    const waits = "read go < a-has-failed; cp .sdp/checkpoints/F01.json seen-b";
    const both = { workstreams: [{ id: "a", command: "exit 1" }, { id: "b", command: waits }, workstream("c")] };
    const onEvent = ({ type }: OneshotEvent) => {
      if (type === "workstreamFailed") void pass();
    };

    const { result } = await project.run(both, { jobs: 2, onEvent });

    expect(await seen(project, "b")).toMatchObject({ status: "failed", current_ws: "b" });
    expect(result).toMatchObject({ success: false, completed: ["b"], notStarted: ["c"] });
    expect(await project.file()).toMatchObject({ status: "failed", completed_ws: ["b"], current_ws: "a" });
  });

  it("has as many of its last lines of output as requested", async () => {
    const project = await Project.create();
    const loud = {
      workstreams: [{ id: "a", command: "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i; done; exit 1" }],
    };

    const { result } = await project.run(loud, { tailLines: 2 });

    expect(result.failed[0]?.outputTail).toEqual(["line 99", "line 100"]);
  });

  it("fails by a signal too, and by its first command that fails", async () => {
    const project = await Project.create();
    const { result } = await project.run({ workstreams: [{ id: "a", command: "kill -9 $$" }] });
    const second = await project.run({ workstreams: [{ id: "a", command: "false\ntrue" }] }, { restart: true });

    expect(result.failed).toMatchObject([{ exitCode: null, signal: "SIGKILL", reason: "was ended by SIGKILL" }]);
    expect(second.result.failed).toMatchObject([{ exitCode: 1, signal: null }]);
  });

  it("may also be one that can't be started", async () => {
    const project = await Project.create();

    const { result } = await project.run(chain("a"), { cwd: join(project.path, "nowhere") });

    expect(result.failed).toMatchObject([
      { workstream: "a", exitCode: null, reason: expect.stringContaining("nowhere") },
    ]);
    expect(await project.file()).toMatchObject({ status: "failed", current_ws: "a", completed_ws: [] });
  });

  it("runs again with resume, without the completed workstreams", async () => {
    const project = await Project.create();
    await project.run(plan);
    const mended = { workstreams: [workstream("a"), workstream("b"), workstream("c")] };

    const { result, events } = await project.run(mended, { resume: true });

    expect(result).toMatchObject({ success: true, completed: ["a", "b", "c"], resumed: true });
    expect(events[0]).toMatchObject({
      type: "runStarted",
      resumed: true,
      workstreams: [{ completed: true }, { completed: false }, { completed: false }],
    });
    expect(await project.log()).toEqual(["a", "b", "b", "c"]);
    expect(await project.files()).toEqual([]);
  });
});

describe("AC5: resume", () => {
  it("TestResumeFromRunning: continues with uncompleted workstreams", async () => {
    const project = await Project.create();
    await project.repository.save(left(["a", "c"], { currentWs: "b" }));

    const { result } = await project.run(chain("a", "b", "c", "d"), { resume: true });

    expect(result).toMatchObject({ success: true, completed: ["a", "c", "b", "d"], resumed: true });
    expect(await project.log()).toEqual(["b", "d"]);
  });

  it("TestResumeFromPaused: continues with uncompleted workstreams", async () => {
    const project = await Project.create();
    await project.repository.save(left(["a"], { status: "paused", currentWs: "b" }));

    await project.run(chain("a", "b"), { resume: true });

    expect(await project.log()).toEqual(["b"]);
  });

  it("reads only completed_ws, whatever current_ws says", async () => {
    const project = await Project.create();
    await project.repository.save(left(["b"], { status: "completed", currentWs: "nonsense" }));

    await project.run(chain("a", "b", "c"), { resume: true });

    expect(await project.log()).toEqual(["a", "c"]);
  });

  it("keeps the agent and the start time", async () => {
    const project = await Project.create();
    await project.repository.save(left([], { startTime: new Date(NOW) }));

    await project.run(watched("a"), { resume: true });

    expect(await seen(project, "a")).toMatchObject({ agent_id: "agent-7", start_time: "2026-11-22T00:00:00.000Z" });
  });

  it("reads the same plan as the run before", async () => {
    const project = await Project.create();
    const plan = await project.write("plan.yaml", "workstreams:\n- id: a\n  command: test -e ready\n");
    await project.run(plan);
    await project.write("ready");

    const result = await runOneshot("F01", { baseDir: project.path, resume: true });

    expect(result).toMatchObject({ success: true, completed: ["a"] });
  });

  it("without a checkpoint is refused, and creates nothing", async () => {
    const project = await Project.create();

    await expect(project.run(chain("a"), { resume: true })).rejects.toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
      message: expect.stringContaining("can't be resumed"),
    });
    await expect(project.files()).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("of a stale checkpoint is refused with its age, unless it is forced", async () => {
    const project = await Project.create();
    const clock = () => NOW;
    await project.repository.save(left(["a"], { lastUpdate: new Date(NOW - 8.5 * DAY) }));

    await expect(project.run(chain("a", "b"), { resume: true, clock })).rejects.toMatchObject({
      code: "CHECKPOINT_STALE",
      message: expect.stringMatching(/8\.5 days ago.*at most 7 days.*force/),
    });
    await expect(project.run(chain("a", "b"), { resume: true, clock, maxAgeMs: 8 * DAY })).rejects.toMatchObject({
      code: "CHECKPOINT_STALE",
    });
    expect(await project.log()).toEqual([]);

    await project.run(chain("a", "b"), { resume: true, clock, force: true });
    expect(await project.log()).toEqual(["b"]);
  });

  it("of a corrupt checkpoint is refused with its file; a restart sets the file aside, logs it, and starts over", async () => {
    const project = await Project.create();
    await project.repository.save(left(["a"]));
    const path = join(project.repository.checkpointDir, "F01.json");
    await writeFile(path, "{");

    for (const options of [{ resume: true }, {}]) {
      await expect(project.run(chain("a"), options)).rejects.toMatchObject({
        code: "CHECKPOINT_CORRUPT",
        message: expect.stringContaining(path),
      });
    }
    expect(await project.log()).toEqual([]);

    const logger = recordingLogger();
    await project.run(chain("a"), { restart: true, logger });

    expect(await project.log()).toEqual(["a"]);
    const [aside = ""] = await project.files();
    expect(logger.lines).toMatchObject([{ level: "warn", message: expect.stringContaining(aside) }]);
    expect(await readFile(join(project.repository.checkpointDir, aside), "utf8")).toBe("{");
    expect(await project.repository.list()).toEqual([]);
  });
});

describe("a feature that has a checkpoint", () => {
  it("is not started again: the refusal says what to do", async () => {
    const project = await Project.create();
    await project.repository.save(left(["a"], { status: "paused", currentWs: "b" }));

    await expect(project.run(chain("a", "b"))).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      message: expect.stringMatching(/1 of its workstreams completed, "b" is current.*paused.*resume.*restart/),
    });
    expect(await project.log()).toEqual([]);
    expect(await project.repository.load("F01")).toMatchObject({ completedWs: ["a"] });
  });

  it("is started over with restart", async () => {
    const project = await Project.create();
    await project.repository.save(left(["a"]));

    const { result } = await project.run(chain("a", "b"), { restart: true });

    expect(result).toMatchObject({ success: true, completed: ["a", "b"], resumed: false });
    expect(await project.log()).toEqual(["a", "b"]);
  });

  it("whose run is under way is refused with the runner's name, and that run continues", async () => {
    const project = await Project.create();
    const pass = await project.gate("go");
    const waits = { workstreams: [workstream("a", "read go < go")] };
    let second: Promise<unknown> | undefined;
    const onEvent = ({ type }: OneshotEvent) => {
      if (type !== "workstreamStarted") return;
      second = Promise.allSettled(
        [{ resume: true }, { restart: true }, {}].map((options) => project.run(chain("x"), options)),
      ).finally(pass);
    };

    const { result } = await project.run(waits, { onEvent, agentId: "agent-1" });

    const refusal = {
      status: "rejected",
      reason: {
        code: "CHECKPOINT_CONFLICT",
        retryable: true,
        message: expect.stringContaining('run already by agent "agent-1"'),
      },
    };
    expect(await second).toMatchObject([refusal, refusal, refusal]);
    expect(result.success).toBe(true);
    expect(await project.log()).toEqual(["a"]);
  });

  it("that another process changes while it runs ends its workstreams, and the run reports it", async () => {
    const project = await Project.create();
    const logger = recordingLogger();
    const pass = await project.gate("go");
    let change: Promise<void> | undefined;
    const onEvent = ({ type }: OneshotEvent) => {
      if (type === "workstreamStarted") change ??= project.repository.save(left(["z"])).then(() => pass());
    };
    const plan = {
      workstreams: [
        { id: "a", command: "read go < go" },
        { id: "b", command: "sleep 1000" },
      ],
    };

    await expect(project.run(plan, { jobs: 2, onEvent, logger })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      message: expect.stringContaining("changed or removed by another run or program"),
    });

    await change;
    expect(await project.repository.load("F01")).toMatchObject({ completedWs: ["z"] });
    expect(logger.lines).toMatchObject([{ level: "warn", message: expect.stringContaining("could not be marked") }]);
  });
});

describe("an abort", () => {
  it("ends what runs, saves paused, and rejects with the reason", async () => {
    const project = await Project.create();
    const abort = new AbortController();
    const reason = new Error("enough");
    const events: OneshotEvent[] = [];
    const onEvent = (event: OneshotEvent) => {
      events.push(event);
      if (event.type === "output" && event.line === "up") abort.abort(reason);
    };
    const plan = { workstreams: [workstream("a"), workstream("b", "echo up; sleep 1000"), workstream("c")] };

    await expect(project.run(plan, { signal: abort.signal, onEvent })).rejects.toBe(reason);

    expect(await project.file()).toMatchObject({ status: "paused", completed_ws: ["a"], current_ws: "b" });
    expect(await project.file()).not.toHaveProperty("waymark.processes");
    expect(events.slice(-2)).toMatchObject([
      { type: "workstreamStopped", workstream: "b" },
      { type: "runEnded", status: "paused", completed: ["a"] },
    ]);
    await project.run(chain("a", "b", "c"), { resume: true });
    expect(await project.log()).toEqual(["a", "b", "b", "c"]);
  });

  it("that came before the run begins nothing", async () => {
    const project = await Project.create();

    await expect(project.run(chain("a"), { signal: AbortSignal.abort("early") })).rejects.toBe("early");
    await expect(project.files()).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe("options", () => {
  it.each([
    [{ job: 2 }, '"job"'],
    [{ jobs: 0 }, "jobs"],
    [{ jobs: "2" }, "jobs"],
    [{ jobs: 1.5 }, "jobs"],
    [{ resume: true, restart: true }, "exclude each other"],
    [{ resume: "yes" }, "resume"],
    [{ maxAgeMs: -1 }, "maxAgeMs"],
    [{ maxAgeMs: Number.NaN }, "maxAgeMs"],
    [{ killGraceMs: 2 ** 31 }, "killGraceMs"],
    [{ tailLines: -1 }, "tailLines"],
    [{ plan: "" }, "plan"],
    [{ plan: 5 }, "plan"],
    [{ cwd: "" }, "cwd"],
    [{ onEvent: "log" }, "onEvent"],
    [{ signal: {} }, "signal"],
    [null, "OneshotOptions"],
  ])("%j is refused by name", async (options, message) => {
    await expect(runOneshot("F01", options as never)).rejects.toThrow(message);
  });

  it("an invalid feature name is refused", async () => {
    await expect(runOneshot("", {})).rejects.toBeInstanceOf(RangeError);
    await expect(runOneshot(5 as never, {})).rejects.toBeInstanceOf(TypeError);
  });
});

describe("a folder that can't be written", () => {
  it("is an error that names it, before anything runs", async () => {
    const project = await Project.create();
    await project.write(".sdp", "a file");

    await expect(project.run(chain("a"))).rejects.toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringContaining(".sdp"),
    });
    expect(await project.log()).toEqual([]);
  });

  it("in the middle of a run ends its workstreams", async () => {
    const project = await Project.create();
    const logger = recordingLogger();
    const plan = { workstreams: [workstream("a", "rm -rf .sdp; touch .sdp"), workstream("b")] };

    await expect(project.run(plan, { logger })).rejects.toMatchObject({ code: "STORAGE_FAILED" });

    expect(await project.log()).toEqual(["a"]);
    await rm(join(project.path, ".sdp"));
  });
});
