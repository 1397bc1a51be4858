import { describe, expect, it } from "vitest";
import { PagedItems } from "../../../src/contract/paged-items.js";

describe("PagedItems", () => {
  it("returns the items of overlapping calls in order", async () => {
    const items = new PagedItems(pages([[1], [], [2, 3]]));
    const found = await Promise.all([items.next(), items.next(), items.next(), items.next()]);
    expect(found.map(({ value }) => value)).toEqual([1, 2, 3, undefined]);
  });

  it("ends the pages when a loop over it is left", async () => {
    const ended: string[] = [];
    for await (const item of new PagedItems(pages([[1, 2], [3]], ended))) if (item === 2) break;
    expect(ended).toEqual(["ended"]);
  });

  it("throws the error of a page, and has no more items", async () => {
    const items = new PagedItems(
      (async function* () {
        yield [1];
        throw new Error("The disk is gone.");
      })(),
    );
    expect(await items.next()).toEqual({ done: false, value: 1 });
    await expect(items.next()).rejects.toThrow("The disk is gone.");
    expect(await items.next()).toEqual({ done: true, value: undefined });
  });
});

async function* pages(all: readonly (readonly number[])[], ended: string[] = []) {
  try {
    yield* all;
  } finally {
    ended.push("ended");
  }
}
