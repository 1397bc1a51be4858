// Tests that waits for a person are found and answered within two clicks from the start page, without scrolling.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { newPlace } from "../waymark.js";
import { askingRuns } from "./asking-tasks.js";
import { counter, isInWindow, WINDOWS } from "./clicks.js";
import { axeFindings, CHROMIUM, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the inbox (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it.each(WINDOWS)(
    "answers an approval in two clicks from the start page at $width × $height",
    async (size) => {
      const { place, manager } = await newPlace();
      onTestFinished(() => manager.close());
      await askingRuns(manager, ["4.1", "4.2"]);
      const { page, problems } = await openPage(browser, (await startUi(place, ["--write"])).url, size);
      await isInWindow(page.getByRole("link", { name: "Inbox 2" }));

      const clicks = counter();
      await clicks.click(page.getByRole("link", { name: "Inbox 2" }));
      await isInWindow(page.getByText("May release-4.2 go out?"));
      await isInWindow(page.getByRole("region", { name: "Input of the run" }).getByText('"version": "4.2"'));
      await isInWindow(page.getByRole("region", { name: "Result of test" }).getByText('"passed": 412'));
      await isInWindow(page.getByRole("button", { name: "Approve" }));
      expect(await isTooWide(page)).toBe(false);
      expect(await axeFindings(page)).toEqual([]);
      await clicks.click(page.getByRole("button", { name: "Reject" }));
      await page.getByRole("button", { name: /release-4.2 .* answered/ }).waitFor();
      expect(clicks.count).toBe(2);
      expect(await manager.events("release-4.2")).toMatchObject([{ name: "approve", value: { approved: false } }]);

      // The next question isn't under the pointer.
      expect(await page.getByRole("button", { name: "Approve" }).count()).toBe(0);
      await page.keyboard.press("j");
      await page.getByRole("button", { name: "Approve" }).waitFor();
      await page.getByRole("link", { name: "Inbox 1" }).waitFor();

      await askingRuns(manager, ["4.3"]);
      await page.getByText("May release-4.3 go out?").waitFor();
      expect(problems).toEqual([]);
    },
    120_000,
  );

  it("shows the command that answers, without --write", async () => {
    const { place, manager } = await newPlace();
    await askingRuns(manager, ["4.2"]);
    await manager.close();
    const { page } = await openPage(browser, (await startUi(place)).url);
    await page.getByRole("link", { name: "Inbox 1" }).waitFor();
    await page.keyboard.press("2");
    await page.getByText(/^npx waymark send .* release-4.2 approve/).waitFor();
    expect(await page.getByRole("button", { name: "Approve", exact: true }).count()).toBe(0);
  });
});
