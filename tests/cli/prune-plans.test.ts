// waymark prune removes exactly the shown plan after the answer, even though it doesn't keep the plans meanwhile.
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type RetentionPlan } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { Damage } from "../../cli/src/damage.js";
import { Output } from "../../cli/src/output.js";
import { PlanTable } from "../../cli/src/prune/plan-table.js";
import { PolicyPlans } from "../../cli/src/queries/retention.js";

/** Two tasks of four checkpoints, and the shown plans, which keep two of each. */
async function shownPlans() {
  const storage = new MemoryAdapter();
  const manager = new CheckpointManager({ storage });
  for (let n = 1; n <= 4; n++) for (const taskId of ["a", "b"]) await manager.save(taskId, n);
  const plans = new PolicyPlans({ storage, damage: new Damage(async () => {}) }, { keepLast: 2 }, undefined);
  const shown = await allOf(plans.shown());
  return { manager, plans, shown };
}

async function allOf(plans: AsyncIterable<RetentionPlan>): Promise<RetentionPlan[]> {
  const all: RetentionPlan[] = [];
  for await (const plan of plans) all.push(plan);
  return all;
}

const removedBy = (plans: readonly RetentionPlan[]) =>
  plans.map(({ taskId, remove }) => [taskId, ...remove.map(({ checkpoint }) => checkpoint.sequence)]);

describe("the plans of a policy", () => {
  it("stay the same after more saves and completions", async () => {
    const { manager, plans, shown } = await shownPlans();
    await manager.save("a", "new");
    await manager.save("c", "new");
    await manager.complete("b");
    const agreed = await allOf(plans.agreed());
    expect(removedBy(agreed)).toEqual([
      ["a", 2, 1],
      ["b", 2, 1],
    ]);
    expect(agreed[0]).toEqual(shown[0]);
  });

  it("remove the rest of their checkpoints if another process has removed some", async () => {
    const { manager, plans, shown } = await shownPlans();
    await manager.remove("a", shown[0]!.remove[0]!.checkpoint.id);
    expect(removedBy(await allOf(plans.agreed()))).toEqual([
      ["a", 1],
      ["b", 2, 1],
    ]);
  });

  it("are outdated, and remove nothing else, if a kept checkpoint is gone", async () => {
    const { manager, plans, shown } = await shownPlans();
    await manager.remove("b", shown[1]!.keep[0]!.checkpoint.id);
    const agreed = plans.agreed();
    expect((await agreed.next()).value).toEqual(shown[0]);
    await expect(agreed.next()).rejects.toMatchObject({
      code: "PLAN_OUTDATED",
      message: expect.stringContaining('task "b" is outdated: its checkpoints have changed since it was shown'),
    });
  });
});

describe("a plan on a terminal", () => {
  async function linesOf(rows: number, allRows = false) {
    let text = "";
    const stream = Object.assign(
      new Writable({
        write(chunk: Buffer, _encoding, done) {
          text += chunk.toString();
          done();
        },
      }),
      { isTTY: true, columns: 200 },
    );
    const output = new Output(stream, { name: "it", flushAt: 0, mustArrive: true });
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({ storage });
    for (let n = 1; n <= rows; n++) await manager.save("t", n);
    const table = new PlanTable(output, allRows);
    await table.add(await manager.retention.plan("t", { keepLast: 1 }));
    await table.end();
    return text.trimEnd().split("\n").slice(1);
  }

  it("is shown whole if it is short, or if all rows are requested", async () => {
    expect(await linesOf(1)).toHaveLength(1);
    expect(await linesOf(21)).toHaveLength(21);
    expect(await linesOf(300, true)).toHaveLength(300);
  });

  it.each([22, 300])("of %i rows shows its first and its last ten", async (rows) => {
    const lines = await linesOf(rows);
    expect(lines).toHaveLength(21);
    expect(lines[10]).toContain(`… ${rows - 20} more rows; --all-rows shows them`);
    expect(lines[11]).toMatch(/remove.* t +10 /);
    expect(lines[20]).toMatch(/remove.* t +1 /);
  });
});
