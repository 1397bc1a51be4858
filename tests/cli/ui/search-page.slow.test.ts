// Tests that today's failures with one error are found and retried within two clicks each, without scrolling.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { newPlace } from "../waymark.js";
import { counter, isInWindow, WINDOWS } from "./clicks.js";
import { failedRuns } from "./failing-tasks.js";
import { axeFindings, CHROMIUM, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the list (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it.each(WINDOWS)(
    "finds today's failures with one error, and retries them all, in two clicks each at $width × $height",
    async (size) => {
      const { place, manager } = await newPlace();
      onTestFinished(() => manager.close());
      await failedRuns(manager, 7);
      const { page, problems } = await openPage(browser, (await startUi(place, ["--write"])).url, size);

      const finding = counter();
      const group = page.getByRole("button", { name: "4 quota of user # exceeded" });
      await isInWindow(group);
      expect(await page.title()).toBe("✗ 7 · Waymark");
      await finding.click(group);
      await page.getByText("4 tasks of 7").waitFor();
      expect(await page.locator("tr.row .status").allInnerTexts()).toEqual(Array(4).fill("failed"));
      expect(finding.count).toBeLessThanOrEqual(2);
      expect(page.url()).toContain("status=failed&within=24h&error=");
      expect(await isTooWide(page)).toBe(false);
      expect(await axeFindings(page)).toEqual([]);

      // Esc returns to the filtered list.
      await page.keyboard.press("Enter");
      await page.getByRole("region", { name: "Why it failed" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("4 tasks of 7").waitFor();

      const retrying = counter();
      await isInWindow(page.getByRole("button", { name: "Retry all 4 …" }));
      await retrying.click(page.getByRole("button", { name: "Retry all 4 …" }));
      await isInWindow(page.getByRole("dialog").getByText("4 failed runs of 4 chosen tasks"));
      await retrying.click(page.getByRole("dialog").getByRole("button", { name: "Retry 4" }));
      await page.getByText("4 tasks are queued.").waitFor();
      expect(retrying.count).toBe(2);
      expect(await manager.tasks({ status: ["queued"] })).toHaveLength(4);
      await expect.poll(() => page.title()).toBe("✗ 3 · Waymark");
      expect(problems).toEqual([]);
    },
    120_000,
  );

  it("chooses tasks by their boxes, and cancels them with a reason", async () => {
    const { place, manager } = await newPlace();
    onTestFinished(() => manager.close());
    for (const name of ["a", "b", "c"]) await manager.enqueue(`refund/${name}`, {});
    const { page } = await openPage(browser, (await startUi(place, ["--write"])).url);
    await page.getByRole("checkbox", { name: "Choose refund/a" }).check();
    await page.keyboard.press("Home");
    await page.keyboard.press(" ");
    await page.getByRole("button", { name: "Cancel 2 …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 runs of 2 chosen tasks end for good").waitFor();
    await dialog.getByLabel("Reason").fill("not needed");
    await dialog.getByRole("button", { name: "Cancel 2 tasks" }).click();
    await page.getByText("2 tasks are cancelled.").waitFor();
    expect(await manager.tasks({ status: ["cancelled"] })).toHaveLength(2);

    await page.keyboard.press("/");
    await page.keyboard.type("REFUND/B");
    await page.getByText("1 task of 3").waitFor();
    await page.getByRole("button", { name: "Prune all 1 …" }).click();
    await page.getByRole("heading", { name: "Retention of the chosen tasks" }).waitFor();
  });
});
