// Tests that a LangGraph thread's question, messages and next node are seen at once, without scrolling.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { saverOn } from "../langgraph-agent.js";
import { askToBook } from "../langgraph-chat.js";
import { newPlace } from "../waymark.js";
import { isInWindow, WINDOWS } from "./clicks.js";
import { axeFindings, CHROMIUM, copiedText, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("a thread (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it.each(WINDOWS)(
    "shows its question, the call that answers it, and its messages at $width × $height",
    async (size) => {
      const { cwd, place, manager } = await newPlace("sqlite:agent.db");
      onTestFinished(() => manager.close());
      await askToBook(saverOn(cwd, "sqlite:agent.db"), "trip-3");
      const { page, problems } = await openPage(browser, (await startUi(place)).url, size);
      await page.getByRole("link", { name: "trip-3", exact: true }).first().click();

      const call = page.getByRole("region", { name: "How to continue" });
      await isInWindow(call.getByText('"Book EC 173?"'));
      await isInWindow(call.getByRole("button", { name: "Copy the command: Continue it in your program" }));
      await call.getByRole("button", { name: /^Copy/ }).click();
      await page.getByText("Copied.").waitFor();
      expect(await copiedText(page)).toMatch(/^await graph\.invoke\(new Command/);

      const chat = page.getByRole("region", { name: "Messages" });
      await chat.getByText("Find me a train to Prague").waitFor();
      expect(await chat.getByText('"Berlin"').isVisible()).toBe(false);
      await chat.getByText("search_trains").first().click();
      await chat.getByText('"Berlin"').waitFor();
      await page.getByRole("button", { name: /^Paused @\d+ step 3 · agent → book/ }).waitFor();
      expect(await page.locator(".branches svg.running").count()).toBe(0);
      expect(await isTooWide(page)).toBe(false);
      expect(await axeFindings(page)).toEqual([]);

      await page.getByRole("link", { name: "@10", exact: true }).first().click();
      await page.getByRole("tree").waitFor();
      await page
        .getByRole("navigation", { name: "Above" })
        .getByRole("link", { name: "trip-3", exact: true })
        .waitFor();
      await chat.getByText("EC 173 fits.").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      expect(problems).toEqual([]);
    },
    120_000,
  );
});
