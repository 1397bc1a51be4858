// Runs the loops of event-races.test.ts on real storages with many events.
import { expect, it } from "vitest";
import { SEED } from "../../support/seeded.js";
import { LOOPS, sendThrough } from "./event-loops.js";
import { STORAGES } from "./run-support.js";

/** The number of events. In manual runs, use 100,000, or 20,000 on files, and choose a storage and a loop with `-t`. */
const EVENTS = Number(process.env["WAYMARK_RUN_EVENTS"] ?? 100);

const CASES = ["json-file", "task-file", "sqlite", "postgres"].flatMap((storage) =>
  Object.entries(LOOPS).map(([name, loop]) => [storage, name, loop] as const),
);

it.each(CASES)(`%s: %s gets each of ${EVENTS} events once, in order`, async (name, _loop, loop) => {
  expect.hasAssertions();
  const storage = await STORAGES[name]!();
  await sendThrough(storage, loop, { events: EVENTS, seed: SEED, mostWrites: 400, retention: { keepLast: 10 } });
  await storage.close();
});
