// How much of the crash tests is run: scripts/crash.mjs says so in WAYMARK_CRASH; without it, what `npm test` has time for.
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
