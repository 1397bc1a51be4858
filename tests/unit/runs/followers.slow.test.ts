// Tests a follower that is far behind.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { record, requireLog } from "../../../conformance/records.js";
import { managerOn, STORAGES } from "./run-support.js";

const RECORDS = 100_000;
const BATCH = 1000;
/** The body of a value. All values together have 60 MB. */
const BODY = JSON.stringify("x".repeat(600));
const MOST_GROWTH_BYTES = 4 * 1024 * 1024;

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

function measureHeap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

it.each(["sqlite", "json-file"])(
  "a follower on %s that is 100,000 records behind catches up in constant memory",
  async (name) => {
    const storage = await STORAGES[name]!();
    for (let at = 0; at < RECORDS; at += BATCH) {
      const batch = Array.from({ length: BATCH }, (_, index) => record(`s${at + index}`, { body: BODY }));
      await requireLog(storage).append("t", batch);
    }
    const { manager } = managerOn(storage);
    let [last, base, peak] = [0, 0, 0];
    for await (const { sequence, kind } of manager.follow("t")) {
      if (kind !== "step" || sequence !== last + 1) throw new Error(`A ${kind} ${sequence} came after ${last}.`);
      last = sequence;
      // By then, caches are filled.
      if (sequence === RECORDS / 10) base = measureHeap();
      else if (base > 0 && sequence % (RECORDS / 10) === 0) peak = Math.max(peak, measureHeap());
      if (sequence === RECORDS) break;
    }
    expect(last).toBe(RECORDS);
    expect(peak - base).toBeLessThan(MOST_GROWTH_BYTES);
    await storage.close();
  },
);
