import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PrpCheckpointManager, prpStatus } from "waymark/prp";
import { blocked, countingCoder, documentOf, Session } from "../../runners/prp/session.js";
import { tempFolder } from "../../support/temp-folder.js";

describe("the status of a session", () => {
  it("has each task's stage, status, label, time and fix attempts, most recent first", async () => {
    const session = await Session.create();
    await session.write("fail-gate-2");
    await session.executor().execute(session.prpPath);
    await session.executor({ coder: countingCoder(), maxFixAttempts: 1 }).execute(documentOf("false"));
    const [failed, complete] = (await prpStatus(session.path)).tasks;

    expect(complete).toEqual({
      taskId: session.taskId,
      prpPath: session.prpPath,
      stage: "complete",
      status: "completed",
      label: "Complete",
      checkpointId: (await session.latest()).id,
      savedAt: (await session.latest()).createdAt,
      checkpoints: (await session.checkpoints()).length,
      fixAttempts: 1,
    });
    expect(failed).toMatchObject({ taskId: "T", stage: "failed", status: "failed", label: "Failed", fixAttempts: 1 });
    expect(failed?.error?.message).toMatch(/Validation failed after 1 fix attempts: level 1/);
    expect(failed).not.toHaveProperty("runner");
  });

  it("distinguishes a running task from one whose runner died, and reports how far the coder came", async () => {
    const session = await Session.create();
    await session.write("block", "code");
    const run = session.spawn({ autoSaveIntervalMs: 5, killAtLabel: "The coder so far" });
    await blocked(run);
    await run;
    const { tasks } = await prpStatus(session.path);

    expect(tasks).toMatchObject([
      {
        status: "running",
        stage: "pre-execution",
        label: expect.stringMatching(/^The coder so far: \d+ bytes/),
        runner: "died",
        progress: { kind: "coder", stdout: expect.stringMatching(/^blocked: code/) },
      },
    ]);
    await session.write("block", "gate-1");
    const again = session.spawn();
    await blocked(again);

    expect((await prpStatus(session.path)).tasks).toMatchObject([
      { status: "running", stage: "coder-response", runner: "alive" },
    ]);
    again.kill("SIGTERM");
    await again;
    const [paused] = (await prpStatus(session.path)).tasks;
    expect(paused).toMatchObject({ status: "paused", progress: { kind: "gate", level: 1 } });
    expect(paused).not.toHaveProperty("runner");
  });

  it("includes the executions of this process", async () => {
    const session = await Session.create();
    const seen: unknown[] = [];
    const coder = async () => {
      seen.push((await prpStatus(session.path)).tasks[0]?.runner);
      return { result: "success" as const, message: "" };
    };
    await session.executor({ coder }).execute(documentOf("true"));

    expect(seen).toEqual(["alive"]);
  });

  it("is empty if there is no session, and creates nothing", async () => {
    const folder = await tempFolder();

    expect(await prpStatus(join(folder, "none"))).toEqual({ tasks: [], damaged: [] });
    expect(await readdir(folder)).toEqual([]);
    await expect(prpStatus("")).rejects.toThrow(RangeError);
  });

  it("shows another program's checkpoints without a runner, because nobody knows whether it runs", async () => {
    const session = await Session.create();
    const folder = join(session.path, "artifacts", "P1");
    await mkdir(folder, { recursive: true });
    const state = {
      prpPath: "P1.md",
      stage: "validation-gate-1",
      validationResults: [],
      timestamp: "2024-01-24T00:00:00Z",
    };
    const one = {
      id: "P1_1706102400000_validation-gate-1",
      taskId: "P1",
      label: "After gate 1",
      state,
      createdAt: state.timestamp,
    };
    await writeFile(
      join(folder, "checkpoints.json"),
      JSON.stringify({ version: "1.0", checkpoints: [one], lastModified: state.timestamp }),
    );
    const [task] = (await prpStatus(session.path)).tasks;

    expect(task).toMatchObject({ taskId: "P1", stage: "validation-gate-1", status: "running", label: "After gate 1" });
    expect(task).not.toHaveProperty("runner");
  });

  it("reports damage once, and continues with the rest", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder() });
    for (const taskId of ["half", "lost", "whole"]) await executor.execute(documentOf("true"), { taskId });
    const pathOf = (taskId: string) => join(session.path, "artifacts", taskId, "checkpoints.json");
    const lines = (await readFile(pathOf("half"), "utf8")).trimEnd().split("\n");
    await writeFile(pathOf("half"), `${lines.with(-2, (lines.at(-2) ?? "").slice(0, 200)).join("\n")}\n`);
    await writeFile(pathOf("lost"), '{"version":"1.0","checkpoi');
    const { tasks, damaged } = await prpStatus(session.path);

    expect(tasks.map(({ taskId, stage }) => `${taskId} ${stage}`).sort()).toEqual([
      "half validation-gate-1",
      "whole complete",
    ]);
    expect(damaged.map(({ taskId }) => taskId).sort()).toEqual(["half", "lost"]);
    for (const { location, reason } of damaged) {
      expect(location).toContain(session.path);
      expect(reason).not.toBe("");
    }
  });

  it("reports what the schema refuses, and continues with the rest", async () => {
    const session = await Session.create();
    await session.executor({ coder: countingCoder() }).execute(documentOf("true"));
    const folder = join(session.path, "artifacts", "odd");
    await mkdir(folder, { recursive: true });
    const createdAt = "2024-01-24T00:00:00Z";
    const odd = { id: "odd_1_x", taskId: "odd", label: "", state: { stage: "lunch" }, createdAt };
    await writeFile(
      join(folder, "checkpoints.json"),
      JSON.stringify({ version: "1.0", checkpoints: [odd], lastModified: createdAt }),
    );
    const { tasks, damaged } = await prpStatus(session.path);

    expect(tasks.map(({ taskId }) => taskId)).toEqual(["T"]);
    expect(damaged).toMatchObject([{ taskId: "odd", reason: expect.stringContaining("schema") }]);
  });

  it("is an error if the session is a file", async () => {
    const folder = await tempFolder();
    await writeFile(join(folder, "file"), "");

    await expect(prpStatus(join(folder, "file"))).rejects.toMatchObject({ code: "STORAGE_FAILED" });
  });

  it("also counts checkpoints of PrpCheckpointManager", async () => {
    const session = await Session.create();
    await using manager = new PrpCheckpointManager(session.path);
    const state = { prpPath: "", stage: "failed" as const, validationResults: [], timestamp: new Date() };
    await manager.saveCheckpoint("mine", "It broke", state, Object.assign(new Error("no key"), { code: "ENOKEY" }));

    expect((await prpStatus(session.path)).tasks).toMatchObject([
      { taskId: "mine", status: "failed", label: "It broke", error: { message: "no key", code: "ENOKEY" } },
    ]);
  });
});
