import { setImmediate as otherWork } from "node:timers/promises";

/** Reading this many tasks takes some milliseconds. */
const ITEMS_IN_A_ROW = 100;

/** Yields the same items. In between it lets other requests run, because a storage may give its items without a pause. */
export async function* givingWay<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item, void, void> {
  let count = 0;
  for await (const item of items) {
    yield item;
    count += 1;
    if (count % ITEMS_IN_A_ROW === 0) await otherWork();
  }
}
