import { appendFileSync } from "node:fs";

/** One line of what `npm run crash` prints: how often something was tried there, and how much was lost of it. */
interface Count {
  /** In the words of the table: `kill points`. */
  readonly what: string;
  readonly store: string;
  readonly operation: string;
  readonly tried: number;
  readonly lost: number;
}

const wanted = process.env["WAYMARK_CRASH"];
/** Whether every operation of every store is run, or the selection that `npm test` has time for. */
export const isFull = wanted === "full" || wanted === "half";
/** Whether of a whole run only a part is tried: see {@link drawn}. */
export const isHalf = wanted === "half";
const offset = Math.floor(Math.random() * 2);

/** What of them is tried: all, or of a whole run in half the time, as CI does, every second one, by chance of either half. */
export function drawn<Item>(items: readonly Item[]): readonly Item[] {
  return isHalf ? items.filter((_, at) => at % 2 === offset) : items;
}

/** Tells scripts/crash.mjs, where that runs the tests: every test in this folder that tries something often counts here. */
export function count(line: Count): void {
  const file = process.env["WAYMARK_CRASH_COUNTS"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`);
}
