// Tests runs of many processes, in addition to the tests in run-oneshot.test.ts.
import { describe, expect, it, onTestFinished } from "vitest";
import type { OneshotEvent } from "waymark-runners/oneshot";
import { Project, workstream } from "./project.js";

describe("a run", () => {
  it("runs dozens side by side without a warning", async () => {
    const project = await Project.create();
    const ids = Array.from({ length: 30 }, (_, i) => `w${i}`);
    const warnings: Error[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on("warning", listen);
    onTestFinished(() => void process.off("warning", listen));
    const pass = await project.gate("go");
    let begun = 0;
    const onEvent = (event: OneshotEvent) => {
      if (event.type === "output" && ++begun === ids.length) void pass(ids.length);
    };
    const plan = { workstreams: ids.map((id) => ({ id, command: "echo begun; read go < go" })) };

    const { result } = await project.run(plan, { jobs: ids.length, onEvent });

    expect(result.success).toBe(true);
    expect(warnings).toEqual([]);
  });
});

describe("a feature that has a checkpoint", () => {
  it("of two runs that begin at once, is run by one", async () => {
    const project = await Project.create();
    const pass = await project.gate("go");
    const waits = { workstreams: [workstream("a", "read go < go")] };
    const runs = [1, 2, 3].map(() => project.run(waits));
    const settled = Promise.allSettled(runs);
    // Two calls are refused, then the third may end.
    let refused = 0;
    for (const run of runs) {
      run.catch(async () => {
        refused += 1;
        if (refused === 2) await pass();
      });
    }

    const statuses = (await settled).map((run) => run.status).sort();
    expect(statuses).toEqual(["fulfilled", "rejected", "rejected"]);
    expect(await project.log()).toEqual(["a"]);
  });
});
