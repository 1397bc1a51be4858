import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, it } from "vitest";
import { isAlive, WatchedSink } from "../processes/processes.js";
import { blocked, countingCoder, documentOf, KEEP_ALL, Session } from "./session.js";

const EXECUTE_ALL = new URL("../../fixtures/prp/execute-all.mjs", import.meta.url).pathname;
const STAGES = ["pre-execution", "coder-response", "validation-gate-1", "validation-gate-2", "complete"];

/** Notes its task. If there is a file `block-all`, it blocks. */
const CODER = `#!/bin/sh
id=$(sed -n 's/^\\*\\*PRP ID\\*\\*: //p')
echo "code $id" >> log
if [ -e block-all ]; then
  echo "blocked: $id by $$"
  exec sleep 1000
fi
echo '{"result":"success","message":"done"}'
`;

/** A session with PRPs of these names. */
async function sessionOf(...tasks: string[]) {
  const session = await Session.createWithGit();
  await writeFile(join(session.path, "coder"), CODER, { mode: 0o755 });
  const paths = tasks.map((task) => join(session.path, `${task}.md`));
  for (const [i, task] of tasks.entries()) {
    const gates = [1, 2].map((n) => `### Level ${n}: Gate\n\n\`\`\`sh\necho "gate-${n} ${task}" >> log\n\`\`\`\n`);
    await writeFile(paths[i]!, `# It\n\n**PRP ID**: ${task}\n\n## Validation Loop\n\n${gates.join("\n")}`);
  }
  return { session, paths };
}

function executeAll(session: Session, paths: readonly string[]) {
  const options = JSON.stringify({ coder: "./coder", checkpoints: KEEP_ALL, autoSaveIntervalMs: 5 });
  return execa(process.execPath, [EXECUTE_ALL, session.path, options, ...paths], { reject: false });
}

/** Waits until the coders of all these tasks are blocked. Returns their pids. */
async function allBlocked(runs: readonly ReturnType<typeof executeAll>[], tasks: readonly string[]): Promise<string[]> {
  const output = new WatchedSink();
  for (const run of runs) run.stdout.on("data", (chunk: Buffer) => output.write(chunk));
  return Promise.all(tasks.map((task) => output.until(new RegExp(`^blocked: ${task} by (\\d+)$`, "m"))));
}

const TASKS = ["A1", "A2", "B1", "B2"];

describe("tasks of one session that are executed at once by several processes", () => {
  it("are each done once, with checkpoints of their own", async () => {
    const { session, paths } = await sessionOf(...TASKS);
    const runs = [paths.slice(0, 2), paths.slice(2)].map((some) => executeAll(session, some));

    for (const run of runs) expect((await run).stdout).toContain("outcome: true true");
    for (const task of TASKS) {
      expect((await session.checkpoints(task)).map(({ state }) => state.stage)).toEqual(STAGES);
      expect((await session.log()).filter((line) => line.endsWith(` ${task}`))).toEqual([
        `code ${task}`,
        `gate-1 ${task}`,
        `gate-2 ${task}`,
      ]);
    }
  });

  it("are each resumed after all of them were killed", async () => {
    const { session, paths } = await sessionOf(...TASKS);
    await session.write("block-all");
    const runs = [paths.slice(0, 2), paths.slice(2)].map((some) => executeAll(session, some));
    const pids = await allBlocked(runs, TASKS);
    for (const run of runs) run.kill("SIGKILL");
    await Promise.all(runs);
    await session.remove("block-all");

    // In reverse order, so that another process resumes each task.
    const again = [paths.slice(2), paths.slice(0, 2)].map((some) => executeAll(session, some));
    for (const run of again) expect((await run).stdout).toContain("outcome: true true");
    for (const pid of pids) expect(isAlive(pid)).toBe(false);
    for (const task of TASKS) {
      expect((await session.log()).filter((line) => line.endsWith(` ${task}`))).toEqual([
        `code ${task}`,
        `code ${task}`,
        `gate-1 ${task}`,
        `gate-2 ${task}`,
      ]);
      expect((await session.checkpoints(task)).at(-1)?.state.stage).toBe("complete");
    }
  });

  it("are all paused by one SIGINT, and say how far they came", async () => {
    const tasks = TASKS.slice(0, 3);
    const { session, paths } = await sessionOf(...tasks);
    await session.write("block-all");
    const run = executeAll(session, paths);
    const pids = await allBlocked([run], tasks);
    run.kill("SIGINT");

    expect((await run).signal).toBe("SIGINT");
    for (const pid of pids) expect(isAlive(pid)).toBe(false);
    for (const task of tasks) {
      const checkpoints = await session.checkpoints(task);
      // The progress that was saved while it ran was replaced by the checkpoint at its end.
      expect(checkpoints).toHaveLength(2);
      const { label, state } = checkpoints[1]!;
      expect(label).toMatch(/^Paused: Before the coder \(the coder so far: /);
      expect(state.waymark?.progress?.stdout).toContain(`blocked: ${task}`);
    }
  });
});

describe("a task that is being executed already", () => {
  it("is refused to another process, which changes nothing", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "gate-1");
    const first = session.spawn();
    await blocked(first);
    const before = await session.checkpoints();
    const second = await session.spawn();

    expect(second.exitCode).not.toBe(0);
    expect(second.stderr).toMatch(/is being executed already/);
    expect(await session.checkpoints()).toEqual(before);
    expect(await session.log()).toEqual(["code", "gate-1"]);
    first.kill("SIGKILL");
    await first;
    await session.remove("block");
    await session.executor().execute(session.prpPath);
  });

  it("is refused to the same process, by the same executor and by another one", async () => {
    const session = await Session.createWithGit();
    const executor = session.executor({ coder: countingCoder() });
    const other = session.executor({ coder: countingCoder() });
    const prp = documentOf("true");
    const outcomes = await Promise.allSettled([executor.execute(prp), executor.execute(prp), other.execute(prp)]);
    const refused = outcomes.filter((outcome) => outcome.status === "rejected");

    expect(refused).toHaveLength(2);
    for (const { reason } of refused) expect(reason).toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await session.checkpoints("T")).toHaveLength(4);
  });

  it("is done once if several processes begin it at the same moment", async () => {
    for (let round = 0; round < 2; round++) {
      const { session, paths } = await sessionOf("A");
      const runs = Array.from({ length: 4 }, () => executeAll(session, paths));
      const said = (await Promise.all(runs)).map(({ stdout }) => /^outcome: (.*)$/m.exec(stdout)?.[1]);

      // A late process is refused, or gets the result.
      expect(said).toContain("true");
      for (const outcome of said) expect(["true", "CHECKPOINT_CONFLICT"]).toContain(outcome);
      expect(await session.log()).toEqual(["code A", "gate-1 A", "gate-2 A"]);
      expect((await session.checkpoints("A")).at(-1)?.state.stage).toBe("complete");
    }
  });
});
