import { expect, it } from "vitest";
import { FLIPPED, flipBytes } from "./flip-bytes.js";

/** Every byte in the full run; some of them, others each time, in `npm test`. */
const STRIDES = { "json-file": 7, "task-file": 7, sqlite: 211, "sqlite's log": 211 };

it.each(FLIPPED)("%s never gives a wrong state, nor hides a damaged one, whichever byte is damaged", async (storage) => {
  const stride = process.env["WAYMARK_EVERY_BYTE"] === "1" ? 1 : STRIDES[storage];
  const counts = await flipBytes(storage, { stride, offset: Math.floor(Math.random() * stride) });
  console.log(counts);
  expect(counts.examples).toEqual([]);
});
