// Tests the page's views of runs in a real browser, over real storages.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Place } from "../waymark.js";
import {
  axeFindings,
  CHROMIUM,
  copiedText,
  focusedText,
  isTooWide,
  launch,
  openPage,
  startUi,
} from "./page-browser.js";
import { exampleStore, managerOf, releaseStore, workOnRefunds } from "./release-store.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the views (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  describe("over what npm start left", () => {
    it("shows the PRP from the list of tasks to a diff, by keys alone", async () => {
      const { page, problems } = await openPage(browser, (await startUi(await exampleStore())).url);
      const { keyboard } = page;
      expect(page.url()).not.toContain("token");
      await page.getByRole("row", { name: /P1\.M1\.T2\.S1.*completed/ }).waitFor();

      await keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "P1.M1.T2.S1" }).waitFor();
      await page.locator(".timeline button").first().waitFor();
      await keyboard.press("k");
      await keyboard.press("k");
      await keyboard.press("d");
      await page.getByRole("heading", { level: 1, name: /^@\d+ → @\d+$/ }).waitFor();
      await page.locator(".changes tbody tr").first().waitFor();
      await keyboard.press("[");
      await keyboard.press("Escape");
      await page.getByRole("tree").waitFor();

      await keyboard.press("/");
      await keyboard.type("validation");
      await page.getByText(/\d+ found/).waitFor();
      await keyboard.press("Enter");
      await expect.poll(() => focusedText(page)).toContain("validation");
      await keyboard.press("c");
      expect(await copiedText(page)).toMatch(/^\$\.\w+/);

      await keyboard.press("Backspace");
      await keyboard.press("Backspace");
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
      await keyboard.press("?");
      await page.getByRole("dialog").getByText("one level up").waitFor();
      await keyboard.press("Escape");
      expect(await page.getByRole("dialog").count()).toBe(0);
      expect(problems).toEqual([]);
    });
  });

  describe("over runs that were killed, failed and rewound", () => {
    it("shows every view without a finding of axe, in light and dark, from 360 to 2,560 px", async () => {
      const place = await releaseStore();
      await workOnRefunds(place);
      const { url } = await startUi(place, ["--write"]);
      const findings: string[] = [];
      for (const width of [360, 1280, 2560]) {
        const { page, go, problems } = await openPage(browser, url, { width, height: 760 });
        for (const [name, fragment, ready] of await viewsOf(place)) {
          await go(fragment);
          await page.getByText(ready).first().waitFor();
          if (name === "storage") {
            await page.keyboard.press("v");
            await page.getByText("everything is intact").waitFor();
          }
          if (await isTooWide(page)) findings.push(`${name} is wider than ${width} px`);
          for (const colorScheme of ["light", "dark"] as const) {
            await page.emulateMedia({ colorScheme });
            for (const finding of await axeFindings(page))
              findings.push(`${name}, ${width} px, ${colorScheme}: ${finding}`);
          }
        }
        findings.push(...problems);
      }
      expect(findings).toEqual([]);
    }, 300_000);

    it("reports why a release failed, and when it was killed before", async () => {
      const place = await releaseStore();
      const { page, problems } = await openPage(browser, (await startUi(place)).url);
      await page.getByRole("link", { name: "release-4.2", exact: true }).first().click();
      await page.getByText("GET /health answered 503 instead of 200").first().waitFor();
      await page.getByText("Caused by").waitFor();
      await page.getByText("connect ECONNREFUSED 10.0.4.7:5432").first().waitFor();
      const timeline = page.getByRole("region", { name: "Timeline" });
      await timeline.getByText("Attempt 1 was interrupted").waitFor();
      await timeline.getByRole("button", { name: /^deploy to staging attempt 2 26 s/ }).waitFor();
      const tests = timeline.getByRole("button", { name: /^unit tests from storage .*2 tries$/ });
      expect(await tests.locator(".bar-of-step").count()).toBe(2);
      await tests.click();
      const selection = page.getByRole("region", { name: "Selection" });
      await selection.getByRole("region", { name: "Result of unit tests" }).getByText('"passed": 412').waitFor();
      await selection.getByRole("link", { name: /^State after it/ }).click();
      await page.getByRole("heading", { level: 1, name: /^@/ }).waitFor();
      await page.goBack();
      await selection.getByRole("heading", { name: "unit tests" }).waitFor();
      await page
        .getByRole("link", { name: /^@\d+$/ })
        .first()
        .click();
      await page.getByRole("heading", { level: 1, name: "Run failed in smoke test" }).waitFor();
      await page.locator(".problem").getByText("GET /health answered 503 instead of 200").first().waitFor();
      expect(problems).toEqual([]);
    });

    it("returns to the list as it was filtered, by Esc and by the link above", async () => {
      const { page, go, problems } = await openPage(browser, (await startUi(await releaseStore())).url);
      const filtered = "#/tasks?status=failed&prefix=release";
      for (const leave of [
        () => page.keyboard.press("Escape"),
        () => page.getByRole("navigation", { name: "Above" }).getByRole("link", { name: "Tasks" }).click(),
      ]) {
        await go(filtered);
        await page.getByRole("link", { name: "release-4.2", exact: true }).first().click();
        await page.getByRole("heading", { level: 1, name: "release-4.2" }).waitFor();
        await leave();
        await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
        expect(new URL(page.url()).hash).toBe(filtered);
      }
      expect(problems).toEqual([]);
    });

    it("comes back to a place by the browser's own buttons and after a reload", async () => {
      const { page, go, problems } = await openPage(browser, (await startUi(await releaseStore())).url);
      await go("#/task/release-4.2");
      await page.getByRole("heading", { level: 1, name: "release-4.2" }).waitFor();
      await page.reload();
      await page.getByRole("heading", { level: 1, name: "release-4.2" }).waitFor();
      await page.goBack();
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
      expect(problems).toEqual([]);
    });

    it("shows rich values with their types", async () => {
      const place = await releaseStore();
      const { page, go } = await openPage(browser, (await startUi(place)).url);
      await go("#/task/release-4.2");
      await page
        .getByRole("row", { name: / @\d+ .*Both platforms are built/ })
        .getByRole("link")
        .first()
        .click();
      const tree = page.getByRole("tree");
      await tree.getByText("Map(2)").waitFor();
      for (const text of ["180000n", "date", "Uint8Array, 7 bytes", "Set(0)"])
        await tree.getByText(text).first().waitFor();
    });
  });
});

/** Each view's name, its place, and a text that it shows when it is ready. */
async function viewsOf(place: Place): Promise<readonly (readonly [string, string, string | RegExp])[]> {
  await using manager = await managerOf(place);
  const [failed] = await manager.list("release-4.2");
  const [, before, earlier] = await manager.list("nightly-import");
  return [
    ["tasks", "#/tasks", "nightly-import"],
    ["task", "#/task/release-4.2", "Attempt 1 was interrupted"],
    ["waits", "#/task/refund~002f2291", "For the event"],
    ["history", "#/task/nightly-import", "batch 16"],
    ["checkpoint", `#/task/release-4.2/checkpoint/${failed?.id}`, "GET /health answered 503 instead of 200"],
    ["diff", `#/task/nightly-import/diff/${earlier?.id}/${before?.id}`, "batch"],
    ["retention", "#/retention/nightly-import", "last 1 of 5"],
    ["storage", "#/storage", "On the disk"],
  ];
}
