import { expect, it } from "vitest";
import { isPassing } from "waymark/adapter";
import { newStore } from "../../../support/postgres.js";
import { managerOn } from "../../runs/run-support.js";

it("replaces a passing checkpoint whose status was changed since it was stored", async () => {
  const { adapter } = await newStore();
  const { manager } = managerOn(adapter);
  const saver = manager.autoSave("t", () => ({ n: Math.random() }), { intervalMs: 2 ** 30 });
  await saver.flush();
  const [first] = await manager.list("t");
  await manager.setStatus("t", first?.id ?? "", "paused");
  await saver.flush();
  await saver.stop();
  expect((await manager.list("t")).filter(isPassing)).toHaveLength(1);
});
