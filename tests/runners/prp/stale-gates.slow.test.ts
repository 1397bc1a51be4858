import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PrpExecutor } from "waymark-runners/prp";
import { recordingLogger } from "../../support/recording-logger.js";
import { blocked, countingCoder, documentOf, Session } from "./session.js";

const CHANGED = "the work has changed since it passed";
const REST = ["gate-2", "gate-3", "gate-4"];

/** A session in which gate 1 has passed and gate 2 has failed. */
async function failedAtGate2(session: Session): Promise<Session> {
  await session.write("fail-gate-2");
  const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0 });
  expect((await executor.execute(session.prpPath)).success).toBe(false);
  await session.remove("fail-gate-2");
  await session.remove("log");
  return session;
}

/** Resumes, and returns everything that has run, and why gates ran again. */
async function resumed(session: Session) {
  const logger = recordingLogger();
  const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0, logger });
  const { success } = await executor.execute(session.prpPath, { resume: true });
  const reasons = logger.lines.flatMap(({ message }) => /Gate .* runs again: .*/.exec(message) ?? []);
  return { success, ran: await session.log(), reasons };
}

/** A person mends gate 2 and breaks gate 1. */
const STALE = `# Reduced

**PRP ID**: P1.M1.T1.S1

## Validation Loop

### Level 1: Style

\`\`\`bash
test ! -e lint-error
\`\`\`

### Level 2: Feature

\`\`\`bash
test -e feature
\`\`\`
`;

describe("a gate that passed before another one failed", () => {
  it.each(["create", "createWithGit"] as const)("is not skipped if a person broke it: %s", async (create) => {
    const session = await Session[create]();
    await session.write("PRP.md", STALE);
    const execute = (resume: boolean) =>
      session.executor({ coder: countingCoder(), maxFixAttempts: 0 }).execute(session.prpPath, { resume });
    expect((await execute(false)).validationResults.map(({ success }) => success)).toEqual([true, false]);
    await session.write("feature");
    await session.write("lint-error");
    const { success, validationResults } = await execute(true);
    expect([success, validationResults.map(({ level, success }) => [level, success])]).toEqual([false, [[1, false]]]);
  });

  it("runs again if the fix broke it, and then the execution fails", async () => {
    const session = await failedAtGate2(await Session.createWithGit());
    await session.write("feature");
    await session.write("fail-gate-1");
    expect(await resumed(session)).toEqual({
      success: false,
      ran: ["gate-1"],
      reasons: [`Gate 1 runs again: ${CHANGED}`],
    });
  });

  it("is skipped if nothing has changed", async () => {
    const session = await failedAtGate2(await Session.createWithGit());
    expect(await resumed(session)).toEqual({ success: true, ran: REST, reasons: [] });
  });

  it("runs again if there is no repository, and if there was none when it passed", async () => {
    const session = await failedAtGate2(await Session.create());
    await session.write("fail-gate-2");
    expect(await resumed(session)).toEqual({
      success: false,
      ran: ["gate-1", "gate-2"],
      reasons: ["Gate 1 runs again: there is no git repository to tell whether the work has changed"],
    });
    await session.remove("fail-gate-2");
    await session.git("init", "--quiet");
    expect((await resumed(session)).reasons).toEqual([
      "Gate 1 runs again: its checkpoint doesn't record the state of the work on which it passed",
    ]);
  });
});

describe("a gate that passed", () => {
  it("before a kill runs again if files have changed meanwhile, and is skipped if not", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "gate-3");
    for (const _run of [1, 2]) {
      const run = session.spawn();
      await blocked(run);
      run.kill("SIGKILL");
      await run;
    }
    expect(await session.log()).toEqual(["code", "gate-1", "gate-2", "gate-3", "gate-3"]);
    await session.remove("block");
    await session.remove("log");
    await session.write("feature");

    expect(await resumed(session)).toEqual({
      success: true,
      ran: ["gate-1", ...REST],
      reasons: [`Gate 1 runs again: ${CHANGED}`, `Gate 2 runs again: ${CHANGED}`],
    });
  });

  it("runs again once if the work changed while it ran: gates left files that git doesn't ignore", async () => {
    const session = await Session.createWithGit();
    const gates = documentOf("echo 1 >> log; echo x > report", "echo 2 >> log; echo y > other", "test -e made");
    const executor = session.executor({ coder: countingCoder(), maxFixAttempts: 0 });
    for (const _run of [1, 2, 3]) await executor.execute(gates);

    expect(await session.log()).toEqual(["1", "2", "1", "2"]);
  });

  it("before the PRP was complete runs again with a gate that was added, if the work has changed", async () => {
    const session = await Session.createWithGit();
    const executor = session.executor({ coder: countingCoder() });
    await executor.execute(documentOf("echo 1 >> log"));
    await session.write("feature");
    await executor.execute(documentOf("echo 1 >> log"));
    expect(await session.log()).toEqual(["1"]);
    await executor.execute(documentOf("echo 1 >> log", "echo 2 >> log"));

    expect(await session.log()).toEqual(["1", "1", "2"]);
  });

  it("doesn't run again for the session's own files, but for others beside them", async () => {
    const session = await Session.createWithGit();
    const path = join(session.path, "plan", "one");
    await using executor = new PrpExecutor(path, {
      coder: countingCoder(),
      cwd: session.path,
      maxFixAttempts: 0,
      output: () => {},
      logger: recordingLogger(),
    });
    const prp = { ...documentOf("echo 1 >> log", "test -e made"), taskId: "a/b" };
    await executor.execute(prp);
    await executor.execute(prp);
    expect(await session.log()).toEqual(["1"]);
    await writeFile(join(path, "artifacts", "report"), "");
    await executor.execute(prp);

    expect(await session.log()).toEqual(["1", "1"]);
  });
});
