import { expect, it } from "vitest";
import { FLIPPED, flipBytes } from "./flip-bytes.js";

/** So many bytes apart, others each time; with WAYMARK_EVERY_BYTE=1 every byte. */
const STRIDES = { "json-file": 29, "task-file": 29, sqlite: 211, "sqlite's log": 2003 };
const isFullRun = process.env["WAYMARK_EVERY_BYTE"] === "1";

it.each(FLIPPED)("%s: whichever byte is damaged, no wrong state is given", { timeout: 3_600_000 }, async (storage) => {
  const stride = isFullRun ? 1 : STRIDES[storage];
  const { examples, ...counts } = await flipBytes(storage, { stride, offset: Math.floor(Math.random() * stride) });
  if (isFullRun) process.stdout.write(`${JSON.stringify(counts)}\n`);
  expect(examples).toEqual([]);
  expect(counts.wrong).toBe(0);
  expect(counts.reported + counts["found by verify"]).toBeGreaterThan(0);
  // On files a damaged byte is harmless or reported, and nothing is left to verify.
  if (!storage.startsWith("sqlite")) expect(counts["found by verify"] + counts["torn tail"]).toBe(0);
});
