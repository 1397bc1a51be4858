// @ts-check
// Looks at the pages in Chromium. `node site/in-chromium.mjs FOLDER` writes a picture of each into FOLDER, to be looked at.
import { once } from "node:events";
import { createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";
import { groups } from "./pages.mjs";

/** Debian's package `chromium`, or the one that CHROMIUM names. */
const CHROMIUM = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(
  (path) => path !== undefined && existsSync(path),
);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** The colours are the same in all widths. */
const VIEWS = /** @type {const} */ ([
  { width: 390, colorScheme: "light" },
  { width: 1280, colorScheme: "light" },
  { width: 1280, colorScheme: "dark" },
]);
/** Of the reference, a page of each kind: TypeDoc writes all pages of a kind alike. */
const OF_REFERENCE = [
  "api/index",
  "api/waymark/index",
  "api/waymark/classes/CheckpointManager",
  "api/waymark/interfaces/RunOptions",
  "api/waymark/functions/planRetention",
  "api/waymark/type-aliases/StateChange",
];
const TYPES = new Map([
  [".html", "text/html; charset=utf-8"],
  [".js", "text/javascript"],
  [".css", "text/css"],
  [".svg", "image/svg+xml"],
  [".woff2", "font/woff2"],
]);

/** The first lines of the blocks of code that are wider than the page shows. */
const CUT_CODE = `[...document.querySelectorAll(".vp-doc pre")].filter((pre) => pre.scrollWidth > pre.clientWidth)
  .map((pre) => pre.textContent.split("\\n").sort((a, b) => b.length - a.length)[0])`;
/** The scheme changes colours alone, so in the second one only they are looked at. */
const CONTRAST_ALONE = '{ runOnly: ["color-contrast", "link-in-text-block"] }';
const runAxe = (/** @type {string} */ options) => `axe.run(${options}).then(({ violations }) =>
  violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ target, failureSummary }) => target + ": " + failureSummary) })))`;

/** What axe finds, and pages that scroll sideways. None without Chromium. @param {string} site @returns {Promise<string[]>} */
export async function findingsInChromium(site) {
  if (CHROMIUM === undefined) {
    console.log("Not looked at in Chromium: it isn't installed (Debian's package chromium).");
    return [];
  }
  /** @type {string[]} */
  const findings = [];
  await visit(site, async (page, where) => {
    if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(AXE);
    const found = await page.evaluate(runAxe(where.includes("dark") ? CONTRAST_ALONE : ""));
    for (const { id, nodes } of found) findings.push(`axe, ${where}: ${id}\n  ${nodes.slice(0, 3).join("\n  ")}`);
    const beyond = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if (beyond > 0) findings.push(`${where}: the page scrolls sideways by ${beyond} px`);
    if (where.startsWith("api/")) return;
    const cut = await page.evaluate(CUT_CODE);
    for (const line of cut) findings.push(`${where}: a line of code is cut: ${line}`);
  });
  return findings;
}

/** @param {string} site @param {string} folder */
async function picture(site, folder) {
  mkdirSync(folder, { recursive: true });
  await visit(site, async (page, where) => {
    await page.screenshot({
      path: join(folder, `${where.replaceAll(/[/ ,]+/g, "-")}.png`),
      fullPage: process.argv.includes("--full"),
    });
  });
}

/**
 * Opens each page, in both widths and schemes.
 *
 * @param {string} site
 * @param {(page: import("playwright-core").Page, where: string) => Promise<void>} look
 */
async function visit(site, look) {
  const server = createServer((request, response) => {
    const file = join(site, decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname));
    const isThere = file.startsWith(site) && existsSync(file) && statSync(file).isFile();
    response.writeHead(isThere ? 200 : 404, { "content-type": TYPES.get(extname(file)) ?? "text/plain" });
    if (isThere) createReadStream(file).pipe(response);
    else response.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  // Chromium's sandbox doesn't work as root.
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  try {
    const page = await (await browser.newContext({ reducedMotion: "reduce" })).newPage();
    for (const path of paths(site)) {
      await page.goto(`http://127.0.0.1:${port}/${path}.html`);
      await page.waitForFunction("document.querySelector('#app')?.__vue_app__ !== undefined");
      for (const { width, colorScheme } of VIEWS) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        await page.waitForFunction(`document.documentElement.classList.contains("dark") === ${colorScheme === "dark"}`);
        await look(page, `${path}, ${colorScheme}, ${width} px`);
      }
    }
  } finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
  }
}

/** @param {string} site */
function paths(site) {
  const guides = groups.flatMap(({ pages }) => pages.map(({ path }) => path.replace(/\/$/, "/index")));
  const record =
    readdirSync(join(site, "decisions")).find((name) => name.endsWith(".html") && name !== "index.html") ?? "";
  return ["index", "all-pages", ...guides, `decisions/${record.replace(/\.html$/, "")}`, ...OF_REFERENCE];
}

if (process.argv[1] === import.meta.filename)
  await picture(join(import.meta.dirname, "dist"), process.argv[2] ?? "pictures");
