// @ts-check
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { printRow } from "./report.mjs";

const CHROMIUM = [process.env["CHROMIUM"] ?? "", "/usr/bin/chromium"].find((path) => existsSync(path));
const ROUNDS = 7;

/** A function for the page: waits until `isDone` is true in a drawn frame, and returns the time since `startMs`. */
const WAIT = `(isDone, startMs) => new Promise((resolve) => {
  const look = () => (isDone() ? requestAnimationFrame(() => resolve(performance.now() - startMs)) : requestAnimationFrame(look));
  look();
})`;

/**
 * Measures how long a person waits in Chromium: from opening the page until the first tasks are on the screen, and from
 * using a filter's key or button until its tasks are.
 *
 * @param {string} address - The address that `waymark ui` prints.
 */
export async function benchPage(address) {
  if (CHROMIUM === undefined) {
    console.log("The page isn't measured: there is no Chromium.");
    return;
  }
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  /** @type {number[]} */
  const paints = [];
  /** @type {number[]} */
  const filters = [];
  /** @type {number[]} */
  const prefixes = [];
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
      await page.goto(address);
      paints.push(await page.evaluate(`(${WAIT})(() => document.querySelector(".task-name") !== null, 0)`));
      await page.getByText("100,000 tasks").waitFor();
      filters.push(
        await page.evaluate(`(() => {
          const button = [...document.querySelectorAll("button[aria-pressed]")].find((one) => one.textContent.includes("failed"));
          button.click();
          const isDone = () => [...document.querySelectorAll("tr.row .status")].every((one) => one.textContent === "failed");
          return (${WAIT})(isDone, performance.now());
        })()`),
      );
      prefixes.push(
        await page.evaluate(`(() => {
          const scope = document.querySelector(".search select");
          scope.value = "prefix";
          scope.dispatchEvent(new Event("change", { bubbles: true }));
          const field = document.querySelector("input[type=search]");
          field.value = "tenant-7/";
          field.dispatchEvent(new InputEvent("input", { bubbles: true }));
          const isDone = () => [...document.querySelectorAll(".task-name")].every((one) => one.textContent.startsWith("tenant-7/"));
          return (${WAIT})(isDone, performance.now());
        })()`),
      );
      await page.close();
    }
  } finally {
    await browser.close();
  }
  printRow({ what: "page: the first tasks are on the screen", measuredMs: median(paints), limit: 500 });
  printRow({ what: "page: the failed tasks are shown", measuredMs: median(filters), limit: 100 });
  printRow({ what: "page: the failed tasks with a prefix are shown", measuredMs: median(prefixes), limit: 100 });
}

/** @param {number[]} values */
function median(values) {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
