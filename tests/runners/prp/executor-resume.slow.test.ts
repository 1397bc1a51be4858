import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PrpCheckpointManager } from "waymark/prp";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { stopTimeouts } from "../../support/stopped-clock.js";
import { isAlive, WatchedSink } from "../processes/processes.js";
import { blocked, countingCoder, documentOf, Session } from "./session.js";

const GATES = ["gate-1", "gate-2", "gate-3", "gate-4"];

describe("the option `resume`", () => {
  it("needs a checkpoint if it is true", async () => {
    const session = await Session.createWithGit();
    const executor = session.executor();
    await expect(executor.execute(session.prpPath, { resume: true })).rejects.toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
      message: expect.stringContaining("Start it instead."),
    });
    expect(await session.log()).toEqual([]);
  });

  it("refuses unfinished work if it is false, and resumes it if it is true", async () => {
    const session = await Session.createWithGit();
    await session.write("fail-gate-2");
    const executor = session.executor({ maxFixAttempts: 0 });
    expect((await executor.execute(session.prpPath, { resume: false })).success).toBe(false);
    const before = await session.log();
    await expect(executor.execute(session.prpPath, { resume: false })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      message: expect.stringMatching(/started already: failed, saved.*resume.*restart/),
    });
    expect(await session.log()).toEqual(before);
    await session.remove("fail-gate-2");
    expect((await executor.execute(session.prpPath, { resume: true })).success).toBe(true);
    expect((await executor.execute(session.prpPath, { resume: false })).success).toBe(true);
    expect(await session.log()).toEqual([...before, "gate-2", "gate-3", "gate-4"]);
  });

  it("excludes restart", async () => {
    const session = await Session.createWithGit();
    await expect(session.executor().execute(session.prpPath, { resume: true, restart: true })).rejects.toThrow(
      /resume and restart exclude each other/,
    );
  });
});

describe("a PRP that is complete", () => {
  it("runs nothing if it is executed again, and returns its result", async () => {
    const session = await Session.createWithGit();
    const first = await session.executor().execute(session.prpPath);
    const latest = await session.latest();
    const second = await session.executor().execute(session.prpPath);

    expect(second).toEqual({ ...first, resumedFrom: { id: latest.id, stage: "complete" } });
    expect(await session.log()).toEqual(["code", ...GATES]);
    expect((await session.latest()).id).toBe(latest.id);
  });

  it("runs from the beginning with restart, and keeps its history", async () => {
    const session = await Session.createWithGit();
    await session.executor().execute(session.prpPath);
    const result = await session.executor().execute(session.prpPath, { restart: true });

    expect(result.resumedFrom).toBeUndefined();
    expect(await session.log()).toEqual(["code", ...GATES, "code", ...GATES]);
    expect(await session.checkpoints()).toHaveLength(14);
  });
});

describe("a PRP that has failed", () => {
  it("continues with the gate that failed, without the coder and the passed gates", async () => {
    const session = await Session.createWithGit();
    await session.write("fail-gate-3");
    const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0 });
    await executor.execute(session.prpPath);
    await session.remove("fail-gate-3");
    const again = countingCoder();
    const result = await session.executor({ coder: again, maxFixAttempts: 0 }).execute(session.prpPath);

    expect(result).toMatchObject({ success: true, fixAttempts: 0, resumedFrom: { stage: "failed" } });
    expect(again.calls).toBe(0);
    expect(await session.log()).toEqual(["gate-1", "gate-2", "gate-3", "gate-3", "gate-4"]);
  });

  it("has all its fix attempts again if the gate still fails", async () => {
    const session = await Session.createWithGit();
    const coder = countingCoder();
    const executor = session.executor({ coder });
    await executor.execute(documentOf("false"));
    const result = await executor.execute(documentOf("false"));

    expect(result).toMatchObject({ success: false, fixAttempts: 2 });
    expect(coder.calls).toBe(5);
  });

  it("goes back to the coder if the coder had failed", async () => {
    const session = await Session.createWithGit();
    await session.executor({ coder: () => ({ result: "error", message: "no network" }) }).execute(session.prpPath);
    const result = await session.executor().execute(session.prpPath);

    expect(result).toMatchObject({ success: true, resumedFrom: { stage: "failed" } });
    expect(await session.log()).toEqual(["code", ...GATES]);
  });

  it("goes back to the fix if the coder had failed there: its prompt says again what to fix", async () => {
    const session = await Session.createWithGit();
    await session.write("fail-gate-2");
    const failing = session.executor({
      coder: ({ fixAttempt }) => ({ result: fixAttempt === 0 ? "success" : "issue", message: "stuck" }),
    });
    expect(await failing.execute(session.prpPath)).toMatchObject({
      success: false,
      error: "stuck",
      validationResults: [{ success: true }, { success: false }],
    });
    const result = await session.executor().execute(session.prpPath);

    expect(result).toMatchObject({ success: true, fixAttempts: 1 });
    expect(await session.log()).toEqual(["gate-1", "gate-2", "fix", ...GATES]);
  });
});

describe("a PRP that has changed since its checkpoint", () => {
  it("continues with a note if its boxes were ticked and its prose has changed; passed gates aren't run again", async () => {
    const session = await Session.createWithGit();
    await session.writePrp("Make it work\n\n- [ ] one\n- [ ] two");
    await session.write("fail-gate-3");
    await session.executor({ maxFixAttempts: 0 }).execute(session.prpPath);
    await session.remove("fail-gate-3");

    await session.writePrp("Make it work\n\n- [x] one\n- [X] two");
    const ticked = recordingLogger();
    await session.write("fail-gate-4");
    await session.executor({ maxFixAttempts: 0, logger: ticked }).execute(session.prpPath);
    await session.remove("fail-gate-4");
    await session.writePrp("Make something else work");
    const reworded = recordingLogger();
    const result = await session.executor({ logger: reworded }).execute(session.prpPath);

    expect(result.success).toBe(true);
    expect(await session.log()).toEqual(["code", "gate-1", "gate-2", "gate-3", "gate-3", "gate-4", "gate-4"]);
    for (const { lines } of [ticked, reworded]) {
      expect(lines.map(({ message }) => message).join("\n")).toContain("Its text has changed since the last run");
    }
  });

  it("runs a gate again that has changed, and one that was added; the others stay passed", async () => {
    const session = await Session.createWithGit();
    await session.executor({ coder: countingCoder() }).execute(session.prpPath);
    const before = await readFile(session.prpPath, "utf8");
    const added = "\n### Level 5: Docs\n\n```sh\n./work docs\n```\n";
    await writeFile(session.prpPath, `${before.replace("./work gate-2", "./work gate-2 # again")}${added}`);
    const logger = recordingLogger();
    const coder = countingCoder();
    const result = await session.executor({ coder, logger }).execute(session.prpPath);

    expect(result).toMatchObject({ success: true, resumedFrom: { stage: "complete" } });
    expect(await session.log()).toEqual([...GATES, "gate-2", "docs"]);
    expect(coder.calls).toBe(0);
    expect(result.validationResults.map(({ level }) => level)).toEqual([1, 2, 3, 4, 5]);
    expect(logger.lines.map(({ message }) => message).join("\n")).toContain("level 2 (Gate 2)");
  });

  it("drops the result of a gate that was removed, and runs nothing again", async () => {
    const session = await Session.createWithGit();
    await session.executor({ coder: countingCoder() }).execute(session.prpPath);
    const before = await readFile(session.prpPath, "utf8");
    await writeFile(session.prpPath, before.slice(0, before.indexOf("### Level 4")));
    const result = await session.executor().execute(session.prpPath);

    expect(result.success).toBe(true);
    expect(result.validationResults.map(({ level }) => level)).toEqual([1, 2, 3]);
    expect(await session.log()).toEqual(GATES);
  });

  it("starts over with restart", async () => {
    const session = await Session.createWithGit();
    await session.executor().execute(session.prpPath);
    await session.writePrp("Make something else work");
    await session.executor().execute(session.prpPath, { restart: true });

    expect(await session.log()).toEqual(["code", ...GATES, "code", ...GATES]);
  });
});

describe("two PRPs of one session whose files have the same name, and no id", () => {
  it("are two tasks by their paths, and both run", async () => {
    const session = await Session.createWithGit();
    const text = "# T\n\n## Validation Loop\n\n### Level 1: A\n\n```sh\n./work gate-1\n```\n";
    for (const folder of ["one", "two"]) {
      await mkdir(join(session.path, folder));
      await session.write(`${folder}/PRP.md`, text);
      await session.executor().execute(join(session.path, folder, "PRP.md"));
    }

    expect(await session.log()).toEqual(["code", "gate-1", "code", "gate-1"]);
    expect(await session.checkpoints("one/PRP")).not.toEqual([]);
    expect(await session.checkpoints("two/PRP")).not.toEqual([]);
  });
});

describe("two PRPs of one session whose titles name one work item", () => {
  it("are two tasks, the second by its path, and both run; one that is moved is still the same", async () => {
    const session = await Session.createWithGit();
    const text = "# PRP: P1.M2.T1.S1\n\n## Validation Loop\n\n### Level 1: A\n\n```sh\n./work gate-1\n```\n";
    const [a, b, c] = ["a.md", "b.md", "c.md"].map((name) => join(session.path, name)) as [string, string, string];
    await session.write("a.md", text);
    await session.executor().execute(a);
    await session.write("b.md", text);
    await session.executor().execute(b);
    await session.executor().execute(b);
    await rename(a, c);
    await session.executor().execute(c);

    expect(await session.log()).toEqual(["code", "gate-1", "code", "gate-1"]);
    expect(await session.checkpoints("P1.M2.T1.S1")).not.toEqual([]);
    expect(await session.checkpoints("b")).not.toEqual([]);
    expect(await session.checkpoints("c")).toEqual([]);
  });
});

describe("a PRP document whose levels repeat, or are texts", () => {
  it("runs each gate in order, with a checkpoint of its own; and is read from a file of JSON", async () => {
    const session = await Session.createWithGit();
    const gate = (level: number | string, name: string) => ({ level, description: name, command: `./work ${name}` });
    const gates = [gate("L2", "c"), gate("1 \u2014 vet", "a"), gate(1, "b"), gate(5, "d")];
    await session.write("plan.json", JSON.stringify({ taskId: "T", validationGates: gates }));
    const result = await session.executor({ coder: countingCoder() }).execute(join(session.path, "plan.json"));

    expect(result.success).toBe(true);
    expect(await session.log()).toEqual(["a", "b", "c", "d"]);
    const stages = (await session.checkpoints("T")).map(({ state }) => state.stage);
    expect(stages.filter((stage) => stage.startsWith("validation"))).toEqual([
      "validation-gate-1",
      "validation-gate-1-2",
      "validation-gate-2",
      "validation-gate-5",
    ]);
  });

  it("runs a gate again that appears twice, and continues with the second one", async () => {
    const session = await Session.createWithGit();
    const gates = ["test -f made", "rm made", "test -f made"].map((command) => ({ level: 1, command }));
    await session.write("made");
    const first = await session.executor({ maxFixAttempts: 0 }).execute({ taskId: "T", validationGates: gates });
    await session.write("made");
    const second = await session.executor().execute({ taskId: "T", validationGates: gates });

    expect(first.validationResults.map(({ success }) => success)).toEqual([true, true, false]);
    expect(second).toMatchObject({ success: true, fixAttempts: 0 });
    expect((await session.checkpoints("T")).map(({ state }) => state.stage)).toContain("validation-gate-1-3");
  });

  it("continues with the second gate of a level after that gate has failed", async () => {
    const session = await Session.createWithGit();
    const gates = ["a", "b"].map((name) => ({ level: 1, description: name, command: `./work ${name}` }));
    await session.write("fail-b");
    await session
      .executor({ coder: countingCoder(), maxFixAttempts: 0 })
      .execute({ taskId: "T", validationGates: gates });
    await session.remove("fail-b");
    const result = await session.executor().execute({ taskId: "T", validationGates: gates });

    expect(result.success).toBe(true);
    expect(await session.log()).toEqual(["a", "b", "b"]);
  });
});

describe("a PRP whose newest checkpoint is damaged", () => {
  it.each([
    ["its line was cut short", (line: string) => line.slice(0, 300)],
    ["its line says nothing any more", () => "?".repeat(50)],
    ["a letter of it was changed", (line: string) => line.replace("PRP.md", "PRP.me")],
  ])("continues from the one before it, with a warning: %s", async (_how, damage) => {
    const session = await Session.createWithGit();
    await session.write("fail-gate-2");
    await session.executor({ maxFixAttempts: 0 }).execute(session.prpPath);
    await session.remove("fail-gate-2");
    const path = join(session.path, "artifacts", session.taskId, "checkpoints.json");
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
    const damaged = lines.with(-2, damage(lines.at(-2) ?? "")).join("\n");
    await writeFile(path, `${damaged}\n`);
    const logger = recordingLogger();
    const result = await session.executor({ logger }).execute(session.prpPath);

    expect(result).toMatchObject({ success: true, resumedFrom: { stage: "validation-gate-2" } });
    expect(await session.log()).toEqual(["code", "gate-1", "gate-2", "fix", ...GATES]);
    expect(logger.lines[0]).toMatchObject({ level: "warn", message: expect.stringContaining("corrupt record") });
  });
});

describe("a run that is paused", () => {
  it("by its signal rejects with the reason; the gate is ended, and passed gates don't run again", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "gate-2");
    const run = new AbortController();
    const started = deferred<string>();
    const executor = session.executor({
      output: (text) => {
        const found = /^blocked: .* by (\d+)$/m.exec(text);
        if (found?.[1] !== undefined) started.resolve(found[1]);
      },
    });
    const result = executor.execute(session.prpPath, { signal: run.signal });
    const pid = await started.promise;
    run.abort(new Error("enough"));

    await expect(result).rejects.toThrow("enough");
    expect(isAlive(pid)).toBe(false);
    expect(await session.latest()).toMatchObject({
      label: expect.stringMatching(/^Paused: Gate 1 passed \(gate 2 so far: \d+ bytes in [\d.]+ \w+\)$/),
      state: { stage: "validation-gate-1" },
    });
    await session.remove("block");
    expect((await executor.execute(session.prpPath)).success).toBe(true);
    expect(await session.log()).toEqual(["code", "gate-1", "gate-2", ...GATES.slice(1)]);
  });

  it("while a gate that took too long is being ended runs that gate again", async () => {
    const session = await Session.createWithGit();
    // When told to end, the gate reports it and waits until the test writes to the pipe.
    const slow =
      "[ -e pipe ] && exit; mkfifo pipe; trap 'echo ending; cat pipe; exit' TERM; sleep 1000 & echo ready; wait";
    const prp = documentOf(`echo gate >> log; ${slow}`);
    const coder = countingCoder();
    const run = new AbortController();
    const shown = new WatchedSink();
    const output = (text: string) => shown.write(Buffer.from(text));
    const executor = session.executor({ coder, gateTimeoutMs: 300, killGraceMs: 60_000, output });
    const timeouts = stopTimeouts();
    const result = executor.execute(prp, { signal: run.signal });
    await shown.until(/ready/);
    timeouts.pass(300);
    await shown.until(/ending/);
    run.abort(new Error("enough"));
    await session.write("pipe");

    await expect(result).rejects.toThrow("enough");
    const saved = await session.checkpoints("T");
    expect(saved.map(({ state }) => state.validationResults)).toEqual(saved.map(() => []));
    expect(saved.at(-1)).toMatchObject({
      label: expect.stringMatching(/^Paused: The coder's response \(gate 1 so far: \d+ bytes in [\d.]+ \w+\)$/),
      state: { stage: "coder-response" },
    });
    expect(await executor.execute(prp)).toMatchObject({ success: true, fixAttempts: 0 });
    expect(await session.log()).toEqual(["gate", "gate"]);
    expect(coder.calls).toBe(1);
  });

  it("while a function that is a coder finishes keeps its response", async () => {
    const session = await Session.createWithGit();
    const run = new AbortController();
    const executor = session.executor({
      coder: () => {
        run.abort(new Error("enough"));
        return { result: "success", message: "just in time" };
      },
    });

    await expect(executor.execute(session.prpPath, { signal: run.signal })).rejects.toThrow("enough");
    expect(await session.latest()).toMatchObject({ label: "Paused: The coder's response" });
    const coder = countingCoder();
    expect((await session.executor({ coder }).execute(session.prpPath)).success).toBe(true);
    expect(coder.calls).toBe(0);
  });

  it.each([
    ["a command", "./coder"],
    ["a function", countingCoder()],
  ])("between a checkpoint and the work that it names never starts that work: %s", async (_what, coder) => {
    const session = await Session.createWithGit();
    const run = new AbortController();
    const logger = { ...recordingLogger(), debug: () => run.abort(new Error("enough")) };
    const executor = session.executor({ logger, coder });

    await expect(executor.execute(session.prpPath, { signal: run.signal })).rejects.toThrow("enough");
    if (typeof coder !== "string") expect(coder.calls).toBe(0);
    expect((await session.checkpoints()).map(({ label }) => label)).toEqual([
      "Before the coder",
      "Paused: Before the coder",
    ]);
    expect(await session.log()).toEqual([]);
  });

  it("rejects with its reason even if it can't be marked as paused", async () => {
    const session = await Session.createWithGit();
    const checkpoints = new PrpCheckpointManager(session.path);
    const run = new AbortController();
    const logger = recordingLogger();
    const coder = async () => {
      await checkpoints.close();
      run.abort(new Error("enough"));
      return { result: "success" as const, message: "" };
    };
    const result = session.executor({ checkpoints, coder, logger }).execute(session.prpPath, { signal: run.signal });

    await expect(result).rejects.toThrow("enough");
    expect(logger.lines).toContainEqual(expect.objectContaining({ level: "error" }));
    expect(await session.stages()).toEqual(["pre-execution"]);
  });

  it("before it began does nothing", async () => {
    const session = await Session.createWithGit();
    const signal = AbortSignal.abort(new Error("never"));

    await expect(session.executor().execute(session.prpPath, { signal })).rejects.toThrow("never");
    expect(await session.checkpoints()).toEqual([]);
  });

  it("by a signal that its program listens to itself rejects, and that program continues", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "code");
    const run = session.spawn({ listensTo: "SIGINT" });
    await blocked(run);
    run.kill("SIGINT");

    expect(await run).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/INTERRUPTED$/) });
    expect(await session.latest()).toMatchObject({
      label: expect.stringMatching(/^Paused: Before the coder \(the coder so far: /),
    });
  });
});

describe("a task that another process executes", () => {
  it("is refused here, and continues there", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "gate-1");
    const run = session.spawn();
    const pid = await blocked(run);

    await expect(session.executor().execute(session.prpPath)).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      retryable: true,
      message: expect.stringContaining("is being executed already"),
    });
    expect(isAlive(pid)).toBe(true);
    await session.remove("block");
    process.kill(Number(pid));
    await run;
    expect(await session.log()).toEqual(["code", "gate-1", "fix", ...GATES]);
  });
});

describe("a session of another program, in the spec's format", () => {
  const result = (level: number, success: boolean) => ({
    level,
    description: `Gate ${level}`,
    success,
    command: `./work gate-${level}`,
    stdout: "",
    stderr: "",
    exitCode: success ? 0 : 1,
    skipped: false,
  });
  const response = { coderResponse: "…", coderResult: { result: "success", message: "" } };

  async function foreignSession(...states: object[]): Promise<Session> {
    const session = await Session.createWithGit();
    const folder = join(session.path, "artifacts", session.taskId);
    await mkdir(folder, { recursive: true });
    const checkpoints = states.map((state, i) => {
      const createdAt = new Date(1_706_102_400_000 + i).toISOString();
      const full = { prpPath: "prps/x.md", validationResults: [], timestamp: createdAt, ...state };
      const stage = "stage" in state ? state.stage : "";
      return {
        id: `${session.taskId}_${1_706_102_400_000 + i}_${stage}_0a1b2c3d`,
        taskId: session.taskId,
        label: `${stage}`,
        state: full,
        createdAt,
      };
    });
    const file = { version: "1.0", checkpoints, lastModified: new Date(1_706_102_400_100).toISOString() };
    await writeFile(join(folder, "checkpoints.json"), JSON.stringify(file, null, 2));
    return session;
  }

  it.each([
    ["before the coder", { stage: "pre-execution" }, ["code", ...GATES]],
    ["after the response", { stage: "coder-response", ...response }, GATES],
    ["after a response without a verdict", { stage: "coder-response", coderResponse: "…" }, GATES],
    [
      "after a response that is an error",
      { stage: "coder-response", coderResponse: "", coderResult: { result: "error", message: "" } },
      ["code", ...GATES],
    ],
    [
      "after a gate",
      { stage: "validation-gate-2", ...response, validationResults: [result(1, true), result(2, true)] },
      // The file doesn't show on which work the gates passed.
      GATES,
    ],
    [
      "after a gate that failed",
      { stage: "validation-gate-2", ...response, validationResults: [result(1, true), result(2, false)] },
      ["fix", ...GATES],
    ],
    [
      "after it failed",
      { stage: "failed", ...response, fixAttempt: 2, validationResults: [result(1, true), result(2, false)] },
      GATES,
    ],
    ["after it failed without a response", { stage: "failed" }, ["code", ...GATES]],
    ["after it was complete", { stage: "complete", ...response, validationResults: [result(1, true)] }, []],
  ])("is resumed %s", async (_point, state, log) => {
    const session = await foreignSession({ stage: "pre-execution" }, state);
    const before = await session.checkpoints();
    const outcome = await session.executor().execute(session.prpPath);

    expect(outcome.success).toBe(true);
    expect(outcome.resumedFrom?.id).toBe(before[1]?.id);
    expect(await session.log()).toEqual(log);
    expect((await session.checkpoints()).slice(0, 2)).toEqual(before);
    expect((await session.latest()).state.stage).toBe("complete");
  });

  it("is left untouched if it can't be read", async () => {
    const session = await foreignSession({ stage: "pre-execution" });
    const path = join(session.path, "artifacts", session.taskId, "checkpoints.json");
    await writeFile(path, '{"version":"1.0","checkpoi');

    await expect(session.executor().execute(session.prpPath)).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    expect(await readFile(path, "utf8")).toBe('{"version":"1.0","checkpoi');
    expect(await session.log()).toEqual([]);
  });
});
