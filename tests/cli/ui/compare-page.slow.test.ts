// Tests comparisons of checkpoints, and the links between related tasks, in a real browser.
import { readFileSync } from "node:fs";
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

  it("downloads a task as one file, without --write", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", { n: 1 });
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url);
    await go("#/task/t");
    await page.getByRole("button", { name: "Commands" }).click();
    const downloaded = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    const download = await downloaded;
    expect(download.suggestedFilename()).toBe("t.ndjson");
    expect(readFileSync(await download.path(), "utf8")).toMatch(/"taskId":"t"/);
    expect(problems).toEqual([]);
  });

  it.each(WINDOWS)("links parents, children, origins and forks at $width × $height", async (size) => {
    const { place, manager } = await newPlace();
    await manager.run("deploy", (run) =>
      run.step("upload", () => manager.run("deploy/eu", (child) => child.step("copy", () => 3))),
    );
    const [point] = await manager.list("deploy");
    await manager.fork("deploy", point?.id ?? "", "deploy-again");
    await manager.save("deploy-again", { region: "us" });
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url, size);
    await go("#/task/deploy");
    const family = page.getByRole("region", { name: "Related tasks" });
    await family.getByText("child run in upload").waitFor();
    expect(await family.getByRole("listitem").allInnerTexts()).toMatchObject([
      expect.stringMatching(/completed\s+deploy$/),
      expect.stringMatching(/completed\s+deploy\/eu\s+child run in upload/),
      expect.stringMatching(/deploy-again\s+fork\s+Compare with its origin/),
    ]);
    expect(await isTooWide(page)).toBe(false);
    expect(await axeFindings(page)).toEqual([]);
    // A step leads to its child run, and the child run back to its parent.
    await page
      .getByRole("region", { name: "Timeline" })
      .getByRole("button", { name: /^upload/ })
      .click();
    await page.getByRole("region", { name: "Selection" }).getByRole("link", { name: "deploy/eu" }).click();
    await page.getByRole("heading", { level: 1, name: "deploy/eu" }).waitFor();
    await page.locator(".heading").getByRole("link", { name: "deploy", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "deploy", exact: true }).waitFor();

    await family.getByRole("link", { name: "deploy-again" }).click();
    await page.locator(".heading").getByText("fork of deploy").waitFor();
    await family.getByRole("link", { name: "Compare with its origin" }).click();
    await page.getByRole("heading", { level: 1, name: /^@\d+ → @\d+$/ }).waitFor();
    await page.getByText("1 change").waitFor();
    await page.reload();
    await page.getByRole("link", { name: "deploy", exact: true }).waitFor();
    expect(problems).toEqual([]);
  });
});
