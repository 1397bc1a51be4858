// Tests the page on waiting runs in a real browser.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { collect } from "../../support/collect.js";
import { worked } from "../waiting-tasks.js";
import { newPlace } from "../waymark.js";
import { axeFindings, CHROMIUM, focusedText, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

async function placeOfWaits() {
  const place = await newPlace();
  onTestFinished(() => place.manager.close());
  await worked(place.manager, { "w/fails": "fails", "w/waits": "waits" });
  await place.manager.send("w/waits", "note", { text: "look at it" }, { by: "ada@example.org" });
  await place.manager.enqueue("w/due");
  return place;
}

describe.skipIf(CHROMIUM === undefined)("the page (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it("lists what waits and what is due, and the queue, as they change", async () => {
    const { place, manager } = await placeOfWaits();
    const { page, problems } = await openPage(browser, (await startUi(place)).url);
    await page.getByRole("row", { name: /w\/waits.*waiting.*waits for "approve"/ }).waitFor();
    await page.getByRole("row", { name: /w\/due.*queued/ }).waitFor();
    await page.getByRole("combobox", { name: "Search for" }).selectOption("prefix");
    await page.getByRole("searchbox", { name: "Search" }).fill("w/");
    await page
      .locator(".heading")
      .getByText(/^1 due, the oldest for /)
      .waitFor();
    await manager.send("w/waits", "approve");
    await page.getByRole("row", { name: /w\/waits.*queued/ }).waitFor();
    await page
      .locator(".heading")
      .getByText(/^2 due, the oldest for /)
      .waitFor();
    expect(problems).toEqual([]);
  });

  it("answers a wait by keys alone, and shows the event as it is received", async () => {
    const { place, manager } = await placeOfWaits();
    const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
    const dialog = page.getByRole("dialog");
    await go("#/task/w~002fwaits");
    const waits = page.getByRole("region", { name: "What its run waits for" });
    await waits.getByText("For the event approve, for").waitFor();
    await waits.getByText(/^npx waymark send --wait \w{8} --storage sqlite:\S+ w\/waits approve '…'$/).waitFor();
    await page.getByText("note").first().waitFor();
    await page.getByText(/pending · from ada@example.org/).waitFor();

    await page.getByRole("button", { name: "Answer …" }).focus();
    await page.keyboard.press("Enter");
    expect(await dialog.getByLabel("Name of the event").inputValue()).toBe("approve");
    await dialog.getByRole("region", { name: "Input of the run" }).getByText('"waits"').waitFor();
    await dialog.getByLabel("Value", { exact: true }).fill('{"ok":');
    await dialog.getByText("This is not valid JSON.").waitFor();
    expect(await dialog.getByRole("button", { name: "Send" }).isDisabled()).toBe(true);
    await dialog.getByRole("button", { name: "Use it as text" }).click();
    expect(await dialog.getByRole("button", { name: "Send" }).isDisabled()).toBe(false);
    await dialog.getByLabel("The value is").selectOption("json");
    await dialog.getByLabel("Value", { exact: true }).fill('{"ok":true}');
    expect(await axeFindings(page)).toEqual([]);
    await dialog.getByLabel("Sent by").fill("grace");
    await page.keyboard.press("Enter");
    await page.getByText("Sent.", { exact: true }).waitFor();
    await expect.poll(() => focusedText(page)).toBe("w/waits");
    await page.getByText(/pending · from grace/).waitFor();
    await waits.getByText("For the event approve, answered: the run continues").waitFor();
    expect(await page.getByRole("button", { name: "Answer …" }).count()).toBe(0);
    expect(await manager.events("w/waits")).toMatchObject([{}, { name: "approve", value: { ok: true }, by: "grace" }]);

    await worked(manager, { "w/waits": "waits" });
    await page.getByText(/received · from grace/).waitFor();
    expect(await waits.count()).toBe(0);
    expect(problems).toEqual([]);
  });

  it("shows other buttons and no replaced checkpoint once the watched task is completed", async () => {
    const { place, manager } = await placeOfWaits();
    const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
    await go("#/task/w~002fwaits");
    await page.getByRole("button", { name: "Cancel …" }).waitFor();
    const checkpoints = page.getByRole("table").filter({ hasText: "Bytes" }).getByRole("row");
    const replaced = checkpoints.filter({ hasText: 'Run waits for "approve"' });
    await replaced.waitFor();

    await manager.send("w/waits", "approve");
    await worked(manager, { "w/waits": "waits" });
    await page.locator(".heading .status", { hasText: "completed" }).waitFor();
    await page.getByRole("button", { name: "Cancel …" }).waitFor({ state: "detached" });
    await replaced.waitFor({ state: "detached" });
    // The first row is the head.
    expect(await checkpoints.count()).toBe(1 + (await manager.list("w/waits")).length);
    expect(problems).toEqual([]);
  });

  it("cancels and puts back, each after a question", async () => {
    const { place, manager } = await placeOfWaits();
    const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
    const dialog = page.getByRole("dialog");
    await go("#/task/w~002ffails");
    await page.getByRole("button", { name: "Retry …" }).click();
    const from = dialog.getByLabel("Also run the steps again from this one on (optional)");
    await from.fill("plann");
    await page.keyboard.press("Enter");
    await dialog.getByText('Recorded steps: "plan", "build".').waitFor();
    await from.fill("plan");
    expect(await axeFindings(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.locator(".heading .status", { hasText: "queued" }).waitFor();
    const dropped = await collect(manager.records("w/fails", { kinds: ["run"], order: "newest", limit: 2 }));
    expect(dropped.map((record) => "value" in record && record.value)).toContainEqual(
      expect.objectContaining({ status: "paused", dropped: [[5, expect.any(Number)]] }),
    );

    await page.getByRole("button", { name: "Cancel …" }).click();
    expect(await dialog.getByRole("button", { name: "Cancel the task" }).isDisabled()).toBe(true);
    await dialog.getByRole("button", { name: "Keep it running" }).waitFor();
    await dialog.getByLabel("Reason").fill("too late");
    await page.keyboard.press("Enter");
    await page.getByText("The task is cancelled.").waitFor();
    await page.locator(".heading .status", { hasText: "cancelled" }).waitFor();
    expect(await page.getByRole("button", { name: "Retry …" }).count()).toBe(0);
    const newest = page.getByRole("table").getByRole("row", { name: /too late cancelled/ });
    await newest.getByRole("link").first().click();
    await page.getByRole("heading", { name: "It was cancelled" }).waitFor();
    await page.locator(".heading .status", { hasText: "cancelled" }).waitFor();
    expect((await manager.latest("w/fails"))?.error?.message).toBe("too late");
    // The step whose name was wrong.
    expect(problems).toEqual([expect.stringContaining("409")]);
  });

  it("shows waits and events without a finding of axe, in light and dark, from 360 to 2,560 px", async () => {
    const { place } = await placeOfWaits();
    const { url } = await startUi(place, ["--write"]);
    const findings: string[] = [];
    for (const width of [360, 1280, 2560]) {
      const { page, go, problems } = await openPage(browser, url, { width, height: 760 });
      for (const [fragment, ready] of [
        ["#/tasks", 'waits for "approve"'],
        ["#/task/w~002fwaits", "Its run waits"],
      ] as const) {
        await go(fragment);
        await page.getByText(ready).filter({ visible: true }).first().waitFor();
        if (await isTooWide(page)) findings.push(`${fragment} is wider than ${width} px`);
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          for (const finding of await axeFindings(page)) findings.push(`${fragment}, ${width} px: ${finding}`);
        }
      }
      findings.push(...problems);
    }
    expect(findings).toEqual([]);
  });

  it("has no button for an answer without --write, and shows the command", async () => {
    const { place } = await placeOfWaits();
    const { page, go } = await openPage(browser, (await startUi(place)).url);
    await go("#/task/w~002fwaits");
    await page.getByRole("button", { name: "Copy the command that answers approve" }).waitFor();
    expect(await page.getByRole("button", { name: /…$/ }).count()).toBe(0);
    await page.getByRole("table").filter({ hasText: "Bytes" }).getByRole("link").first().click();
    await page.getByText(/^approve waits · attempt 1$/).waitFor();
  });
});
