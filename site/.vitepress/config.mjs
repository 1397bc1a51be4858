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

const LOGO = `data:image/svg+xml,${encodeURIComponent(ICON)}`;

export default defineConfig({
  title: "Waymark",
  description:
    "Resumable runs for long-running TypeScript programs: kill one anywhere, start it again, and it continues.",
  lang: "en",
  head: [["link", { rel: "icon", href: LOGO }]],
  transformPageData(page) {
    const guide = groups
      .flatMap(({ pages }) => pages)
      .find(({ path }) => `${path.replace(/\/$/, "/index")}.md` === page.relativePath);
    page.description = guide?.about ?? "";
    // A page that is made from others has no source to edit.
    page.frontmatter["editLink"] = guide !== undefined;
    page.frontmatter["editUrl"] = `${home}/edit/main/${guide?.source}`;
  },
  transformHead: ({ pageData, title, description }) => [
    ["meta", { property: "og:type", content: "article" }],
    ["meta", { property: "og:site_name", content: "Waymark" }],
    ["meta", { property: "og:title", content: pageData.title === "" ? title : pageData.title }],
    ["meta", { property: "og:description", content: description }],
  ],
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
    logo: LOGO,
    search: {
      provider: "local",
      options: {
        detailedView: true,
        // Who searches for a word wants the guide first. VitePress copies the function into the page, so it is self-contained.
        miniSearch: { searchOptions: { boostDocument: (id) => (String(id).includes("/api/") ? 0.2 : 1) } },
      },
    },
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
    ...(home !== undefined && {
      socialLinks: [{ icon: "github", link: home, ariaLabel: "The repository" }],
      editLink: { text: "Edit this page", pattern: ({ frontmatter }) => frontmatter["editUrl"] },
    }),
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
