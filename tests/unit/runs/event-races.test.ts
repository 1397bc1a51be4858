// No event is lost and none is received twice, however often a loop that races a wait against a tick is killed.
import { expect, it } from "vitest";
import { MemoryAdapter } from "waymark/adapters/memory";
import { LOOPS, sendThrough } from "./event-loops.js";

it.each(Object.entries(LOOPS).flatMap(([name, loop]) => [1, 2, 3].map((seed) => [name, seed, loop] as const)))(
  "%s gets each event once, in order (seed %d)",
  async (_name, seed, loop) => {
    expect.hasAssertions();
    await sendThrough(new MemoryAdapter(), loop, { events: 150, seed, mostWrites: 40 });
  },
);
