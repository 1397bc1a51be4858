// Tests the list's filters and its actions on several tasks over HTTP.
import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { maskNumbers } from "../../../cli/src/ui/task-filter.js";
import { newPlace } from "../waymark.js";
import { failedRuns } from "./failing-tasks.js";
import { served } from "./served.js";

it.each(["sqlite:checkpoints.db", "files:store"])("finds tasks by text, time and error, in %s", async (url) => {
  const { cwd, manager } = await newPlace(url);
  await using past = new CheckpointManager({
    storage: openStorage(url.replace(":", `:${cwd}/`)),
    clock: () => Date.now() - 3 * 86_400_000,
  });
  await past.save("old", {}, { stage: "plan" });
  await past.fail("old", new Error("quota of user 9 exceeded"));
  await manager.save("build-7", {}, { stage: "unit-tests", label: "After the Tests" });
  await failedRuns(manager, 3);
  const page = await served(url, { cwd });
  const find = async (filter: object) => {
    const list = await page.ask("tasks", { order: "taskId", offset: 0, limit: 10, ...filter });
    return list.tasks.map(({ taskId }) => taskId);
  };

  expect(await find({ text: "BUILD" })).toEqual(["build-7"]);
  expect(await find({ text: "the tests" })).toEqual(["build-7"]);
  expect(await find({ text: "unit-" })).toEqual(["build-7"]);
  expect(await find({ text: "exceeded" })).toEqual(["charge/1", "charge/3", "old"]);
  const error = "quota of user # exceeded";
  const today = { status: ["failed"] as const, withinMs: 86_400_000, error };
  expect(await find(today)).toEqual(["charge/1", "charge/3"]);
  expect(await page.ask("failures", { withinMs: 86_400_000 })).toEqual({
    tasks: 3,
    groups: [
      { error, tasks: 2 },
      { error: "no route to #", tasks: 1 },
    ],
  });
  expect(await page.ask("failures", {})).toMatchObject({ tasks: 4, groups: [{ error, tasks: 3 }, { tasks: 1 }] });
  await manager.close();
});

it("counts what an action on several tasks would change, and changes exactly these", async () => {
  const { cwd, manager } = await newPlace();
  await failedRuns(manager, 3);
  await manager.enqueue("charge/4", 4);
  await manager.save("charge/plain", {});
  const page = await served("sqlite:checkpoints.db", { cwd, canWrite: true });
  const all = await page.ask("choose", { filter: { prefix: "charge/" } });
  expect(all).toMatchObject({ tasks: 5, retry: 3, cancel: 1, running: 0 });
  const two = await page.ask("choose", { taskIds: ["charge/1", "charge/4"] });
  expect(two).toMatchObject({ tasks: 2, retry: 1, cancel: 1 });

  expect(await page.ask("retry-chosen", { choiceId: two.choiceId })).toEqual({ changed: 1, failed: [] });
  // One task has been retried meanwhile; the others are still retried.
  expect(await page.ask("retry-chosen", { choiceId: all.choiceId })).toMatchObject({
    changed: 2,
    failed: [
      {
        taskId: "charge/1",
        error: { message: expect.stringContaining("is queued, and only failed tasks are put back") },
      },
    ],
  });
  expect(await page.ask("cancel-chosen", { choiceId: two.choiceId, reason: "a test" })).toMatchObject({ changed: 1 });
  expect((await manager.tasks({ status: ["cancelled"] })).map(({ taskId }) => taskId)).toEqual(["charge/4"]);
  expect(await page.ask("retention", { choiceId: two.choiceId, policy: { keepLast: 1 } })).toMatchObject({
    total: { tasks: 2 },
    commands: [],
  });
  expect(await page.refused("retry-chosen", { choiceId: "gone" })).toMatchObject({ status: 409 });
  await manager.close();
});

it("masks numbers and ids, and nothing else", () => {
  expect(maskNumbers("user 4711 has 12.5 MB at 10.0.4.7:5432")).toBe("user # has # MB at #");
  expect(maskNumbers("run 0b9c8e1f-8a55-4f0e-9d4b-5f1f6a1c2d3e, at 0x7ffe")).toBe("run #, at #");
});
