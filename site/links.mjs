// @ts-check
import { posix } from "node:path";

/** A link or a picture that stands in the repository: its mark, words, path and anchor. */
const LINK = /(!?)\[((?:\\.|[^\]\\])*)\]\((?![a-z]+:|#|\/)([^)\s#]+)(#[^)\s]*)?\)/g;
/** A picture in HTML. */
const IN_HTML = /\b(src|srcset)="(?![a-z]+:|\/)([^"\s]+)"/g;

/**
 * Changes a page's links from places in the repository to places on the site. A link to a file that is no page leads to the
 * repository; if the repository's address is unknown, its text stays alone. Fenced code keeps its text.
 *
 * @param {string} markdown
 * @param {object} where
 * @param {string} where.source - The page's file, from the repository's root.
 * @param {ReadonlyMap<string, string>} where.paths - The path of each page, without its ending, by its file.
 * @param {string | undefined} where.home - The repository's address.
 */
export function withSiteLinks(markdown, { source, paths, home }) {
  const own = paths.get(source) ?? "";
  const pictureAt = (/** @type {string} */ link) => relativePath(own, pictureOf(fileAt(link, source)));
  return outsideOfFences(markdown, (text) =>
    text
      .replace(IN_HTML, (_all, attribute, link) => `${attribute}="${pictureAt(link)}"`)
      .replace(LINK, (_all, mark, words, link, anchor = "") => {
        if (mark !== "") return `![${words}](${pictureAt(link)})`;
        const file = fileAt(link, source);
        const path = paths.get(file);
        if (path !== undefined) return `[${words}](${relativePath(own, `${path}.md`)}${anchor})`;
        return home === undefined ? words : `[${words}](${home}/blob/HEAD/${file}${anchor})`;
      }),
  );
}

/** The files of a page's pictures, from the repository's root. @param {string} markdown @param {string} source */
export function picturesIn(markdown, source) {
  const links = [...markdown.matchAll(LINK)].filter(([, mark]) => mark !== "").map(([, , , link = ""]) => link);
  const inHtml = [...markdown.matchAll(IN_HTML)].map(([, , link = ""]) => link);
  return [...links, ...inHtml].map((link) => fileAt(link, source));
}

/** @param {string} link @param {string} source */
function fileAt(link, source) {
  return posix.join(posix.dirname(source), link);
}

/** Where a picture of the repository is on the site. @param {string} file */
export function pictureOf(file) {
  return `pictures/${posix.basename(file)}`;
}

/** @param {string} from - A page's path. @param {string} to */
function relativePath(from, to) {
  const path = posix.relative(posix.dirname(from), to);
  return path.startsWith(".") ? path : `./${path}`;
}

/**
 * Changes the text outside of fenced blocks.
 *
 * @param {string} markdown
 * @param {(text: string) => string} change
 */
function outsideOfFences(markdown, change) {
  // A fence is closed by as many marks as opened it, or more.
  return markdown
    .split(/(^[ \t]*(`{3,}|~{3,})[^\n]*\n[\s\S]*?^[ \t]*\2[`~]*[ \t]*$)/m)
    .map((part, index) => [change(part), part, ""][index % 3])
    .join("");
}
