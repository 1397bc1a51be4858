import { expect, it } from "vitest";
import { SEED } from "../support/seeded.js";
import { count } from "./counts.js";
import { STRIDE_FACTOR } from "./extent.js";
import { FLIPPED, flipBytes } from "./flip-bytes.js";

/**
 * The distance between damaged bytes. Each run damages other bytes. With WAYMARK_EVERY_BYTE=1, each byte is damaged.
 */
const STRIDES = { "json-file": 3, "task-file": 3, sqlite: 7, "sqlite's log": 31 };
const isEvery = process.env["WAYMARK_EVERY_BYTE"] === "1";

it.each(FLIPPED)(
  "%s: whichever byte is damaged, no wrong state is returned",
  { timeout: 3_600_000 },
  async (storage) => {
    const stride = isEvery ? 1 : STRIDES[storage] * STRIDE_FACTOR;
    const counts = await flipBytes(storage, { stride, offset: SEED % stride });
    const { examples, wrong, intact, reported, "found by verify": verified, "torn tail": torn } = counts;
    const tried = intact + reported + verified + torn + wrong;
    const outcomes = `${intact} intact, ${reported} reported, ${verified} found by verify, ${torn} read as a torn tail`;
    count({ what: "bytes flipped, and files cut", store: storage, operation: outcomes, tried, lost: wrong });
    expect(examples).toEqual([]);
    expect(wrong).toBe(0);
    // SQLite treats a damaged log as if it ended at the damage.
    if (storage !== "sqlite's log") expect(reported + verified).toBeGreaterThan(0);
    // On files, a damaged byte is harmless, is reported, or cuts a log, so nothing is left for verify.
    if (!storage.startsWith("sqlite")) expect(verified).toBe(0);
  },
);
