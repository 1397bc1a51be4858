// run-oneshot.test.ts shows the same of two runs of one process.
import { describe, expect, it } from "vitest";
import { outcomeOf, Project, workstream } from "../../runners/oneshot/project.js";

/** The pid of the first workstream that prints one. */
const PID = /"line":"pid (\d+)"/;
const plan = { workstreams: [workstream("a"), workstream("b", 'echo "pid $$"; exec sleep 1000'), workstream("c")] };

describe("two processes", () => {
  it("run one feature: the second is refused, whatever it asks for, and the first continues", async () => {
    const project = await Project.create();
    const pass = await project.gate("go");
    const waits = { workstreams: [workstream("a", 'echo "pid $$"; read go < go')] };
    const first = project.spawn(waits, { agentId: "agent-1" });
    await first.output.until(PID);

    const second = await project.spawn(waits, { restart: true }).run;
    expect(outcomeOf(second.stdout)).toMatchObject({
      error: "CHECKPOINT_CONFLICT",
      message: expect.stringContaining('run already by agent "agent-1"'),
    });

    await pass();
    expect(outcomeOf((await first.run).stdout)).toMatchObject({ result: { success: true } });
    expect(await project.log()).toEqual(["a"]);
  });

  it("that resume one feature at once: only one does", async () => {
    const project = await Project.create();
    const killed = project.spawn(plan);
    await killed.output.until(PID);
    killed.run.kill("SIGKILL");
    await killed.run;
    const pass = await project.gate("go");
    const waits = { workstreams: [workstream("b", "read go < go")] };

    const runs = [1, 2, 3].map(() => project.spawn(waits, { resume: true }).run);
    let refused = 0;
    const outcomes = await Promise.all(
      runs.map(async (run) => {
        const outcome = outcomeOf((await run).stdout);
        if (outcome.error === "CHECKPOINT_CONFLICT") refused += 1;
        if (refused === 2) await pass();
        return outcome;
      }),
    );

    expect(outcomes.filter(({ result }) => result?.success)).toHaveLength(1);
    expect(refused).toBe(2);
    expect(await project.log()).toEqual(["a", "b", "b"]);
  });
});
