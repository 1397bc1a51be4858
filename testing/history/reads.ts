// What a read asks for, and what it must return.
import type { SeenItem } from "./calls.js";
import { type ActionOf, firstOf, type Write } from "./written.js";

/** Returns the number of leading items for which `isFirst` is true, by bisection. */
export function countUpTo<Item>(items: readonly Item[], isFirst: (item: Item) => boolean): number {
  let [from, to] = [0, items.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    const item = items[middle];
    if (item !== undefined && isFirst(item)) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Whether an item matches the range, kinds, name and id of a read. */
export function isSelected({ query, id }: ActionOf<"read">, item: SeenItem): boolean {
  const { afterSequence = 0, beforeSequence = Number.POSITIVE_INFINITY, kinds, name } = query;
  return (
    item.sequence > afterSequence &&
    item.sequence < beforeSequence &&
    (kinds?.includes(item.kind) ?? true) &&
    (name === undefined || item.name === name) &&
    (id === undefined || item.id === id)
  );
}

/** Yields the items, oldest first, that a read lacks although it must return them if they were stored. */
export function* missingFrom(
  action: ActionOf<"read">,
  seen: ReadonlySet<number>,
  writes: readonly Write[],
): Generator<SeenItem> {
  const { query, items = [], isWhole } = action;
  const { order, afterSequence = 0, beforeSequence = Number.POSITIVE_INFINITY, stage, status, skip } = query;
  // The checkpoints that match `stage`, `status` or `skip` may have changed since the read.
  if (stage !== undefined || status !== undefined || skip !== undefined) return;
  const end = items.at(-1)?.sequence;
  const isCut = !isWhole || items.length === query.limit;
  if (isCut && end === undefined) return;
  const from = isCut && order === "newest" ? Math.max(afterSequence, (end ?? 0) - 1) : afterSequence;
  const below = isCut && order === "oldest" ? Math.min(beforeSequence, (end ?? 0) + 1) : beforeSequence;
  const first = countUpTo(writes, (write) => (write.items.at(-1)?.sequence ?? 0) <= from);
  for (let at = first; at < writes.length; at++) {
    const write = writes[at];
    if (write === undefined || firstOf(write) >= below) return;
    for (const item of write.items) {
      const isInRange = item.sequence > from && item.sequence < below;
      if (isInRange && isSelected(action, item) && !seen.has(item.sequence)) yield item;
    }
  }
}
