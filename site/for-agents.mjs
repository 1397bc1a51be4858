// @ts-check
// What programs read: llms.txt lists the pages, llms-full.txt holds the guides, and each page is there as Markdown beside its HTML.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { groups } from "./pages.mjs";
import { modulesIn } from "./reference.mjs";

const SUMMARY = [
  "# Waymark",
  "",
  "> Waymark saves checkpoints of long-running TypeScript programs, so that a killed run resumes where it stopped. No server, no",
  "> account: a library and a command over files, SQLite or PostgreSQL.",
  "",
];

/**
 * @param {object} folders
 * @param {string} folders.staged - The pages.
 * @param {string} folders.api - What TypeDoc wrote.
 * @param {string} folders.out - The site.
 */
export function writeForAgents({ staged, api, out }) {
  for (const file of readdirSync(staged, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".md")) continue;
    mkdirSync(dirname(join(out, file)), { recursive: true });
    cpSync(join(staged, file), join(out, file));
  }
  cpSync(join(staged, "pictures"), join(out, "pictures"), { recursive: true });
  const markdownOf = (/** @type {string} */ path) => `${path.replace(/\/$/, "/index")}.md`;
  const lists = groups.flatMap(({ title, pages }) => [
    `## ${title}`,
    "",
    ...pages.map(({ path, title, about }) => `- [${title}](${markdownOf(path)}): ${about}`),
    "",
  ]);
  const modules = modulesIn(api);
  const reference = [
    "## Reference",
    "",
    ...modules.map(({ name, link }) => `- [${name}](api/${link}): what you can import from it.`),
  ];
  const all =
    "All guides in one file: [llms-full.txt](llms-full.txt). Types and their documentation also come with the package.";
  writeFileSync(join(out, "llms.txt"), [...SUMMARY, all, "", ...lists, ...reference, ""].join("\n"));
  const guides = groups
    .flatMap(({ pages }) => pages)
    .map(({ path }) => `<!-- ${markdownOf(path)} -->\n\n${readFileSync(join(staged, markdownOf(path)), "utf8")}`);
  writeFileSync(join(out, "llms-full.txt"), [...SUMMARY, ...guides].join("\n"));
}
