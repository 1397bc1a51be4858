// Tests the queries of the reading commands when they are called without a command, as the page does.
import { expect, it, onTestFinished } from "vitest";
import { Damage } from "../../cli/src/damage.js";
import { readDetails, readShownState } from "../../cli/src/queries/checkpoint.js";
import { listCheckpoints } from "../../cli/src/queries/checkpoints.js";
import { diffStates } from "../../cli/src/queries/diff.js";
import { listIncomplete } from "../../cli/src/queries/incomplete.js";
import { PolicyPlans } from "../../cli/src/queries/retention.js";
import { countTasks } from "../../cli/src/queries/stats.js";
import { listTasks } from "../../cli/src/queries/tasks.js";
import { readTimeline } from "../../cli/src/queries/timeline.js";
import { verifyStorage } from "../../cli/src/queries/verify.js";
import { openStore, type QuerySession } from "../../cli/src/store.js";
import { newPlace } from "./waymark.js";

it("returns plain data, and prints nothing", async () => {
  const { cwd, manager } = await newPlace();
  await manager.run("agent", async (run) => {
    await run.step("plan", () => 1);
    return run.state;
  });
  for (const phase of [1, 2]) await manager.save("build-42", { phase }, { stage: "unit-tests" });
  await manager.close();
  const damage = new Damage(async (warning) => expect.unreachable(warning));
  const store = await openStore(`sqlite:${cwd}/checkpoints.db`, async () => ({ folder: cwd }), "read", damage);
  onTestFinished(async () => {
    await store.manager.close();
    await store.storage.close();
  });
  const session: QuerySession = { ...store, damage };
  const task = "build-42";
  const found = {
    tasks: await all(listTasks(session, { order: "taskId" })),
    incomplete: await all(listIncomplete(session, {})),
    checkpoints: await all(listCheckpoints(session, { task, order: "newest" })),
    timeline: await readTimeline(session, { task: "agent" }),
    details: await readDetails(session, { task }),
    state: await readShownState(session, { task, id: "@1" }),
    diff: await diffStates(session, { task }),
    plans: await all(new PolicyPlans(session, { keepLast: 1 }, [task]).shown()),
    stats: await all(countTasks(session, {})),
    verified: await verifyStorage(session, {}),
  };
  expect(structuredClone(found)).toEqual(found);
  expect(found).toMatchObject({
    tasks: [{ taskId: "agent" }, { taskId: task, count: 2 }],
    incomplete: [{ taskId: task, why: expect.stringContaining("no runner known") }],
    checkpoints: [{ checkpoint: { sequence: 2 } }, { checkpoint: { sequence: 1 } }],
    timeline: [{ turn: 1, step: expect.stringContaining("plan") }],
    details: { checkpoint: { sequence: 2 }, state: { phase: 2 } },
    state: { checkpoint: { sequence: 1 }, state: { phase: 1 } },
    diff: { from: { sequence: 1 }, to: { sequence: 2 }, changes: [{ kind: "changed", path: ["phase"] }] },
    plans: [{ keep: [{}], remove: [{ checkpoint: { sequence: 1 } }] }],
    stats: [{ taskId: "agent" }, { taskId: task, checkpoints: 2, stages: [{ stage: "unit-tests" }] }],
    verified: { findings: [], tasks: 2 },
  });
});

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}
