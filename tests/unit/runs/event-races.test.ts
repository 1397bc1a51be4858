// Tests the order of events: in loops that race a wait against a tick and are killed, and among simultaneous waits.
import { expect, it } from "vitest";
import { MemoryAdapter } from "waymark/adapters/memory";
import { LOOPS, sendThrough } from "./event-loops.js";
import { managerOn, STORAGES } from "./run-support.js";

it.each(Object.entries(LOOPS))("%s gets each event once, in order", async (_name, loop) => {
  expect.hasAssertions();
  await sendThrough(new MemoryAdapter(), loop, { events: 50, seed: 1, mostWrites: 40 });
});

const ORDERS = [
  ["a", "b", "c"],
  ["c", "b", "a"],
  ["b", "a", "c"],
] as const;

it.each(Object.entries(STORAGES))(
  "simultaneous waits receive events in the order in which they were sent, so the first one wins a race (%s)",
  async (_, open) => {
    const { manager, storage } = managerOn(await open());
    for (const [number, sent] of ORDERS.entries()) {
      for (const names of ORDERS) {
        const taskId = `${number}-${names.join("-")}`;
        for (const name of sent) await manager.send(taskId, name, name);
        const received: string[] = [];
        const winner = await manager.run(taskId, async (run) => {
          const waits = names.map(async (name) => {
            await run.waitFor(name);
            received.push(name);
            return name;
          });
          const first = await Promise.race(waits);
          await Promise.all(waits);
          return first;
        });
        expect([taskId, winner, received]).toEqual([taskId, sent[0], [...sent]]);
      }
    }
    await storage.close();
  },
);
