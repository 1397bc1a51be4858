// @ts-check
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig } from "vitepress";
import { homePage } from "../../scripts/home-page.mjs";
import { groups } from "../pages.mjs";
import { modulesIn } from "../reference.mjs";

const site = dirname(import.meta.dirname);
const home = homePage();
const { version } = JSON.parse(readFileSync(join(site, "../package.json"), "utf8"));

/** A waymark: a post with two arms. */
const ICON =
  "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><path fill='#7c68e8' d='M7 1h2v14H7zM9 2h4l2 2-2 2H9zM7 7H3L1 9l2 2h4z'/></svg>";

export default defineConfig({
  title: "Waymark",
  description: "Checkpoints of long-running TypeScript programs, so that a killed run resumes where it stopped.",
  lang: "en",
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  srcDir: ".pages",
  // TypeDoc's pages are many; without this each holds the whole configuration.
  metaChunk: true,
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    // GitHub's, so that a link's anchor is right in both places.
    anchor: { slugify },
    config: accessible,
  },
  themeConfig: {
    search: { provider: "local", options: { detailedView: true } },
    nav: [
      { text: "Guides", link: "/getting-started", activeMatch: "^/(?!api/|all-pages)" },
      { text: "Reference", link: "/api/", activeMatch: "^/api/" },
      { text: "All pages", link: "/all-pages" },
      { text: version, link: "/changelog" },
    ],
    sidebar: {
      "/": groups.map(({ title, pages }) => ({
        text: title,
        items: pages.map((page) => ({ text: page.title, link: `/${page.path}` })),
      })),
      "/api/": [
        { text: "Reference", link: "/api/" },
        ...modulesOfReference().map(({ name, link }) => ({
          text: name,
          link: `/api/${link.replace(/index\.md$/, "")}`,
        })),
      ],
    },
    outline: { level: [2, 3] },
    docFooter: { prev: "Before", next: "Next" },
    ...(home !== undefined && { socialLinks: [{ icon: "github", link: home, ariaLabel: "The repository" }] }),
  },
});

function modulesOfReference() {
  const folder = join(site, ".api");
  return existsSync(folder) ? modulesIn(folder) : [];
}

/** @param {import("vitepress").MarkdownRenderer} markdown */
function accessible({ core }) {
  core.ruler.push("accessible", ({ tokens }) => {
    tokens.forEach((token, index) => {
      const next = tokens[index + 1];
      // An empty cell in a table's head heads nothing: for a screen reader it is a cell like others.
      if (token.type === "th_open" && next?.content === "")
        for (const cell of [token, tokens[index + 2]]) if (cell !== undefined) cell.tag = "td";
      // On a phone a picture scrolls, by the keyboard too.
      const isPicture = token.type === "paragraph_open" && next?.children?.some(({ type }) => type === "image");
      if (isPicture) token.attrSet("tabindex", "0");
    });
  });
}

/** @param {string} heading */
function slugify(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");
}
