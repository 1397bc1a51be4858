// @ts-check
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const MOST_CLICKS = 2;

/** @typedef {{ readonly links: readonly string[], readonly ids: ReadonlySet<string> }} Page */

/**
 * What is wrong with the links of a built site: those that lead nowhere, and pages that are far from the start.
 *
 * @param {string} folder
 * @returns {string[]}
 */
export function linkFindings(folder) {
  const pages = new Map(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".html") && name !== "404.html")
      .map((name) => [name.replaceAll("\\", "/"), pageIn(readFileSync(join(folder, name), "utf8"))]),
  );
  const dead = [...pages].flatMap(([from, { links }]) =>
    links.filter((link) => !leadsSomewhere(link, from, pages, folder)).map((link) => `Dead link in ${from}: ${link}`),
  );
  const near = pagesNear("index.html", pages);
  const far = [...pages.keys()].filter((name) => !near.has(name)).map((name) => `More than two clicks away: ${name}`);
  return [...dead, ...far, ...deadInText(folder, "llms.txt")];
}

/** @param {string} html @returns {Page} */
function pageIn(html) {
  return {
    links: [...html.matchAll(/<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)"/g)].map(([, link = ""]) =>
      unescaped(link),
    ),
    ids: new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id = ""]) => unescaped(id))),
  };
}

/**
 * @param {string} link
 * @param {string} from
 * @param {ReadonlyMap<string, Page>} pages
 * @param {string} folder
 */
function leadsSomewhere(link, from, pages, folder) {
  if (/^[a-z]+:/.test(link)) return true;
  const [path = "", anchor = ""] = link.split("#");
  const file = fileOf(path, from);
  const page = pages.get(file);
  if (page === undefined) return existsSync(join(folder, file));
  return anchor === "" || page.ids.has(decodeURIComponent(anchor));
}

/** The pages at most so many clicks from the start. @param {string} start @param {ReadonlyMap<string, Page>} pages */
function pagesNear(start, pages) {
  const near = new Set([start]);
  for (let click = 1; click <= MOST_CLICKS; click++)
    for (const from of [...near])
      for (const link of pages.get(from)?.links ?? [])
        if (!/^[a-z]+:/.test(link)) near.add(fileOf(link.replace(/#.*/s, ""), from));
  return near;
}

/** @param {string} folder @param {string} name */
function deadInText(folder, name) {
  return [...readFileSync(join(folder, name), "utf8").matchAll(/\]\(([^)#]+)/g)]
    .map(([, link = ""]) => link)
    .filter((link) => !existsSync(join(folder, link)))
    .map((link) => `Dead link in ${name}: ${link}`);
}

/** The file that a link's path names. @param {string} path @param {string} from */
function fileOf(path, from) {
  if (path === "") return from;
  const file = decodeURIComponent(new URL(path, `file:///${from}`).pathname).slice(1);
  return file === "" || file.endsWith("/") ? `${file}index.html` : file;
}

/** @param {string} text */
function unescaped(text) {
  return text
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
}
