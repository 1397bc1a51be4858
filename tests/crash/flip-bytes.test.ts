import { expect, it } from "vitest";
import { count } from "./counts.js";
import { isFull } from "./extent.js";
import { FLIPPED, flipBytes } from "./flip-bytes.js";

/** What `npm test` has time for: bytes so far apart, others each time. */
const SOME = { "json-file": 29, "task-file": 29, sqlite: 211, "sqlite's log": 2003 };
/** What `npm run crash` has; with WAYMARK_EVERY_BYTE=1 every byte of SQLite's database too. */
const MOST = { "json-file": 1, "task-file": 1, sqlite: 5, "sqlite's log": 1 };
const isEvery = process.env["WAYMARK_EVERY_BYTE"] === "1";

it.each(FLIPPED)("%s: whichever byte is damaged, no wrong state is given", { timeout: 3_600_000 }, async (storage) => {
  const stride = isEvery ? 1 : (isFull ? MOST : SOME)[storage];
  const counts = await flipBytes(storage, { stride, offset: Math.floor(Math.random() * stride) });
  const { examples, wrong, intact, reported, "found by verify": verified, "torn tail": torn } = counts;
  const tried = intact + reported + verified + torn + wrong;
  const outcomes = `${intact} intact, ${reported} reported, ${verified} found by verify, ${torn} read as a torn tail`;
  count({ what: "bytes flipped, and files cut", store: storage, operation: outcomes, tried, lost: wrong });
  expect(examples).toEqual([]);
  expect(wrong).toBe(0);
  // SQLite takes a damaged log for one that ends there.
  if (storage !== "sqlite's log") expect(reported + verified).toBeGreaterThan(0);
  // On files a damaged byte is harmless or reported, and nothing is left to verify.
  if (!storage.startsWith("sqlite")) expect(verified + torn).toBe(0);
});
