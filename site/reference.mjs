// @ts-check
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";

/**
 * The first page of the reference: the names of every module, each with its link.
 *
 * @param {string} folder - What TypeDoc wrote.
 */
export function referencePage(folder) {
  const sections = modulesIn(folder).map(({ name, link }) => {
    const own = readFileSync(join(folder, ...link.split("/")), "utf8");
    const kinds = own
      .split(/^## /m)
      .slice(1)
      .map((section) => {
        const [kind = ""] = section.split("\n", 1);
        const links = linksIn(section).map((one) => `[${one.name}](./${posix.join(posix.dirname(link), one.link)})`);
        return `**${kind}:** ${links.join(", ")}\n`;
      });
    return [`## [${name}](./${link}) {#${name.replaceAll("/", "-")}}`, "", ...kinds].join("\n");
  });
  return [
    "# Reference",
    "",
    "Every name that you can import, by the name that you import it from.",
    "",
    ...sections,
  ].join("\n");
}

/** The modules by their import names. @param {string} folder - What TypeDoc wrote. */
export function modulesIn(folder) {
  return linksIn(readFileSync(join(folder, "index.md"), "utf8"));
}

/** @param {string} markdown */
function linksIn(markdown) {
  return [...markdown.matchAll(/^- \[([^\]]+)\]\(([^)]+)\)/gm)].map(([, name = "", link = ""]) => ({ name, link }));
}
