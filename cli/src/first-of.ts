/** The first items, in an array. */
export async function takeFirst<Item>(items: AsyncIterable<Item>, limit = Number.POSITIVE_INFINITY): Promise<Item[]> {
  const first: Item[] = [];
  for await (const item of items) if (first.push(item) >= limit) break;
  return first;
}
