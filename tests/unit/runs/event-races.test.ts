// Tests that no event is lost or received twice, however often a loop that races a wait against a tick is killed.
import { expect, it } from "vitest";
import { MemoryAdapter } from "waymark/adapters/memory";
import { LOOPS, sendThrough } from "./event-loops.js";

it.each(Object.entries(LOOPS))("%s gets each event once, in order", async (_name, loop) => {
  expect.hasAssertions();
  await sendThrough(new MemoryAdapter(), loop, { events: 50, seed: 1, mostWrites: 40 });
});
