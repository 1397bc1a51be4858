import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";
import { onTestFinished } from "vitest";
import { type Place, start } from "../waymark.js";

/** The path of Debian's Chromium, or of the browser that CHROMIUM names. */
export const CHROMIUM = [
  process.env["CHROMIUM"],
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => path !== undefined && existsSync(path));

export function launch(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error("There is no Chromium.");
  // Root may not use Chromium's sandbox, and CI runs as root.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/** Starts `waymark ui` as a person would. It ends with the test. */
export async function startUi(
  place: Place,
  args: readonly string[] = [],
): Promise<{ readonly url: string; readonly stop: () => Promise<void> }> {
  const child: ChildProcess = start(place, ["ui", "--no-open", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  const stop = async () => {
    child.kill("SIGINT");
    await ended;
  };
  onTestFinished(stop);
  if (child.stdout === null) throw new Error("Its standard output is a pipe.");
  for await (const line of createInterface({ input: child.stdout })) return { url: line, stop };
  throw new Error("waymark ui ended without printing its address.");
}

export interface OpenedPage {
  readonly page: Page;
  /** Goes to a place of the page, as a link does. */
  readonly go: (fragment: string) => Promise<void>;
  /** The findings that a page must not have: errors, warnings, requests to other servers. */
  readonly problems: readonly string[];
}

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: "light" | "dark";
}

/** Opens the page in a new profile. */
export async function openPage(browser: Browser, url: string, options: PageOptions = {}): Promise<OpenedPage> {
  const { width = 1280, height = 800, colorScheme = "light" } = options;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  onTestFinished(() => context.close());
  // This time limit is for a test that hangs. Playwright's default of half a minute is short on a busy machine.
  context.setDefaultTimeout(100_000);
  const page = await context.newPage();
  const problems: string[] = [];
  const { origin } = new URL(url);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(String(error.stack)));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const its = new URL(request.url());
    if (its.protocol !== "data:" && its.origin !== origin) problems.push(`request: ${request.url()}`);
    if (its.search !== "") problems.push(`something is in a URL: ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("h1");
  const go = async (fragment: string) => {
    await page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
  };
  return { page, go, problems };
}

/** Returns the findings of axe on the current page. */
export async function axeFindings(page: Page): Promise<string[]> {
  // A call of the debugger isn't stopped by the page's own policy.
  await page.evaluate(`${axe.source};0`);
  const found: unknown = await page.evaluate(
    "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' | ')))",
  );
  return Array.isArray(found) ? found.map(String) : [String(found)];
}

/** Whether the page is wider than its window. */
export function isTooWide(page: Page): Promise<boolean> {
  return page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth");
}

export function copiedText(page: Page): Promise<string> {
  return page.evaluate<string>("navigator.clipboard.readText()");
}

export function focusedText(page: Page): Promise<string> {
  return page.evaluate<string>("document.activeElement.textContent");
}
