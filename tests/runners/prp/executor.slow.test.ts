// Tests executions that run many commands, in addition to the tests in executor.test.ts.
import { describe, expect, it } from "vitest";
import type { OutputSource } from "waymark-runners/prp";
import { errorOfProgram } from "../../support/error-of-program.js";
import { countingCoder, documentOf, Session } from "./session.js";

const GATES = ["gate-1", "gate-2", "gate-3", "gate-4"];
const GATE_STAGES = GATES.map((gate) => `validation-${gate}`);

describe("executing a PRP", () => {
  it("names in each checkpoint the work that follows it", async () => {
    const session = await Session.create();
    await session.executor().execute(session.prpPath);
    const works = (await session.checkpoints()).map(({ state }) => state.waymark?.work);

    expect(works.map((work) => work && `${work.kind} ${work.level ?? ""}`.trim())).toEqual([
      "coder",
      "gate 1",
      "gate 2",
      "gate 3",
      "gate 4",
      undefined,
      undefined,
    ]);
  });

  it("keeps no more checkpoints than configured", async () => {
    const session = await Session.create();
    await session.executor({ checkpoints: {} }).execute(session.prpPath);

    expect(await session.stages()).toEqual([...GATE_STAGES, "complete"]);
  });

  it("works without checkpoints if they are not enabled", async () => {
    const session = await Session.create();
    const executor = session.executor({ checkpoints: { enabled: false } });

    expect((await executor.execute(session.prpPath)).success).toBe(true);
    expect((await executor.execute(session.prpPath)).resumedFrom).toBeUndefined();
    expect(await session.log()).toEqual(["code", ...GATES, "code", ...GATES]);
    expect(await session.stages()).toEqual([]);
  });

  it.runIf(process.platform === "linux")(
    "doesn't hang if no folder can be made, as in /proc (skipped if there is no /proc)",
    () => {
      const execute = (options: string) =>
        errorOfProgram(`
        const { PrpExecutor } = await import("waymark-runners/prp");
        const coder = () => ({ result: "success", message: "done" });
        const executor = new PrpExecutor("/proc/waymark/session", { coder${options} });
        await executor.execute({ taskId: "T", validationGates: [{ level: 1, description: "d", command: "true" }] });
      `);
      // If the folder exists, the first checkpoint is the one that can't be saved.
      for (const error of [execute(""), execute(', cwd: "/"')]) {
        expect(error).toMatchObject({ name: "StorageError", code: "STORAGE_FAILED" });
        expect(error?.message).toContain("/proc/waymark");
      }
    },
  );
});

describe("a gate that fails", () => {
  it("writes to the terminal while it runs, and is kept up to the bound", async () => {
    const session = await Session.create();
    const shown: [string, OutputSource][] = [];
    const executor = session.executor({
      coder: countingCoder(),
      maxFixAttempts: 0,
      maxOutputBytes: 100,
      output: (text, source) => shown.push([text, source]),
    });
    const { validationResults } = await executor.execute(documentOf("seq 20000; echo oops >&2; exit 1"));

    const source = { taskId: "T", kind: "gate", level: 1 };
    const textOf = (stream: string) =>
      shown.flatMap(([text, { stream: from }]) => (from === stream ? [text] : [])).join("");
    expect(textOf("stdout").split("\n")).toHaveLength(20_001);
    expect(textOf("stderr")).toBe("oops\n[waymark: exit code 1; this failed: exit 1]\n");
    expect(shown[0]?.[1]).toEqual({ ...source, stream: "stdout" });
    expect(validationResults[0]?.stdout).toMatch(/^1\n2\n[\s\S]*\n\[… 108,\d{3} bytes cut …\]\n[\s\S]*\n20000\n$/);
    expect((await session.checkpoints("T")).at(-1)?.state.validationResults).toEqual(validationResults);
  });
});

describe("two executions of one task", () => {
  it("that begin at once: one is refused before its coder has done anything", async () => {
    const session = await Session.create();
    const executors = [session.executor(), session.executor()];
    const results = await Promise.allSettled(executors.map((executor) => executor.execute(session.prpPath)));

    expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(results.find((result) => result.status === "rejected")?.reason).toMatchObject({
      code: "CHECKPOINT_CONFLICT",
    });
    expect(await session.log()).toEqual(["code", ...GATES]);
  });
});
