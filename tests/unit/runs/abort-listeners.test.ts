import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import type { Run } from "waymark";
import { deferred } from "../../support/deferred.js";
import { managerOn } from "./run-support.js";

it("each run that shares a signal is paused with its reason, and a run that has ended isn't", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  const { signal } = controller;
  await manager.run("ended", () => "done", { signal });
  const begun = [deferred(), deferred()];
  const waits = (n: number) => async (run: Run) => {
    begun[n]?.resolve();
    await run.waitFor("answer");
  };
  const running = [0, 1].map((n) => manager.run(`${n}`, waits(n), { signal }));
  await Promise.all(begun.map(({ promise }) => promise));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  controller.abort("enough");
  const ends = await Promise.allSettled(running);
  expect(ends).toMatchObject([0, 1].map(() => ({ reason: { code: "RUN_PAUSED", cause: "enough" } })));
  expect(getEventListeners(signal, "abort")).toEqual([]);
  expect(await manager.run("ended", () => "again")).toBe("done");
});
