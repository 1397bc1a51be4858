// Tests how the page's server finds the waits for a person.
import { expect, it } from "vitest";
import { newPlace } from "../waymark.js";
import { askingRuns } from "./asking-tasks.js";
import { served } from "./served.js";

it.each(["sqlite:checkpoints.db", "files:store"])("lists the questions of all runs, in %s", async (url) => {
  const { cwd, manager } = await newPlace(url);
  await askingRuns(manager, ["4.1", "4.2"]);
  await manager.save("build", {}, { status: "paused" });
  const page = await served(url, { cwd });

  const { items, total } = await page.ask("inbox", {});
  expect(total).toBe(2);
  expect(items).toMatchObject([
    {
      task: { taskId: "release-4.2", status: "waiting" },
      waits: [{ name: "approve", question: "May release-4.2 go out?", schema: { type: "object" } }],
      input: ["object", [["version", "4.2"]], 0],
      before: { title: "test", result: ["object", [["passed", 412]], 0] },
    },
    { task: { taskId: "release-4.1" } },
  ]);
  expect(await page.ask("counts", {})).toMatchObject({ tasks: 3, asking: 2 });

  // A run that is answered waits for a worker, not for a person.
  await manager.send("release-4.2", "approve", { approved: true });
  expect((await page.ask("inbox", {})).items.map(({ task }) => task.taskId)).toEqual(["release-4.1"]);
  expect(await page.ask("counts", {})).toMatchObject({ asking: 1 });
  await manager.close();
});

it("lists a question whose run is alive, and one whose runner has died", async () => {
  const { cwd, manager } = await newPlace();
  const asked = new Promise((resolve) => manager.on("waitStarted", resolve));
  const stop = new AbortController();
  const running = manager.run("live", (run) => run.waitFor("approve", { ask: "Go on?" }), { signal: stop.signal });
  await asked;
  const page = await served("sqlite:checkpoints.db", { cwd });
  expect(await page.ask("inbox", {})).toMatchObject({
    total: 1,
    items: [{ task: { taskId: "live", status: "running" }, waits: [{ question: "Go on?" }] }],
  });
  stop.abort();
  await expect(running).rejects.toThrow();
  expect(await page.ask("inbox", {})).toMatchObject({ items: [{ task: { taskId: "live" } }] });
  await manager.close();
});
