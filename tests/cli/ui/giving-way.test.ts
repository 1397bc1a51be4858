import { expect, it } from "vitest";
import { givingWay } from "../../../cli/src/ui/giving-way.js";

it("lets other requests run while a storage returns its items without a pause", async () => {
  async function* tasks() {
    for (let task = 0; task < 250; task++) yield task;
  }
  const events: (number | string)[] = [];
  setImmediate(() => events.push("another request"));
  for await (const task of givingWay(tasks())) events.push(task);

  expect(events.indexOf("another request")).toBe(100);
  expect(events.filter((event) => typeof event === "number")).toHaveLength(250);
});
