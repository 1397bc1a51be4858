import { setImmediate as otherWork } from "node:timers/promises";

/** Reading this many tasks takes a few milliseconds. */
const ITEMS_IN_A_ROW = 100;

/**
 * Yields the same items, and lets other requests run in between, because a storage may return items without a pause.
 */
export async function* givingWay<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item, void, void> {
  let count = 0;
  for await (const item of items) {
    yield item;
    count += 1;
    if (count % ITEMS_IN_A_ROW === 0) await otherWork();
  }
}
