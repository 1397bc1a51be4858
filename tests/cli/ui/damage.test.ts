// What the page's server answers about tasks with damaged checkpoints.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { newPlace } from "../waymark.js";
import { served } from "./served.js";

/** A task of three checkpoints. The newest one's state is damaged, or also its summary. */
async function placeWithDamage(sql: string) {
  const place = await newPlace();
  for (let n = 1; n <= 3; n++) await place.manager.save("t", { n, filler: "abc" });
  await place.manager.close();
  const database = new Database(join(place.cwd, "checkpoints.db"));
  database.exec(sql);
  database.close();
  return { ...place, page: await served("sqlite:checkpoints.db", place) };
}

const DAMAGED_STATE = "UPDATE waymark_payloads SET body = replace(body, 'abc', 'abd') WHERE number = 3";
const DAMAGED_SUMMARY = "UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 3";

it.each([DAMAGED_STATE, DAMAGED_SUMMARY])(
  "reports a damaged newest checkpoint on the task's page (%s)",
  async (sql) => {
    const { page } = await placeWithDamage(sql);
    const { damage } = await page.ask("task", { taskId: "t" });
    expect(damage.map(({ sequence }) => sequence)).toEqual([3]);
    // The newest checkpoint that can be read is found by reading it.
    const { checkpoint } = await page.ask("checkpoint", { taskId: "t" });
    expect(checkpoint.sequence).toBe(2);
  },
);

it("shows a damaged task in the list as tasks and resume do", async () => {
  const { page, run } = await placeWithDamage(DAMAGED_SUMMARY);
  const { tasks } = await page.ask("tasks", { order: "recent", offset: 0, limit: 10 });
  const why = "@3 can't be read; no runner known";
  expect(tasks).toMatchObject([{ taskId: "t", damage: [{ sequence: 3 }], why }]);
  for (const command of ["tasks", "resume"]) {
    expect((await run(command)).stdout).toMatch(/^t .* damaged .*@3 can't be read; no runner known$/m);
  }
});

it("reports of a task without a readable checkpoint that it is damaged, not that it is gone", async () => {
  const { manager, cwd } = await newPlace("files:store");
  const { id } = await manager.save("t", {});
  await manager.close();
  writeFileSync(join(cwd, "store", "t", `000000000001-${id}.json`), "{");
  const page = await served("files:store", { cwd });
  expect(await page.refused("task", { taskId: "t" })).toMatchObject({
    message: expect.stringMatching(
      /^No checkpoint of task "t" can be read: 1 record of it .* left untouched\. .*repair/,
    ),
  });
});
