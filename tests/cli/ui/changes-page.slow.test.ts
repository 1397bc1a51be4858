// Tests the actions of the page in a real browser: what changes the storage, and what repairs it.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newPlace } from "../waymark.js";
import { axeFindings, CHROMIUM, copiedText, focusedText, launch, openPage, startUi } from "./page-browser.js";
import { managerOf, releaseStore } from "./release-store.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the actions (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  describe("with --write", () => {
    it("forks, rewinds, completes, prunes and removes, each after a question", async () => {
      const place = await releaseStore();
      const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
      const dialog = page.getByRole("dialog");
      await go("#/task/nightly-import");
      await page.getByRole("link", { name: "@12", exact: true }).click();

      await page.getByRole("button", { name: "Fork …" }).click();
      expect(await dialog.getByRole("button", { name: "Fork" }).isDisabled()).toBe(true);
      const field = dialog.getByLabel("Name of the new task");
      await field.fill("nightly-import");
      await page.keyboard.press("Enter");
      await dialog.getByRole("alert").waitFor();
      expect(await field.evaluate("document.activeElement.tagName")).toBe("INPUT");
      await field.fill("try again");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "try again" }).waitFor();

      await page.getByRole("button", { name: "Commands" }).click();
      await page.getByRole("button", { name: "Complete …" }).click();
      await dialog.getByRole("button", { name: "Complete" }).click();
      await page.locator(".heading .status", { hasText: "completed" }).waitFor();
      await expect.poll(() => focusedText(page)).toBe("try again");
      await page.getByText("The task is completed.").waitFor();

      await go("#/task/nightly-import");
      await page.getByRole("heading", { level: 1, name: "nightly-import" }).waitFor();
      expect(await page.getByText("The task is completed.").count()).toBe(0);
      await page.getByRole("link", { name: "@9", exact: true }).click();
      await page.getByRole("button", { name: "Rewind …" }).click();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      expect(await dialog.count()).toBe(0);
      await page.getByRole("button", { name: "Rewind …" }).click();
      await dialog.getByRole("button", { name: "Rewind" }).click();
      await page.getByRole("link", { name: "@17", exact: true }).first().waitFor();

      await go("#/retention/nightly-import");
      await page.getByRole("slider", { name: "Keep the last" }).fill("1");
      await page.getByText("stay 2 checkpoints").waitFor();
      await page.getByRole("button", { name: "Prune …" }).click();
      await dialog.getByRole("button", { name: /^Remove \d+ checkpoints$/ }).click();
      await page.getByText("go 0 checkpoints").waitFor();

      await go("#/task/try~0020again");
      await page.getByRole("button", { name: "Commands" }).click();
      await page.getByRole("button", { name: "Remove …" }).click();
      await dialog.getByRole("button", { name: "Remove" }).click();
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();

      const manager = await managerOf(place);
      expect(await manager.has("try again")).toBe(false);
      expect((await manager.list("nightly-import")).map(({ sequence }) => sequence)).toEqual([17, 16]);
      // The browser itself reports the refused fork.
      expect(problems).toEqual([expect.stringContaining("status of 409")]);
    });

    it("is offered nowhere else: without it there are only commands to copy", async () => {
      const { cwd } = await releaseStore();
      const place = { cwd };
      const { page, go } = await openPage(browser, (await startUi(place, ["--storage", "sqlite:checkpoints.db"])).url);
      await go("#/task/nightly-import");
      await page.getByRole("button", { name: "Commands" }).click();
      expect(await page.getByRole("button", { name: /…$/ }).count()).toBe(0);
      await page.getByRole("button", { name: /^Copy the command: Remove it/ }).click();
      await page.getByText("Copied.").waitFor();
      expect(await copiedText(page)).toBe(`npx waymark delete --storage sqlite:${cwd}/checkpoints.db nightly-import`);
    });
  });

  it("reports what is damaged, and moves it away after a question", async () => {
    const { cwd, place, manager } = await newPlace("files:store");
    for (let n = 1; n <= 3; n += 1) await manager.save("t", { n });
    await manager.close();
    const folder = join(cwd, "store", "t");
    const [, , newest = ""] = readdirSync(folder)
      .filter((name) => name.startsWith("0"))
      .sort();
    writeFileSync(join(folder, newest), readFileSync(join(folder, newest), "utf8").slice(0, 20));

    const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
    await page.getByText("1 record can't be read.").waitFor();
    await page.getByRole("row", { name: /t damaged/ }).waitFor();
    await go("#/task/t");
    await page.getByText("⚠ @3 can't be read").waitFor();
    await page.locator(".branches").getByRole("link", { name: "@3" }).click();
    await page.getByText("The checkpoint can't be shown").waitFor();
    await page.getByText("The newest checkpoint that can be read is @2.").waitFor();
    await page.getByText(/^npx waymark repair/).waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("link", { name: "← Before: @2" }).click();
    await page.getByRole("tree").waitFor();
    await go("#/storage");
    await page.getByRole("button", { name: /^Look for damage/ }).click();
    await page.getByText("1 finding.").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Repair …" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Repair" }).click();
    await page.getByText("everything is intact").waitFor();
    await page.getByRole("heading", { name: "Quarantine" }).waitFor();
    expect(problems).toEqual([expect.stringContaining("status of 422")]);
  });
});
