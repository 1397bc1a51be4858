import { describe, expect, it } from "vitest";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { isAlive, LifeLine } from "../processes/processes.js";
import { blocked, countingCoder, documentOf, Session } from "./session.js";

const GATES = ["gate-1", "gate-2", "gate-3", "gate-4"];
/** Everything that runs, in order. Gate 2 fails at first. */
const WHOLE_RUN = ["code", "gate-1", "gate-2", "fix", ...GATES];

describe("on interruption, the checkpoint allows resume from the last state: a run killed in the middle of its work", () => {
  it.each(["code", "gate-2", "fix"])(
    "in %s: this work ends with the run and runs again, and nothing else does",
    async (work) => {
      const session = await Session.createWithGit();
      await session.write("fail-gate-2");
      await session.write("block", work);
      const run = session.spawn();
      const pid = await blocked(run);
      run.kill("SIGKILL");
      await run;
      await session.remove("block");

      const logger = recordingLogger();
      const result = await session.executor({ logger }).execute(session.prpPath);

      expect(isAlive(pid)).toBe(false);
      expect(logger.lines).toContainEqual(
        expect.objectContaining({ level: "info", message: expect.stringContaining("where the last run was killed") }),
      );
      expect(result).toMatchObject({ success: true, fixAttempts: 1, resumedFrom: { id: expect.any(String) } });
      const at = WHOLE_RUN.indexOf(work);
      expect(await session.log()).toEqual([...WHOLE_RUN.slice(0, at + 1), ...WHOLE_RUN.slice(at)]);
      expect((await session.checkpoints()).map(({ label }) => label)).toContainEqual(
        expect.stringMatching(/^Resumed: /),
      );
    },
  );

  it.each(["code", "gate-1", "gate-2", "gate-3"])(
    "in %s, where a box is ticked meanwhile, and gates are lists, sessions and pipes",
    async (work) => {
      const session = await Session.createWithGit();
      const prp = (box: string) =>
        `# T\n\n- [${box}] coded\n\n## Quality Gates (Validation)\n\n**Level 1: A list**\n\n\`\`\`bash\ncd . && ./work gate-1\n\`\`\`\n\n` +
        "**Level 1.5: A pipe after a condition**\n\n```sh\n[ -d no ] && rm -r no\n./work gate-2 | cat\n```\n\n" +
        "**Level 5: A session**\n\n```console\n$ ./work gate-3\ngate-3 is fine\n```\n";
      await session.write("PRP.md", prp(" "));
      await session.write("block", work);
      const run = session.spawn();
      const pid = await blocked(run);
      run.kill("SIGKILL");
      await run;
      await session.remove("block");
      await session.write("PRP.md", prp("x"));

      const result = await session.executor().execute(session.prpPath);

      expect(isAlive(pid)).toBe(false);
      expect(result).toMatchObject({ success: true, resumedFrom: { id: expect.any(String) } });
      const whole = ["code", "gate-1", "gate-2", "gate-3"];
      const at = whole.indexOf(work);
      expect(await session.log()).toEqual([...whole.slice(0, at + 1), ...whole.slice(at)]);
    },
  );

  it("and started over: only once no process of the killed run is left", async () => {
    const session = await Session.createWithGit();
    // When told to end, the gate waits until the test writes to the pipe.
    const gate =
      "[ -e go ] && exit; mkfifo go; trap 'cat go; exit' TERM; sh -c 'echo blocked: it by $$; exec sleep 1000' & wait";
    const run = session.spawn({ prp: documentOf(gate), coder: `echo '{"result":"success","message":""}'` });
    await blocked(run);
    run.kill("SIGKILL");
    await run;
    const waits = deferred();
    const info = (_details: object, message: string) => {
      if (message.includes("waiting until its commands have ended")) waits.resolve();
    };
    const coder = countingCoder();
    const result = session
      .executor({ coder, logger: { ...recordingLogger(), info } })
      .execute(documentOf(gate), { restart: true });
    await waits.promise;
    expect(coder.calls).toBe(0);
    await session.write("go");

    expect((await result).success).toBe(true);
    expect(coder.calls).toBe(1);
  });

  it("by process.exit, which ends its running work", async () => {
    const session = await Session.createWithGit();
    const alive = await LifeLine.create();
    const coder = `exec 9>${alive.path}; echo blocked; exec sleep 1000`;
    expect((await session.spawn({ exitOn: "blocked", coder })).exitCode).toBe(3);

    await alive.closed;
  });

  it("more than once", async () => {
    const session = await Session.createWithGit();
    for (const work of ["code", "code", "gate-3"]) {
      await session.write("block", work);
      const run = session.spawn({ checkpoints: { maxCheckpoints: 1 }, autoSaveIntervalMs: 5 });
      await blocked(run);
      run.kill("SIGKILL");
      await run;
    }
    await session.remove("block");
    await session.executor().execute(session.prpPath);

    expect(await session.log()).toEqual(["code", "code", "code", "gate-1", "gate-2", "gate-3", "gate-3", "gate-4"]);
  });
});

describe("a run that was killed in the moment in which a checkpoint was acknowledged", () => {
  // Killed before the coder, after its response, after a gate that passed, after one that failed, after the fix, at the
  // end.
  it.each([1, 2, 3, 4, 5, WHOLE_RUN.length + 2])(
    "its checkpoint %d: every response and every gate has run exactly once in the end",
    async (killAfterSave) => {
      const session = await Session.createWithGit();
      await session.write("fail-gate-2");
      const killed = await session.spawn({ killAfterSave });
      const before = await session.checkpoints();
      expect(killed.signal).toBe("SIGKILL");
      expect(before).toHaveLength(killAfterSave);

      const result = await session.executor().execute(session.prpPath);

      expect(result).toMatchObject({ success: true, fixAttempts: 1, artifacts: ["log"] });
      expect(result.resumedFrom).toEqual({ id: before.at(-1)?.id, stage: before.at(-1)?.state.stage });
      expect(await session.log()).toEqual(WHOLE_RUN);
      expect((await session.latest()).state.stage).toBe("complete");
    },
  );

  it("gets its result if only the last checkpoint was missing", async () => {
    const session = await Session.createWithGit();
    await session.write("fail-gate-1");
    const options = { maxFixAttempts: 0, checkpoints: { maxCheckpoints: 100 } };
    await session.spawn({ ...options, killAfterSave: 3 });
    expect(await session.stages()).toEqual(["pre-execution", "coder-response", "validation-gate-1"]);

    const result = await session.executor(options).execute(session.prpPath);

    expect(result).toMatchObject({ success: false, error: expect.stringContaining("level 1") });
    expect(await session.log()).toEqual(["code", "gate-1"]);
    expect(await session.stages()).toEqual(["pre-execution", "coder-response", "validation-gate-1", "failed"]);
  });
});

describe("a run that is paused", () => {
  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("by %s ends as that signal would have it", async (signal) => {
    const session = await Session.createWithGit();
    await session.write("block", "gate-3");
    const run = session.spawn();
    const pid = await blocked(run);
    run.kill(signal);

    expect((await run).signal).toBe(signal);
    expect(isAlive(pid)).toBe(false);
    expect(await session.latest()).toMatchObject({
      label: expect.stringMatching(/^Paused: Gate 2 passed \(gate 3 so far: /),
    });
    await session.remove("block");
    expect((await session.executor().execute(session.prpPath)).success).toBe(true);
    expect(await session.log()).toEqual(["code", "gate-1", "gate-2", "gate-3", "gate-3", "gate-4"]);
  });
});
