import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { PrpCheckpointManager } from "waymark/prp";
import { type CoderRequest, type PrpDocument, PrpExecutor, type PrpExecutorOptions } from "waymark-runners/prp";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { countingCoder, documentOf, KEEP_ALL, Session } from "./session.js";

const GATES = ["gate-1", "gate-2", "gate-3", "gate-4"];
const GATE_STAGES = GATES.map((gate) => `validation-${gate}`);

describe("executing a PRP", () => {
  it("creates checkpoints before PRP execution, after the Coder Agent, after each validation gate, and at the end", async () => {
    const session = await Session.create();
    const result = await session.executor().execute(session.prpPath);

    expect(result).toMatchObject({ success: true, fixAttempts: 0, artifacts: ["log"] });
    expect(result.resumedFrom).toBeUndefined();
    expect(result.validationResults).toEqual(
      GATES.map((gate, i) => ({
        level: i + 1,
        description: `Gate ${i + 1}`,
        success: true,
        command: `./work ${gate}`,
        stdout: `${gate} is fine\n`,
        stderr: "",
        exitCode: 0,
        skipped: false,
      })),
    );
    expect(await session.log()).toEqual(["code", ...GATES]);
    expect(await session.stages()).toEqual(["pre-execution", "coder-response", ...GATE_STAGES, "complete"]);
    const { state } = await session.latest();
    expect(state.prpPath).toBe(session.prpPath);
    expect(state.coderResult).toEqual({ result: "success", message: "done" });
    expect(state.coderResponse).toMatch(/^code is fine\n\{"result"/);
    expect(state.validationResults).toEqual(result.validationResults);
  });

  it("accepts a document, and a coder function that gets everything it needs", async () => {
    const session = await Session.create();
    const requests: CoderRequest[] = [];
    const executor = session.executor({
      coder: async (request) => {
        requests.push(request);
        return 'Done.\n{"result":"success","message":"fine","artifacts":["a.ts"]}';
      },
    });
    const result = await executor.execute({ ...documentOf("true"), objective: "Parse it" });

    expect(result).toMatchObject({ success: true, artifacts: ["a.ts"] });
    expect(requests).toMatchObject([{ taskId: "T", prpPath: "", cwd: session.path, fixAttempt: 0, failedGates: [] }]);
    expect(requests[0]?.prompt).toContain("Parse it");
    expect((await session.checkpoints("T")).map(({ state }) => state.stage)).toEqual([
      "pre-execution",
      "coder-response",
      "validation-gate-1",
      "complete",
    ]);
  });

  it("sends the prompt with the text of the PRP to stdin of a coder that is a command", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: `cat > prompt; echo '{"result":"error","message":""}'` });
    await executor.execute(session.prpPath);

    expect(await readFile(join(session.path, "prompt"), "utf8")).toContain("**PRP ID**: P1.M1.T1.S1");
  });

  it("starts a coder by its name, without a terminal, and reads its envelope", async () => {
    const session = await Session.create();
    const folder = join(session.path, "node_modules", ".bin");
    await mkdir(folder, { recursive: true });
    const answer = '{"type":"result","subtype":"success","is_error":false,"result":"Did it."}';
    const claude = `#!/bin/sh\ncat > prompt\necho "$@" > arguments\necho '${answer}'\n`;
    await writeFile(join(folder, "claude"), claude, { mode: 0o755 });
    expect((await session.executor({ coder: "claude" }).execute(session.prpPath)).success).toBe(true);
    const read = (name: string) => readFile(join(session.path, name), "utf8");
    expect(await read("arguments")).toBe("-p --output-format json --permission-mode acceptEdits\n");
    expect(await read("prompt")).toContain("Make it work");
  });

  it("skips gates without a command, and gates for a person", async () => {
    const session = await Session.create();
    const document: PrpDocument = documentOf(null, "true", "exit 1", null);
    const [first, second, third, fourth] = document.validationGates;
    const gates = [fourth!, { ...third!, manual: true }, second!, first!];
    const result = await session.executor({ coder: countingCoder() }).execute({ ...document, validationGates: gates });

    expect(result.success).toBe(true);
    expect(result.validationResults.map(({ level, skipped, success }) => [level, skipped, success])).toEqual([
      [1, true, true],
      [2, false, true],
      [3, true, true],
      [4, true, true],
    ]);
    expect((await session.checkpoints("T")).map(({ state }) => state.stage)).toEqual([
      "pre-execution",
      "coder-response",
      "validation-gate-2",
      "complete",
    ]);
  });

  it("names the gates that were skipped before a failing one, also in its checkpoint, and none after it", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0 });
    const { validationResults } = await executor.execute(documentOf(null, "false", null));
    const failed = (await session.checkpoints("T")).find(({ state }) => state.stage === "validation-gate-2");

    expect(validationResults).toMatchObject([
      { level: 1, skipped: true, success: true },
      { level: 2, skipped: false, success: false },
    ]);
    expect(validationResults).toHaveLength(2);
    expect(failed?.state.validationResults).toEqual(validationResults);
  });

  it("keeps the tasks of a session apart", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder() });
    const tasks = ["a", "b/c", "P_1 x"];
    const results = await Promise.all(tasks.map((taskId) => executor.execute(documentOf("true"), { taskId })));

    expect(results.map(({ success }) => success)).toEqual([true, true, true]);
    for (const taskId of tasks) expect(await session.checkpoints(taskId)).toHaveLength(4);
  });

  it("continues a PRP under its path's id, also once the other PRP with its work item is gone", async () => {
    const session = await Session.create();
    const prp = (command: string) =>
      `# P1.M1.T1.S1: Do it\n\n## Validation Loop\n\n### Level 1: One\n\n\`\`\`sh\n${command}\n\`\`\`\n`;
    await session.write("first.md", prp("true"));
    await session.write("second.md", prp("test -e made"));
    const execute = (name: string) =>
      session.executor({ coder: countingCoder(), maxFixAttempts: 0 }).execute(join(session.path, name));
    expect((await execute("first.md")).success).toBe(true);
    expect((await execute("second.md")).success).toBe(false);
    await session.remove("first.md");
    expect((await execute("second.md")).success).toBe(false);
    await session.write("made");
    expect((await execute("second.md")).success).toBe(true);
  });

  it("makes the session's folder, and runs in another one if asked to", async () => {
    const session = await Session.create();
    const coder = countingCoder();
    const options = { coder, output: () => {}, checkpoints: {} };
    await using inNewFolder = new PrpExecutor(join(session.path, "new/session"), options);
    await using elsewhere = new PrpExecutor(join(session.path, "other"), { ...options, cwd: "/" });

    expect((await inNewFolder.execute(documentOf("pwd"))).validationResults[0]?.stdout).toMatch(/new\/session\n$/);
    expect((await elsewhere.execute(documentOf("pwd"))).validationResults[0]?.stdout).toBe("/\n");
  });

  it("names a session's folder that can't be made, and runs nothing", async () => {
    const session = await Session.create();
    await session.write("file");
    const coder = countingCoder();
    for (const [path, message] of [
      ["file", /file/],
      ["file/below", /file\/below/],
    ] as const) {
      await using executor = new PrpExecutor(join(session.path, path), { coder });
      const error: unknown = await executor.execute(documentOf("true")).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        name: "StorageError",
        code: "STORAGE_FAILED",
        message: expect.stringMatching(message),
      });
    }
    expect(coder.calls).toBe(0);
  });

  // Node's own recursive mkdir would never return here.
});

describe("an execution that is over", () => {
  it.each(["true", "false"])("listens to no signal any more: a gate that is %s", async (command) => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0 });
    // Recognized by its name in termination.ts, because listeners of other packages may stay.
    const listeners = () => [...process.listeners("SIGTERM"), ...process.listeners("SIGINT")].map(({ name }) => name);
    await executor.execute(documentOf(command));

    expect(listeners()).not.toContain("end");
  });
});

describe("a gate that fails", () => {
  it("is fixed by the coder, whose prompt says what failed; then all gates run on the new response", async () => {
    const session = await Session.create();
    await session.write("fail-gate-2");
    const prompts: string[] = [];
    const executor = session.executor({
      coder: async ({ prompt, fixAttempt, failedGates }) => {
        prompts.push(prompt);
        if (failedGates.length > 0) await session.remove("fail-gate-2");
        return { result: "success", message: "", artifacts: ["always", `${fixAttempt}`] };
      },
    });
    const result = await executor.execute(session.prpPath);

    expect(result).toMatchObject({ success: true, fixAttempts: 1, artifacts: ["always", "0", "1"] });
    expect(await session.log()).toEqual(["gate-1", "gate-2", ...GATES]);
    expect(prompts[1]).toContain("fix attempt 1 of 2");
    expect(prompts[1]).toContain("./work gate-2");
    expect(prompts[1]).toContain("gate-2 is broken");
    expect(await session.stages()).toEqual([
      "pre-execution",
      "coder-response",
      "validation-gate-1",
      "validation-gate-2",
      "coder-response",
      ...GATE_STAGES,
      "complete",
    ]);
    const states = (await session.checkpoints()).map(({ state }) => state);
    expect(states[3]?.validationResults).toMatchObject([{ success: true }, { success: false, exitCode: 1 }]);
    expect(states[4]).toMatchObject({ fixAttempt: 1, validationResults: [] });
  });

  it("fails the PRP once the fix attempts are used up", async () => {
    const session = await Session.create();
    const coder = countingCoder();
    const executor = session.executor({ coder, maxFixAttempts: 2 });
    const result = await executor.execute(documentOf("true", "echo no >&2; exit 7"));

    expect(result).toMatchObject({ success: false, fixAttempts: 2 });
    expect(result.error).toBe("Validation failed after 2 fix attempts: level 2 (Gate 2)");
    expect(result.validationResults).toMatchObject([
      { success: true },
      { exitCode: 7, stderr: "no\n[waymark: exit code 7; this failed: exit 7]\n" },
    ]);
    expect(coder.calls).toBe(3);
    const latest = (await session.checkpoints("T")).at(-1);
    expect(latest).toMatchObject({ state: { stage: "failed", fixAttempt: 2 }, error: { message: result.error } });
  });

  it("is not fixed at all if no attempt is allowed", async () => {
    const session = await Session.create();
    const coder = countingCoder();
    const result = await session.executor({ coder, maxFixAttempts: 0 }).execute(documentOf("false", "true"));

    expect(result).toMatchObject({ success: false, fixAttempts: 0 });
    expect(result.validationResults).toHaveLength(1);
    expect(coder.calls).toBe(1);
  });

  it("may be one that takes too long", async () => {
    const session = await Session.create();
    const executor = session.executor({
      coder: countingCoder(),
      maxFixAttempts: 0,
      gateTimeoutMs: 300,
      killGraceMs: 100,
    });
    const { validationResults } = await executor.execute(documentOf("sleep 1000 & sleep 1000"));

    expect(validationResults).toMatchObject([{ success: false, exitCode: null, timedOut: true }]);
    expect(validationResults[0]?.stderr).toMatch(/timed out after 300 ms/);
  });

  it("by its time limit isn't given to the coder; executed again, it runs again", async () => {
    const session = await Session.create();
    const coder = countingCoder();
    const executor = session.executor({ coder, maxFixAttempts: 2, gateTimeoutMs: 300, killGraceMs: 100 });
    const document = documentOf("true", "test -e ready || sleep 1000");

    const late = await executor.execute(document);
    expect([late.success, late.fixAttempts, coder.calls]).toEqual([false, 0, 1]);
    expect(late.error).toMatch(/^Gate 2 timed out; .* \(--gate-timeout\), or leave it out \(--skip 2\)$/);
    await session.write("ready");
    expect(await executor.execute(document)).toMatchObject({ success: true, fixAttempts: 0 });
    expect(coder.calls).toBe(1);
  });

  it("that can't be started pauses the run; executed again, it resumes there", async () => {
    const session = await Session.create();
    const coder = countingCoder();
    const cwd = join(session.path, "gone");
    const executor = session.executor({ coder, cwd });
    const document = documentOf("true");

    await expect(executor.execute(document)).rejects.toMatchObject({
      name: "RunnerError",
      code: "PROCESS_NOT_STARTED",
      message: expect.stringContaining(`Gate 1 of PRP T could not be started: its folder ${cwd} `),
    });
    expect((await session.checkpoints("T")).at(-1)).toMatchObject({
      label: "Paused: The coder's response",
      state: { stage: "coder-response" },
    });
    await mkdir(cwd);
    expect(await executor.execute(document)).toMatchObject({ success: true, fixAttempts: 0 });
    expect(coder.calls).toBe(1);
  });

  it("whose shell is missing is refused before the coder is asked, if no other gate can run", async () => {
    const session = await Session.create();
    const coder = countingCoder();
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.stubEnv("PATH", session.path);

    await expect(session.executor({ coder }).execute(documentOf("true"))).rejects.toMatchObject({
      code: "PRP_INVALID",
      message: expect.stringContaining("there is no bash"),
    });
    expect(coder.calls).toBe(0);
  });

  it("reports the exit code and the statement that failed, with its line in the PRP", async () => {
    const session = await Session.create();
    await session.write(
      "PRP.md",
      "# T\n\n## Validation Loop\n\n### Level 1: A\n\n```bash\n# first\necho fine\ntest -f missing.txt && echo present\necho done\n```\n",
    );
    const result = await session.executor({ coder: countingCoder(), maxFixAttempts: 0 }).execute(session.prpPath);

    expect(result.validationResults).toMatchObject([
      {
        success: false,
        exitCode: 1,
        stdout: "fine\n",
        stderr: "[waymark: exit code 1; this failed: line 10: test -f missing.txt && echo present]\n",
      },
    ]);
  });

  it("by its time limit says which statement was running", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0, gateTimeoutMs: 300 });
    const result = await executor.execute(documentOf("true\nsleep 1000\ncurl localhost"));

    expect(result.validationResults[0]?.exitCode).toBeNull();
    expect(result.validationResults[0]?.stderr).toContain("while this was running: sleep 1000");
  });
});

describe("a coder that fails", () => {
  const reply = (result: string) => `echo '{"result":"${result}","message":"the reason"}'`;
  const cases: [name: string, coder: PrpExecutorOptions["coder"], error: RegExp][] = [
    ["reports an error", reply("error"), /^the reason$/],
    ["reports an issue", reply("issue"), /^the reason$/],
    ["exits with a code", `${reply("success")}; echo broken >&2; exit 4`, /exited with 4: broken/],
    ["isn't there", "no-such-agent --print", /exited with 127: .*no-such-agent/],
    ["doesn't read the prompt", "exit 1", /exited with 1/],
    ["throws", () => Promise.reject(Object.assign(new Error("no key"), { code: "EAUTH" })), /^no key$/],
    ["returns nonsense", () => JSON.parse("7"), /returned no result/],
  ];

  it.each(cases)("fails the PRP: one that %s", async (_name, coder, error) => {
    const session = await Session.create();
    const result = await session.executor({ coder }).execute(session.prpPath);

    expect(result).toMatchObject({ success: false, validationResults: [], fixAttempts: 0 });
    expect(result.error).toMatch(error);
    expect(await session.stages()).toEqual(["pre-execution", "coder-response", "failed"]);
    expect((await session.latest()).error?.message).toMatch(error);
  });

  it("that can't be started loses nothing: executed again, the coder runs", async () => {
    const session = await Session.create();
    const cwd = join(session.path, "gone");
    const executor = session.executor({ cwd, coder: `echo '{"result":"success","message":""}'` });

    await expect(executor.execute(documentOf("true"))).rejects.toMatchObject({
      code: "PROCESS_NOT_STARTED",
      message: expect.stringContaining("The coder of PRP T could not be started"),
    });
    await mkdir(cwd);
    expect((await executor.execute(documentOf("true"))).success).toBe(true);
  });

  it("may have a result that is longer than the kept output", async () => {
    const session = await Session.create();
    const coder = `echo '{"result":"success","message":"${"x".repeat(200)}"}'`;

    expect((await session.executor({ coder, maxOutputBytes: 10 }).execute(documentOf("true"))).success).toBe(true);
    const { state } = (await session.checkpoints("T")).at(-1)!;
    expect(state.coderResponse).toMatch(/^\{"res\n\[… 2\d\d bytes cut …\]\n/);
  });

  it("creates an error checkpoint on exceptions, with the error's code and stack", async () => {
    const session = await Session.create();
    const [, throwing] = cases.find(([name]) => name === "throws")!;
    await session.executor({ coder: throwing }).execute(session.prpPath);

    expect((await session.latest()).error).toMatchObject({ code: "EAUTH", stack: expect.stringContaining("no key") });
  });

  it("may be one that takes too long: a command, or a function", async () => {
    const session = await Session.create();
    for (const coder of ["sleep 1000", () => new Promise<never>(() => {})]) {
      const executor = session.executor({ coder, coderTimeoutMs: 200, killGraceMs: 10 });
      expect((await executor.execute(session.prpPath)).error).toMatch(/The coder timed out/);
    }
  });

  it("keeps a long response up to the bound", async () => {
    const session = await Session.create();
    const text = `${"x".repeat(10_000)}\n{"result":"success","message":""}`;
    await session.executor({ coder: () => text, maxOutputBytes: 100 }).execute(documentOf("true"));

    expect((await session.checkpoints("T")).at(-1)?.state.coderResponse).toMatch(/^x{50}\n\[… 9,93\d bytes cut …\]\n/);
  });
});

describe("gates that are left out", () => {
  it("are skipped by level or by place, with `skip` or `only`, and run once they aren't left out", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder() });
    const document = documentOf("echo one >> ran", "echo two >> ran", "echo three >> ran");
    const ran = async () => (await readFile(join(session.path, "ran"), "utf8")).trim().split("\n");

    const first = await executor.execute(document, { skip: ["2", "3"] });
    expect(first.validationResults.map(({ skipped }) => skipped)).toEqual([false, true, true]);
    expect(await ran()).toEqual(["one"]);
    expect((await executor.execute(document, { only: ["1", "3"] })).success).toBe(true);
    expect((await ran()).at(-1)).toBe("three");
    expect((await executor.execute(document)).validationResults.map(({ skipped }) => skipped)).toEqual([
      false,
      false,
      false,
    ]);
    expect(await ran()).toContain("two");
  });

  it("are named by their levels: others are refused", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder() });
    await expect(executor.execute(documentOf("true", "true"), { skip: ["3"] })).rejects.toThrow(
      /"3" .*name some of 1, 2/,
    );
    await expect(executor.execute(documentOf("true"), { skip: ["1"] })).rejects.toThrow(/no gate that can be run/);
  });
});

describe("options", () => {
  it.each([
    [{ maxFixAttemps: 1 }, /"maxFixAttemps"/],
    [{ coder: "" }, /coder/],
    [{ coder: 7 }, /coder/],
    [{ coder: "agent \0" }, /coder: .*NUL/],
    [{ maxFixAttempts: -1 }, /maxFixAttempts/],
    [{ gateTimeoutMs: 0 }, /gateTimeoutMs/],
    [{ gateTimeoutMs: 2 ** 31 }, /gateTimeoutMs/],
    [{ coderTimeoutMs: 1.5 }, /coderTimeoutMs/],
    [{ maxOutputBytes: -1 }, /maxOutputBytes/],
    [{ cwd: "" }, /cwd/],
    [{ checkpoints: { maxCheckpoint: 1 } }, /has no "maxCheckpoint"/],
  ])("refuse %j", (wrong, message) => {
    const options = { coder: "true", ...wrong } as PrpExecutorOptions;
    expect(() => new PrpExecutor("/tmp/session", options)).toThrow(message);
  });

  it("refuse unknown options, and a task without a name", async () => {
    const session = await Session.create();
    const executor = session.executor({ coder: countingCoder() });
    const misspelled = { restrat: true } as object;

    await expect(executor.execute(session.prpPath, misspelled)).rejects.toThrow(/"restrat"/);
    await expect(executor.execute(session.prpPath, { taskId: "" })).rejects.toThrow(RangeError);
    expect(() => new PrpExecutor("", { coder: "true" })).toThrow(/sessionPath/);
  });

  it("leave a caller's manager open", async () => {
    const session = await Session.create();
    const logger = recordingLogger();
    await using checkpoints = new PrpCheckpointManager(session.path, KEEP_ALL);
    const executor = session.executor({ checkpoints, logger, coder: countingCoder() });
    await executor.execute(documentOf("true"));
    await executor.close();

    expect(await checkpoints.listCheckpoints("T")).toHaveLength(4);
    expect(logger.lines.map(({ message }) => message)).toContain("PRP T: Gate 1 passed");
  });
});

describe("two executions of one task", () => {
  it("aren't allowed: the second is refused, and the first continues undisturbed", async () => {
    const session = await Session.create();
    const [called, go] = [deferred(), deferred()];
    const first = session.executor({
      coder: async () => {
        called.resolve();
        await go.promise;
        return { result: "success", message: "" };
      },
    });
    const other = countingCoder();
    const running = first.execute(session.prpPath);
    await called.promise;

    for (const restart of [false, true]) {
      await expect(session.executor({ coder: other }).execute(session.prpPath, { restart })).rejects.toMatchObject({
        code: "CHECKPOINT_CONFLICT",
        message: expect.stringContaining("is being executed already"),
      });
    }
    go.resolve();
    expect((await running).success).toBe(true);
    expect(other.calls).toBe(0);
    expect(await session.log()).toEqual(GATES);
  });

  it("one of which writes in between: the other stops at its next checkpoint, before it starts anything", async () => {
    const session = await Session.create();
    await using other = new PrpCheckpointManager(session.path);
    const executor = session.executor({
      coder: async () => {
        const state = { prpPath: "", stage: "failed", validationResults: [], timestamp: new Date() } as const;
        await other.saveCheckpoint(session.taskId, "In between", { ...state, validationResults: [] });
        return { result: "success", message: "" };
      },
    });

    await expect(executor.execute(session.prpPath)).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await session.log()).toEqual([]);
    expect(await session.latest()).toMatchObject({ label: "In between" });
  });
});
