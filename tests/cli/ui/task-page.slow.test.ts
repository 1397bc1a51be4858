// Tests an engineer's actions on a failed agent at night. Each takes at most two clicks or keys, without scrolling.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { newPlace } from "../waymark.js";
import { counter, isInWindow, WINDOWS } from "./clicks.js";
import { axeFindings, CHROMIUM, copiedText, isTooWide, launch, openPage, startUi } from "./page-browser.js";

let browser: Browser;

/** An agent of 40 turns whose last tool call failed after three tries. */
async function failedAgent() {
  const place = await newPlace();
  onTestFinished(() => place.manager.close());
  const agent = place.manager.run(
    "agent-7",
    async (run) => {
      const turn = typeof run.state === "number" ? run.state : 1;
      await run.step("model", async ({ write }) => {
        await write("I will ");
        await write(`call tool ${turn}`);
        return { call: `tool ${turn}`, tokens: 100 + turn };
      });
      const tool = () => {
        if (turn === 40) throw Object.assign(new RangeError("quota exceeded"), { code: "E_QUOTA" });
        return `did ${turn}`;
      };
      await run.step("tool", tool, { input: turn, retry: { times: 2, backoffMs: 0 } });
      return run.next(turn + 1);
    },
    { input: { goal: "sort the mail" } },
  );
  await expect(agent).rejects.toThrow("quota exceeded");
  return place;
}

describe.skipIf(CHROMIUM === undefined)("the page (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  it.each(WINDOWS)(
    "tells why an agent failed, and retries it, in two clicks at $width × $height",
    async (size) => {
      const { place, manager } = await failedAgent();
      const { page, problems } = await openPage(browser, (await startUi(place, ["--write"])).url, size);

      const finding = counter();
      await finding.click(page.getByRole("link", { name: "agent-7", exact: true }).first());
      const failure = page.getByRole("region", { name: "Why it failed" });
      for (const text of ["quota exceeded", "RangeError", "E_QUOTA", /3 tries · attempt 1 · input digest/])
        await isInWindow(failure.getByText(text).first());
      await isInWindow(failure.getByRole("button", { name: "tool", exact: true }));
      // The page shows what the model returned before the tool failed.
      await isInWindow(
        failure.getByRole("region", { name: "Result of the step before, model" }).getByText('"call": "tool 40"'),
      );
      expect(finding.count).toBe(1);

      const looking = counter();
      await looking.click(failure.getByRole("button", { name: "model", exact: true }));
      const selection = page.getByRole("region", { name: "Selection" });
      await selection.getByText("I will call tool 40").waitFor();
      await selection.getByRole("region", { name: "Result of model" }).getByText('"tokens": 140').waitFor();
      expect(looking.count).toBe(1);
      await failure.getByRole("button", { name: "Copy for an issue" }).click();
      await page.getByText("Copied.").waitFor();
      expect(await copiedText(page)).toContain("## agent-7 failed: quota exceeded");
      expect(await isTooWide(page)).toBe(false);
      expect(await axeFindings(page)).toEqual([]);

      await page.evaluate("scrollTo(0, 0)");
      await isInWindow(page.getByRole("button", { name: "Retry …" }));
      const retrying = counter();
      await retrying.click(page.getByRole("button", { name: "Retry …" }));
      await retrying.click(page.getByRole("dialog").getByRole("button", { name: "Retry" }));
      await page.locator(".heading .status", { hasText: "queued" }).waitFor();
      expect(retrying.count).toBe(2);
      expect(problems).toEqual([]);
      expect((await manager.tasks({ status: ["queued"] })).map(({ taskId }) => taskId)).toEqual(["agent-7"]);
    },
    120_000,
  );

  it.each(WINDOWS)(
    "answers an approval in two clicks at $width × $height",
    async (size) => {
      const { place, manager } = await newPlace();
      onTestFinished(() => manager.close());
      const schema = z.object({ approved: z.boolean(), note: z.string().optional() });
      const stop = new AbortController();
      const waits = new Promise((resolve) => manager.on("waitStarted", resolve));
      const running = manager.run("release", (run) => run.waitFor("approve", { ask: "May 4.2 go out?", schema }), {
        signal: stop.signal,
        input: { version: "4.2" },
      });
      await waits;
      stop.abort();
      await expect(running).rejects.toThrow();
      const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url, size);
      await go("#/task/release");
      const answering = counter();
      await isInWindow(page.getByText("May 4.2 go out?").first());
      await isInWindow(page.getByRole("button", { name: "Answer …" }));
      await answering.click(page.getByRole("button", { name: "Answer …" }));
      const dialog = page.getByRole("dialog");
      await dialog.getByText("May 4.2 go out?").waitFor();
      await dialog.getByText("note (optional)").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      await isInWindow(dialog.getByRole("button", { name: "Reject" }));
      await answering.click(dialog.getByRole("button", { name: "Reject" }));
      await page.getByText("Sent.", { exact: true }).waitFor();
      expect(answering.count).toBe(2);
      expect(await manager.events("release")).toMatchObject([{ name: "approve", value: { approved: false } }]);
      expect(problems).toEqual([]);
    },
    120_000,
  );

  it("folds turns with totals, and moves by j, k and e", async () => {
    const { place } = await failedAgent();
    const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
    await go("#/task/agent-7");
    const timeline = page.getByRole("region", { name: "Timeline" });
    const selection = page.getByRole("region", { name: "Selection" });
    const selected = timeline.locator("button[aria-current]");
    await timeline.getByRole("button", { name: /^▸ Turns 1–39 78 steps · .* · 4,680 tokens/ }).waitFor();
    await timeline.getByText("4,820 tokens").waitFor();
    await timeline.getByRole("button", { name: /^▾ Turn 40 2 steps · / }).waitFor();

    await page.keyboard.press("e");
    await selection.getByRole("heading", { name: "tool" }).waitFor();
    await selection.getByText("quota exceeded", { exact: true }).waitFor();
    await page.keyboard.press("k");
    await selection.getByRole("region", { name: "Result of model" }).getByText('"tool 40"').waitFor();
    await page.getByRole("button", { name: "Retry from here …" }).click();
    expect(await page.getByLabel("Also run the steps again from this one on (optional)").inputValue()).toBe("model");
    await page.keyboard.press("Escape");

    await page.keyboard.press("Home");
    await expect.poll(() => selected.innerText()).toContain("Turns 1–39");
    await page.keyboard.press("Enter");
    for (const name of [/Turns 11–20/, /Turn 12 /]) await timeline.getByRole("button", { name }).click();
    // A step of a past turn shows its stored result.
    await timeline
      .getByRole("button", { name: /^model/ })
      .first()
      .click();
    await selection.getByRole("region", { name: "Result of model" }).getByText('"tool 12"').waitFor();
    expect(new URL(page.url()).hash).toMatch(/^#\/task\/agent-7\/at\/\d+$/);
    await page.reload();
    await selection.getByRole("region", { name: "Result of model" }).getByText('"tool 12"').waitFor();
    await timeline.getByRole("button", { name: /^▾ Turn 12 / }).waitFor();
    await page.keyboard.press("j");
    await selection.getByRole("region", { name: "Result of tool" }).getByText('"did 12"').waitFor();
    expect(await axeFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
  });

  it("puts the selection above the timeline on a phone", async () => {
    const { place } = await failedAgent();
    const [, size] = WINDOWS;
    const { page, go } = await openPage(browser, (await startUi(place)).url, size);
    await go("#/task/agent-7");
    const timeline = page.getByRole("region", { name: "Timeline" });
    const selection = page.getByRole("region", { name: "Selection" });
    const isAbove = async () => {
      const [one, other] = [await selection.boundingBox(), await timeline.boundingBox()];
      return (one?.y ?? 0) < (other?.y ?? 0);
    };
    await timeline.getByRole("button", { name: /^tool/ }).waitFor();
    expect(await isAbove()).toBe(false);
    await timeline.getByRole("button", { name: /^tool/ }).click();
    await selection.getByText("quota exceeded", { exact: true }).waitFor();
    expect(await isAbove()).toBe(true);
    expect(await isTooWide(page)).toBe(false);
  });
});
