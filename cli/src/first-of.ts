/** Returns an array of the first `limit` items. */
export async function takeFirst<Item>(items: AsyncIterable<Item>, limit = Number.POSITIVE_INFINITY): Promise<Item[]> {
  const first: Item[] = [];
  for await (const item of items) if (first.push(item) >= limit) break;
  return first;
}
