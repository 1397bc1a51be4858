// @ts-check
// `npm run site`: builds the site into site/dist, as static files. `-- --base /waymark/` is where the server has it.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseArgs } from "node:util";
import { homePage } from "../scripts/home-page.mjs";
import { writeForAgents } from "./for-agents.mjs";
import { installPackages } from "./install.mjs";
import { pictureOf, picturesIn, withSiteLinks } from "./links.mjs";
import { groups } from "./pages.mjs";
import { referencePage } from "./reference.mjs";

const here = import.meta.dirname;
const root = dirname(here);
const api = join(here, ".api");
const staged = join(here, ".pages");
const out = join(here, "dist");
const { values: options } = parseArgs({ options: { base: { type: "string", default: "/" } } });

installPackages(here);
refuseForgottenPages();
for (const folder of [api, staged, out]) rmSync(folder, { recursive: true, force: true });
stageGuides();
stageReference();
const { build } = await import("vitepress");
await build(here, { base: options.base, outDir: out });
writeForAgents({ staged, api, out });
console.log(`The site is in ${relative(process.cwd(), out)}.`);

/** A page that no list names couldn't be found. */
function refuseForgottenPages() {
  const listed = new Set(groups.flatMap(({ pages }) => pages.map(({ source }) => source)));
  const forgotten = readdirSync(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .filter((name) => !listed.has(`docs/${name}`));
  if (forgotten.length === 0) return;
  throw new Error(
    `site/pages.mjs doesn't list ${forgotten.map((name) => `docs/${name}`).join(", ")}: add each to a group.`,
  );
}

/** Copies the guides into the site's own layout. */
function stageGuides() {
  const paths = new Map(
    groups.flatMap(({ pages }) => pages.map(({ source, path }) => [source, path.replace(/\/$/, "/index")])),
  );
  for (const name of decisions()) paths.set(`docs/decisions/${name}`, `decisions/${name}`.replace(/\.md$/, ""));
  const home = homePage();
  for (const [source, path] of paths) {
    const markdown = readFileSync(join(root, source), "utf8");
    write(`${path}.md`, withSiteLinks(markdown, { source, paths, home }));
    for (const file of picturesIn(markdown, source)) cpSync(join(root, file), join(staged, pictureOf(file)));
  }
  cpSync(join(here, "index.md"), join(staged, "index.md"));
  write("all-pages.md", allPages());
}

/** TypeDoc writes the reference as Markdown: so it has the guides' search, dark mode and navigation. */
function stageReference() {
  execFileSync(
    process.execPath,
    [join(root, "node_modules/typedoc/bin/typedoc"), "--options", join(here, "typedoc.json")],
    {
      cwd: root,
      stdio: "inherit",
    },
  );
  cpSync(api, join(staged, "api"), { recursive: true });
  write("api/index.md", referencePage(api));
}

function decisions() {
  return readdirSync(join(root, "docs/decisions")).filter((name) => name !== "README.md");
}

/** From here each guide is one click away; the reference lists its own pages. */
function allPages() {
  const guides = groups.flatMap(({ title, pages }) => [
    `## ${title}`,
    "",
    ...pages.map(({ path, title, about }) => `- [${title}](./${path.replace(/\/$/, "/index")}.md): ${about}`),
    "",
  ]);
  const records = decisions().map((name) => {
    const [, title = name] = /^# (.*)/m.exec(readFileSync(join(root, "docs/decisions", name), "utf8")) ?? [];
    return `- [${title}](./decisions/${name})`;
  });
  return [
    "# All pages",
    "",
    "The [reference](./api/index.md) has a page for each name that you can import.",
    "",
    ...guides,
    "## Decisions, one by one",
    "",
    ...records,
    "",
  ].join("\n");
}

/** @param {string} path @param {string} text */
function write(path, text) {
  const file = join(staged, ...path.split("/"));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
