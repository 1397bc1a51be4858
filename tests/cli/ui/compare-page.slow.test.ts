// Tests comparisons of checkpoints in a real browser, with the pointer.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newPlace } from "../waymark.js";
import { WINDOWS } from "./clicks.js";
import { axeFindings, CHROMIUM, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the page (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it.each(WINDOWS)("compares two ticked checkpoints at $width × $height, and the address names them", async (size) => {
    const { place, manager } = await newPlace();
    for (let n = 1; n <= 4; n += 1) await manager.save("t", { n });
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url, size);
    await go("#/task/t");
    await page.getByRole("checkbox", { name: "Mark @4 to compare" }).check();
    await page.getByText("Tick another one").waitFor();
    await page.getByRole("checkbox", { name: "Mark @3 to compare" }).check();
    // A third mark replaces the oldest one.
    await page.getByRole("checkbox", { name: "Mark @1 to compare" }).check();
    expect(await page.getByRole("checkbox", { name: "Mark @4 to compare" }).isChecked()).toBe(false);
    expect(await isTooWide(page)).toBe(false);
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("link", { name: "Compare @1 with @3" }).click();
    await page.getByRole("heading", { level: 1, name: "@1 → @3" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "@1 → @3" }).waitFor();
    expect(problems).toEqual([]);
  });

  it("compares the selected checkpoint with the ticked one", async () => {
    const { place, manager } = await newPlace();
    for (let n = 1; n <= 3; n += 1) await manager.save("t", { n });
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url);
    await go("#/task/t");
    const selection = page.getByRole("region", { name: "Selection" });
    await page.getByRole("button", { name: "Saved @3" }).click();
    await selection.getByRole("checkbox", { name: /Mark to compare/ }).check();
    await page.getByRole("button", { name: "Saved @1" }).click();
    expect(await axeFindings(page)).toEqual([]);
    await selection.getByRole("link", { name: "Compare with @3" }).click();
    await page.getByRole("heading", { level: 1, name: "@1 → @3" }).waitFor();
    expect(problems).toEqual([]);
  });
});
