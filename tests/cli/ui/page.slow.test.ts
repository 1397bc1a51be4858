// Tests the page as a whole in a real browser: many tasks, hostile names, live changes, tabs, comparisons.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newPlace, type Place } from "../waymark.js";
import { axeFindings, CHROMIUM, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the page (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it("shows 100,000 tasks a screen at a time", async () => {
    const place = await manyTasks(100_000);
    const { page, problems } = await openPage(browser, (await startUi(place)).url);
    await page.getByText("100,000 tasks").waitFor();
    expect(await page.getByRole("row").count()).toBeLessThan(80);
    await page.getByRole("combobox", { name: "Order" }).selectOption("taskId");
    await page.getByRole("link", { name: "task-000000" }).first().waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("End");
    await page.getByRole("link", { name: "task-099999" }).first().waitFor();
    await page.keyboard.press("Home");
    await page.getByRole("link", { name: "task-000000" }).first().waitFor();
    await page.getByRole("combobox", { name: "Search for" }).selectOption("prefix");
    await page.getByRole("searchbox", { name: "Search" }).fill("task-0777");
    await page.getByText("100 tasks of 100,000").waitFor();
    // A status that no task has is offered only by its key.
    await page.keyboard.press("Tab");
    await page.keyboard.press("f");
    await page.getByText("No task matches").waitFor();
    expect(await page.getByRole("row").count()).toBeLessThan(80);
    expect(problems).toEqual([]);
  }, 300_000);

  it("shows hostile names as text, and opens what they name", async () => {
    const { place, manager } = await newPlace();
    const names = [
      "<script>alert(1)</script>",
      '"><img src=x onerror=alert(1)>',
      "javascript:alert(1)",
      "bell \u0007 and null \u0000",
      "right \u202e to left",
      "../../etc/passwd",
      "x".repeat(512),
      "w".repeat(256) + " ".repeat(256),
    ];
    for (const name of names) {
      await manager.save(name, { [name]: name }, { stage: name.slice(0, 100), label: name.slice(0, 100) });
    }
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url, { width: 360 });
    for (let index = 0; index < names.length; index += 1) {
      await go("#/tasks?order=taskId");
      await page.getByText(`${names.length} tasks`).waitFor();
      await page.keyboard.press("Home");
      for (let count = 0; count < index; count += 1) await page.keyboard.press("j");
      const [wanted = ""] = [...names].sort().slice(index);
      await page.locator(".peek").getByText(wanted.slice(0, 4)).first().waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Checkpoints" }).waitFor();
      expect(await page.locator("h1").innerText()).toContain(wanted.slice(0, 4));
      expect(await isTooWide(page)).toBe(false);
      await page.keyboard.press("Enter");
      await page.getByRole("tree").waitFor();
      expect(await isTooWide(page)).toBe(false);
    }
    await go("#/tasks?order=taskId");
    await page.locator("h1", { hasText: "Tasks" }).waitFor();
    await page.getByText("␇").first().waitFor();
    expect(await axeFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
  });

  it("follows a storage that changes, and reports when the server is gone", async () => {
    const { place, manager } = await newPlace();
    await manager.save("first", { n: 1 }, { stage: "one" });
    const { url, stop } = await startUi(place);
    const { page, go } = await openPage(browser, url);
    await page.getByText("live").waitFor();
    await manager.save("second", { n: 1 }, { stage: "two" });
    await page.getByRole("row", { name: /second/ }).waitFor();

    await go("#/task/first");
    await page.getByRole("link", { name: "@1", exact: true }).first().waitFor();
    await manager.save("first", { n: 2 }, { stage: "three", status: "paused" });
    await page.getByRole("link", { name: "@2", exact: true }).first().waitFor();
    await page.locator(".heading .status", { hasText: "paused" }).waitFor();
    await manager.removeTask("first");
    await page.getByText("The task was removed meanwhile.").waitFor();

    await stop();
    await page.getByRole("alert").getByText("Connection lost").waitFor();
    await manager.close();
  });

  it("still shows a task that is removed while the page reads it again", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", { n: 1 }, { stage: "one" });
    const { url } = await startUi(place);
    const { page, go } = await openPage(browser, url);
    await go("#/task/t");
    await page.getByText("live").waitFor();
    await page.getByRole("link", { name: "@1", exact: true }).first().waitFor();
    await page.route("**/api/task", async (route) => {
      await manager.removeTask("t");
      await route.continue();
    });
    await manager.save("t", { n: 2 });
    await page.getByText("The task was removed meanwhile.").waitFor();
    await page.getByRole("heading", { level: 1, name: "t" }).waitFor();
    await manager.close();
  });

  it("works in a new tab while another one is open", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", {});
    await manager.close();
    const { page, problems } = await openPage(browser, (await startUi(place)).url);
    const opened = page.context().waitForEvent("page");
    await page
      .getByRole("link", { name: "t", exact: true })
      .first()
      .click({ modifiers: ["Control"] });
    const other = await opened;
    await other.getByRole("heading", { level: 1, name: "t" }).waitFor();
    expect(other.url()).not.toContain("token");
    expect(await other.evaluate("Object.keys(localStorage).filter((key) => key.includes('token'))")).toEqual([]);
    expect(problems).toEqual([]);
  });

  it("compares from old to new, and reports why it can't", async () => {
    const { place, manager } = await newPlace();
    for (let n = 1; n <= 3; n += 1) await manager.save("t", { n });
    await manager.save("other", {});
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url);
    const { keyboard } = page;
    await go("#/task/t");
    await page.getByRole("button", { name: "Saved @3" }).waitFor();
    await keyboard.press("m");
    await keyboard.press("Home");
    await keyboard.press("d");
    await page.getByRole("heading", { level: 1, name: "@1 → @3" }).waitFor();
    await go("#/task/t");
    await page.getByText("compares with @3").waitFor();
    await go("#/task/other");
    await page.getByText("The mark is gone").waitFor();
    await page.getByRole("button", { name: "Saved @1" }).waitFor();
    await keyboard.press("d");
    await page.getByText("there is none before it").waitFor();
    await keyboard.press("Enter");
    await page.getByRole("tree").waitFor();
    expect(await page.getByRole("button", { name: /^Changes/ }).isDisabled()).toBe(true);
    await keyboard.press("/");
    await keyboard.press("Escape");
    expect(await page.evaluate("document.activeElement.getAttribute('role')")).toBe("treeitem");
    await go("#/nowhere");
    await page.getByText("The address names no place of this page.").waitFor();
    expect(problems).toEqual([]);
  });

  it("asks for the printed address if it has no token", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", {});
    await manager.close();
    const { url } = await startUi(place);
    const { page } = await openPage(browser, new URL("/", url).href);
    await page.getByText('Open the address that "waymark ui" printed').waitFor();
    await page.getByRole("heading", { name: "This page needs its token" }).waitFor();
    expect(await page.getByText("sqlite").count()).toBe(0);
  });
});

async function manyTasks(count: number): Promise<Place> {
  const { place, manager } = await newPlace();
  for (let first = 0; first < count; first += 5000) {
    const tasks = Array.from({ length: 5000 }, (_, index) => `task-${String(first + index).padStart(6, "0")}`);
    await Promise.all(tasks.map((task) => manager.save(task, { task }, { stage: "begun", status: "completed" })));
  }
  await manager.close();
  return place;
}
