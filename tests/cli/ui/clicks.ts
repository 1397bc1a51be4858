import type { Locator } from "playwright-core";
import { expect } from "vitest";

/** The window sizes in which everything important is visible without scrolling. */
export const WINDOWS = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
];

/** Counts clicks. */
export function counter() {
  let count = 0;
  return {
    click: async (locator: Locator) => {
      count += 1;
      await locator.click();
    },
    get count() {
      return count;
    },
  };
}

/** Waits until the whole element is in the window. */
export async function isInWindow(locator: Locator): Promise<void> {
  await locator.waitFor();
  await expect
    .poll(async () => {
      const box = await locator.boundingBox();
      const { width, height } = locator.page().viewportSize() ?? { width: 0, height: 0 };
      return box !== null && box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height;
    })
    .toBe(true);
  expect(await locator.page().evaluate("scrollY")).toBe(0);
}
